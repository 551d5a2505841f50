"""The bench of two ways, small: both directions pass their rows, and it does not believe sites that differ."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import pytest

from bench.harness.network import Network
from bench.harness.servers import MariaDb, Postgres
from bench.sites.topology import named
from bench.two_way import crossed, shown
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


def test_a_part_that_is_not_there_is_told() -> None:
    with pytest.raises(Exception, match=f"there are {', '.join(PARTS)}"):
        command(parts="nothing")


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
