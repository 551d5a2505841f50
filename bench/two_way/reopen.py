"""Time that a pair with a permit takes to hold once its lines are cut, and to apply again once they are whole."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from bench.harness.network import Direction, Network, Node
from bench.harness.rig import until
from bench.harness.servers import Server
from bench.sites.tied import tied
from bench.sites.topology import PERMIT, PROBE, named
from tidelock.adapters.bookkeeping.permits import PermitWord, read_word

CUT_SECONDS: Final = 20.0
LONGEST_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 0.02
AT_ONCE: Final = 500
OF_SITE: Final = 100_000_000
OF_CUT: Final = 1_000_000
"""Numbers of keys that a site, and one cut, has for itself."""


@dataclasses.dataclass(frozen=True)
class Reopening:
    """Seconds.  `cut`: how long lines were cut; `held`: from the cut until both feeds say that they hold.

    From when lines are whole again: `flows`, by edge, until the first of the rows is there that its source's site wrote
    meanwhile (`changes` at each); `level`, until all are; `opened`, until both feeds say that they apply, which they do
    once a second.  `permit`: of the feeds.
    """

    pair: str
    permit: Mapping[str, str]
    changes: int
    cut: float
    held: float
    flows: Mapping[str, float]
    level: float
    opened: float
    load: float

    def __str__(self) -> str:
        flows = ", ".join(f"{edge} {seconds:.2f} s" for edge, seconds in self.flows.items())
        return (
            f"{self.pair}: holds {self.held:.1f} s after the cut; once lines are whole, first rows {flows}, all "
            f"{self.changes:,} of each site {self.level:.2f} s; says so {self.opened:.1f} s"
        )


def measured(
    pair: str, servers: Mapping[str, Server], folder: Path, changes: int, rounds: int, cut: float = CUT_SECONDS
) -> Iterator[Reopening]:
    """`servers`: of eu and us.  Raises AssertionError where feeds do not hold, or do not apply again."""
    with tied(named(pair), folder, servers) as network:
        network.run()
        for number in range(rounds):
            yield _cut(pair, network, number, changes, cut)
        for feed in network.feeds.values():
            feed.stop()


def _cut(pair: str, network: Network, number: int, changes: int, seconds: float) -> Reopening:
    feeds = network.feeds
    until(lambda: all(map(applies, feeds.values())), "feeds that apply", LONGEST_SECONDS)
    links = [feed.link for feed in feeds.values() if feed.link is not None]
    begun = time.monotonic()
    for link in links:
        link.part()
    first = {site: place * OF_SITE + number * OF_CUT for place, site in enumerate(network.nodes, 1)}
    for site, node in network.nodes.items():
        _write(node, first[site], changes)
    held = _when({"": lambda: all(map(holds, feeds.values()))}, begun)[""]
    assert not any(_there(feed.target, first[feed.source.site]) for feed in feeds.values()), "it went through a cut"
    time.sleep(max(0.0, begun + seconds - time.monotonic()))  # it is what lasts
    for link in links:
        link.mend()
    whole = time.monotonic()
    found = _when(
        {
            "level": lambda: all(_reaches(feed, first, changes) for feed in feeds.values()),
            **{edge: partial(_reaches, feed, first, 1) for edge, feed in feeds.items()},
            "opened": lambda: all(map(applies, feeds.values())),
        },
        whole,
    )
    return Reopening(
        pair=pair,
        permit=PERMIT,
        changes=changes,
        cut=round(whole - begun, 3),
        held=held,
        flows={edge: found[edge] for edge in feeds},
        level=found["level"],
        opened=found["opened"],
        load=round(os.getloadavg()[0], 2),
    )


def _when(asked: Mapping[str, Callable[[], bool]], since: float) -> dict[str, float]:
    """Returns, for each, the seconds from `since` until it was so; of what follows from another, behind that one."""
    found: dict[str, float] = {}
    while len(found) < len(asked):
        now = round(time.monotonic() - since, 3)
        found |= {name: now for name, true in asked.items() if name not in found and true()}
        missing = ", ".join(asked.keys() - found.keys())
        assert time.monotonic() < since + LONGEST_SECONDS, f"{missing}: not within {LONGEST_SECONDS:.0f} s"
        time.sleep(LOOK_SECONDS)
    return found


def _write(node: Node, first: int, changes: int) -> None:
    for key in range(first, first + changes, AT_ONCE):
        rows = ", ".join(f"({row}, 0)" for row in range(key, min(key + AT_ONCE, first + changes)))
        node.send(f"INSERT INTO {PROBE} VALUES {rows}")


def _reaches(feed: Direction, first: Mapping[str, int], changes: int) -> bool:
    return _there(feed.target, first[feed.source.site]) >= changes


def _there(node: Node, first: int) -> int:
    """How many rows of one site and one cut the node has."""
    told = f"SELECT CONCAT(count(*), '') FROM {PROBE} WHERE id >= {first} AND id < {first + OF_CUT}"
    return int(node.rows(told)[0][0])


def applies(feed: Direction) -> bool:
    """Does it say that its permit lets it?"""
    said = _word(feed)
    return said is not None and said.ready and not said.held


def holds(feed: Direction) -> bool:
    said = _word(feed)
    return said is not None and bool(said.held)


def _word(feed: Direction) -> PermitWord | None:
    if feed.process is not None:
        feed.process.check()
    rows = feed.target.rows(f"SELECT permit FROM {feed.books}.tidelock_runs WHERE feed = '{feed.name}'")
    return read_word(rows[0][0]) if rows else None
