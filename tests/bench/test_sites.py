"""Counts of a run of sites, and a short run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.sites.intents import unaccounted
from bench.sites.lags import Lag, spread
from bench.sites.run import run
from bench.sites.topology import Unknown, named
from bench.sites.written import Written

CHAIN = [
    Written("eu-1", ""), Written("eu-2", "eu-1"), Written("us-1", "eu-1"), Written("us-2", ""), Written("", "us-2"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("standing", "lost", "silent"),
    [
        ({"us-1"}, {"eu-2"}, []),  # eu-1 was seen by both, us-2 by a delete
        ({"us-1"}, set(), ["eu-2"]),
        (set(), {"eu-2"}, ["us-1"]),
    ],
)
def test_a_change_stands_or_was_seen_by_its_successor_or_is_told(
    standing: set[str], lost: set[str], silent: list[str]
) -> None:
    assert unaccounted(CHAIN, standing, lost) == silent


def test_networks_have_names() -> None:
    pair, star, ring = named("mysql-postgres"), named("star"), named("ring")
    assert (pair.sites, pair.arbiter) == ({"eu": "mysql", "us": "postgres"}, "eu")
    assert (len(star.sites), len(star.edges), star.conflicts["arbiter"]) == (4, 6, "hub")
    assert "stamp" in ring.conflicts and ring.tables("shop") == [{"source": "shop.account*"}]
    with pytest.raises(Unknown, match="two of mariadb, mysql, postgres"):
        named("oracle-postgres")


def test_lags_are_told_by_their_kind() -> None:
    lags = [Lag(0.0, "us", kind, n / 100) for kind in ("arrival", "echo") for n in range(200, 0, -1)]
    assert spread(lags, "echo") == (200, 1.01, 1.98, 2.0)
    assert spread(lags, "coverage")[0] == 0


@pytest.mark.proof
@pytest.mark.parametrize("name", ["mariadb-postgres", "star", "ring"])
def test_sites_that_are_all_written_to_end_equal(name: str, tmp_path: Path) -> None:
    result = run(named(name), minutes=1.0, rate=100.0, seed=1, keys=2000, folder=tmp_path)
    assert result.faults == [], str(result)
    assert sum(result.conflicts.values()) > 0 or name == "ring"
    assert {lag.kind for lag in result.lags} == (set() if name == "ring" else {"arrival", "coverage", "echo"})
