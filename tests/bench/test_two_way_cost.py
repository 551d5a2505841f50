"""The bench of two ways, small: both directions pass their rows, and it does not believe sites that differ."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.harness.servers import MariaDb, Postgres
from bench.two_way import both, shown
from bench.two_way.both import Both, Round
from bench.two_way.command import PARTS, command


def test_a_ratio_is_of_one_round() -> None:
    took = ((1.0, 4.0), (2.0, 2.0), (4.0, 4.0))
    rounds = [dataclasses.asdict(Round("a–b", 100, one, 1.0, two, 0.0)) for one, two in took]
    assert "| a–b | 50 | 50 | 2.00 | 100 |" in shown.both({"pairs": {"a–b": rounds}})


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
def test_both_directions_at_once(
    mariadb: MariaDb, postgres_source: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list(both.rounds("mariadb–postgres", [mariadb, postgres_source], tmp_path, 200, 2, 1))
    assert [one.changes for one in found] == [200, 200]
    assert all(min(one.one, one.passing, one.both) > 0 for one in found)
    caught_up = Both.catch_up

    def spoil(self: Both, *edges: str) -> float:
        took = caught_up(self, *edges)
        self._network["us"].send("UPDATE at_eu SET payload = 'spoiled' WHERE id = 1")
        return took

    monkeypatch.setattr(Both, "catch_up", spoil)
    with pytest.raises(AssertionError, match="rows of at_eu differ"):
        list(both.rounds("mariadb–postgres", [mariadb, postgres_source], tmp_path, 200, 1, 1))
