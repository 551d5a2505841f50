"""Setups that are measured: one way to run a feed, and the ways that a command line asks for.

A setup is everything that can be chosen about a run; two runs of the same setup differ only by chance.  Setups that are
to be compared are run in turn, round by round, so that a machine that grows busy hurts all of them alike.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.workload.named import NAMED

SERVERS: Final[Mapping[str, type[Server]]] = {"mariadb": MariaDb, "mysql": MySql, "postgres": Postgres}
SOURCES: Final = ("mariadb", "mysql", "postgres")
TARGETS: Final = ("postgres", "mariadb", "mysql")
CONSISTENCIES: Final = ("row", "transaction")
COMMITS: Final = ("async", "sync")
FULL, DEFAULT = "full", "default"
IDENTITIES: Final = (FULL, DEFAULT)
TIDELOCK, SERIAL = "tidelock", "serial"
SITES: Final = {"sites": {"source": "a", "target": "b", "sister": "back"}}
TWO_WAY: Final[Mapping[str, Mapping[str, Any]]] = {
    "": {},
    "sites": SITES,
    "up": {**SITES, "conflicts": {"arbiter": "b", "default": "arrival"}},
    "down": {**SITES, "conflicts": {"arbiter": "a", "default": "arrival"}},
}
"""What a feed of two sites has in its YAML: names alone, or those and an arbiter at its target or its source."""


@dataclasses.dataclass(frozen=True)
class Setup:
    """`commit`: whether the target waits for its disk (`sync`) or not (`async`).  `delay_ms`: to the target, each way.

    `identity`: what the tables of a PostgreSQL source log of a row before its change.
    `two_way`: a word of TWO_WAY; nobody writes at the target.
    `settings`: all other keys of the feed.  `system`: `tidelock`, or `serial`: row by row (`bench.e2e.serial`).
    """

    workload: str = "mix"
    source: str = "mariadb"
    target: str = "postgres"
    lanes: int = 8
    consistency: str = "row"
    commit: str = "async"
    delay_ms: float = 0.0
    settings: tuple[tuple[str, Any], ...] = ()
    system: str = TIDELOCK
    identity: str = FULL
    two_way: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """The feed's keys; MySQL and MariaDB as targets wait for the disk or not by their own settings."""
        commit = {"synchronous_commit": True} if self.commit == "sync" and self.target == "postgres" else {}
        kept = {"lanes": self.lanes, "consistency": self.consistency, **commit, **TWO_WAY[self.two_way]}
        return {**kept, **dict(self.settings)}

    @property
    def label(self) -> str:
        """One line for a screen and a table; unique among different setups."""
        parts = [self.workload, f"{self.source}→{self.target}"]
        if self.system == TIDELOCK:
            parts += [f"{self.lanes} lanes" if self.lanes > 1 else "1 lane"]
            parts += [self.consistency] if self.consistency != "row" else []
        else:
            parts.append(self.system)
        parts += [f"identity {self.identity}"] if self.identity != FULL else []
        parts += [self.commit] if self.commit != "async" else []
        parts += [self.two_way] if self.two_way else []
        parts += [f"{self.delay_ms:g} ms each way"] if self.delay_ms else []
        return ", ".join([*parts, *(f"{key} {value}" for key, value in self.settings)])


def every(
    workloads: Sequence[str],
    pairs: Sequence[str],
    lanes: Sequence[int],
    consistencies: Sequence[str],
    commits: Sequence[str],
    delays_ms: Sequence[float],
    settings: Sequence[str],
    serial: bool,
    identities: Sequence[str] = (FULL,),
    two_ways: Sequence[str] = ("",),
) -> Iterator[Setup]:
    """All combinations; workloads change slowest.  Raises ValueError for what does not exist."""
    chosen = tuple(map(_setting, settings))
    for name, given, known in (
        ("workload", workloads, tuple(NAMED)),
        ("consistency", consistencies, CONSISTENCIES),
        ("commit", commits, COMMITS),
        ("identity", identities, IDENTITIES),
        ("way to go two ways", two_ways, tuple(TWO_WAY)),
    ):
        if unknown := set(given) - set(known):
            raise ValueError(f"no {name} {', '.join(sorted(unknown))}: there are {', '.join(known)}")
    for workload, pair in itertools.product(workloads, pairs):
        source, target = _pair(pair)
        for commit, delay_ms in itertools.product(commits, delays_ms):
            if serial:
                if target != "postgres" or source == "postgres":
                    raise ValueError(
                        "row-by-row apply, for comparison, is written for PostgreSQL targets only, and for binary logs"
                    )
                yield Setup(workload, source, target, 1, "transaction", commit, delay_ms, (), SERIAL)
            told = identities if source == "postgres" else (FULL,)
            for identity, consistency, count, two_way in itertools.product(told, consistencies, lanes, two_ways):
                setup = Setup(workload, source, target, count, consistency, commit, delay_ms, chosen)
                yield dataclasses.replace(setup, identity=identity, two_way=two_way)


def _pair(text: str) -> tuple[str, str]:
    source, _, target = text.partition(":")
    if source not in SOURCES or target not in TARGETS:
        raise ValueError(f"no pair {text}: SOURCE:TARGET, of {', '.join(SOURCES)} and {', '.join(TARGETS)}")
    return source, target


def _setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text}: a setting is KEY=VALUE, with a key of the feed")
    return key.strip(), yaml.safe_load(value)
