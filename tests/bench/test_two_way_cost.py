"""The bench of two ways, small: both directions pass their rows, and it does not believe sites that differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.harness.servers import MariaDb, Postgres
from bench.two_way import both
from bench.two_way.both import Both, Round, row
from bench.two_way.command import PARTS, command


def test_a_ratio_is_of_one_round() -> None:
    rounds = [Round("a–b", 100, one, 1.0, two, 0.0) for one, two in ((1.0, 4.0), (2.0, 2.0), (4.0, 4.0))]
    assert row(rounds) == ["a–b", "50", "50", "2.00", "100"]


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
