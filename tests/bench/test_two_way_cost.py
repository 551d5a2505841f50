"""The bench of two ways, small: both directions pass their rows, and it does not believe sites that differ."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import pytest

from bench.harness.network import Network
from bench.harness.servers import MariaDb, Postgres
from bench.sites.topology import named
from bench.two_way import crossed, lags, reopen, shown
from bench.two_way.both import BACK, OUT, Both, Round
from bench.two_way.command import PARTS, command


def test_a_ratio_is_of_one_round() -> None:
    took = ((1.0, 4.0), (2.0, 2.0), (4.0, 4.0))
    rounds = [dataclasses.asdict(Round("a–b", 100, one, 1.0, two, 0.0)) for one, two in took]
    assert "| a–b | 50 | 50 | 2.00 | 100 |" in shown.both({"pairs": {"a–b": rounds}})


def test_what_crossed_is_shown_in_medians() -> None:
    legs = [crossed.Leg(2.0, 100, {"run": ms / 10, "capture": 0.1, "target": 0.2}) for ms in (1, 3, 4)]
    rounds = [dataclasses.asdict(crossed.Round("a-b", 100, 40, leg, leg, 0.0)) for leg in legs]
    line = "| a-b | 40% | 50 | 4.000, 2.000 | 50 | 4.000, 2.000 |"
    assert line in shown.crossed({"pairs": {"a-b": rounds}})


def test_marks_are_counted_against_the_same_feed_without() -> None:
    octets = (("plain", 100.0, None), ("sites", 130.0, "plain"), ("plain", 50.0, None), ("sites", 71.0, "plain"))
    setups = [{"label": label, "against": of, "target_log_bytes_a_change": {"median": n}} for label, n, of in octets]
    assert [line.split(" | ")[2] for line in shown.marks({"setups": setups}).splitlines()[2:]] == [
        "– |", "+30 |", "– |", "+21 |"
    ]  # fmt: skip


def test_lags_and_cuts_have_a_line_each() -> None:
    found = {"lags": [{"pair": "a-b", "rate": rate, "lags": {"echo": (2, 0.1, 0.2, 0.2)}} for rate in (0.0, 500.0)]}
    assert shown.lags(found).splitlines()[2:] == [
        "| a-b, nobody else writes | echo | 2 | 0.100 | 0.200 | 0.200 |",
        "| a-b, 500 changes/s at each site | echo | 2 | 0.100 | 0.200 | 0.200 |",
    ]
    flows = {"eu>us": 0.5, "us>eu": 1.5}
    cuts = [{"pair": "a-b", "held": 10.0, "flows": flows, "level": level} for level in (2.0, 4.0, 3.0)]
    assert shown.reopen({"cuts": cuts}).splitlines()[2:] == ["| a-b | 3 | 10.00 | 1.50 | 3.00 | 4.00 |"]


def test_a_part_that_is_not_there_is_told() -> None:
    with pytest.raises(Exception, match=f"there are {', '.join(PARTS)}"):
        command(parts="nothing")


@pytest.mark.proof
def test_a_pair_is_probed(mariadb: MariaDb, postgres_source: Postgres, tmp_path: Path) -> None:
    idle, busy = lags.measured("mariadb-postgres", {"eu": mariadb, "us": postgres_source}, tmp_path, 3, 1)
    assert (idle.rate, busy.rate) == lags.RATES
    for found in (idle, busy):
        assert list(found.lags) == ["arrival", "coverage", "echo"]
        assert all(times >= 3 and 0 < p50 <= p99 for times, p50, p99, _ in found.lags.values())


@pytest.mark.proof
def test_a_pair_holds_through_a_cut_and_opens(mariadb: MariaDb, postgres_source: Postgres, tmp_path: Path) -> None:
    servers = {"eu": mariadb, "us": postgres_source}
    (found,) = reopen.measured("mariadb-postgres", servers, tmp_path, 1_200, 1, cut=1.0)
    after = float(found.permit["after"].removesuffix("s"))
    assert after / 2 < found.held <= found.cut, "it holds after so much silence, and the cut lasts until it does"
    assert found.flows.keys() == {OUT, BACK} and max(found.flows.values()) <= found.level


@pytest.mark.proof
def test_both_directions_at_once(mariadb: MariaDb, postgres_source: Postgres, tmp_path: Path) -> None:
    network = Network(tmp_path, {"eu": mariadb, "us": postgres_source}, (OUT, BACK))
    with contextlib.closing(network):
        pair = Both(network, seed=1)
        one = pair.round("mariadb–postgres", 200)
        assert one.changes == 200 and min(one.one, one.passing, one.both) > 0
        network["us"].send("UPDATE at_eu SET payload = 'spoiled'")
        with pytest.raises(AssertionError, match="rows of at_eu differ"):
            pair.compare()


@pytest.mark.proof
def test_rows_that_both_sites_write(mariadb: MariaDb, postgres_source: Postgres, tmp_path: Path) -> None:
    topology = named("mariadb-postgres")
    servers = {"eu": mariadb, "us": postgres_source}
    (one,) = crossed.rounds(topology, servers, tmp_path, changes=400, count=1, seed=1)
    assert 0 < one.conflicts <= 400 and one.up.rows == one.down.rows == 400
