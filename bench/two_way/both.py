"""Both directions of a pair at once, against one alone, and what it takes to pass what the other has brought.

Each round makes a backlog at one site and has its feed catch up; then the way back passes what came and leaves it out;
then both sites get a backlog and both feeds catch up at once.  Each site writes a table of its own, so nothing is in
conflict; both feeds take both tables.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.e2e.backlog import durability, unhurried
from bench.harness.network import Direction, Network, Node
from bench.harness.servers import Postgres, Server
from bench.harness.tidelock import Process
from bench.harness.workload.mix import Mix

CATCH_UP_SECONDS: Final = 900.0
OUT, BACK = "eu>us", "us>eu"
LANES: Final = 8


@dataclasses.dataclass(frozen=True)
class Round:
    """Seconds from the start of processes to the end of the last: `one` direction; `passing` what that has brought, by
    the other; `both` at once.  `changes`: of one site."""

    pair: str
    changes: int
    one: float
    passing: float
    both: float
    load: float

    def __str__(self) -> str:
        one, both = self.changes / self.one, 2 * self.changes / self.both
        return (
            f"{self.pair}: one way {one:,.0f} rows/s, both {both:,.0f} ({both / one:.2f}), "
            f"passing {self.changes / self.passing:,.0f} rows/s"
        )


class Both:
    """A pair of sites with a table that eu writes and one that us writes, both at both."""

    def __init__(self, network: Network, seed: int) -> None:
        self._network, self._seed = network, seed
        self._works = {site: Mix(peers=True, table=f"at_{site}") for site in network.nodes}
        for node in network.nodes.values():
            for work in self._works.values():
                node.send(*work.ddl("postgres" if isinstance(node.server, Postgres) else "mariadb"))
        for feed in network.feeds.values():
            feed.options |= {"journal": "", "lanes": LANES}
        self.catch_up(OUT, BACK)

    def round(self, pair: str, changes: int) -> Round:
        """Raises AssertionError where rows differ, TidelockFailed where a feed does."""
        self._load("eu", changes)
        one = self.catch_up(OUT)
        passing = self.catch_up(BACK)
        self.catch_up(OUT)
        for site in self._works:
            self._load(site, changes)
        both = self.catch_up(OUT, BACK)
        load = round(os.getloadavg()[0], 2)
        self.catch_up(OUT, BACK)
        self.compare()
        return Round(pair, changes, round(one, 3), round(passing, 3), round(both, 3), load)

    def catch_up(self, *edges: str) -> float:
        """Runs these feeds at once, each until it has what the log holds now; returns seconds until all have ended."""
        feeds: list[Direction] = [self._network.feeds[edge] for edge in edges]
        begun = time.perf_counter()
        started = [Process(["run", str(feed.file), "--until-caught-up"], feed.output) for feed in feeds]
        try:
            for process in started:
                process.wait(CATCH_UP_SECONDS)
        finally:
            for process in started:
                if process.running:
                    process.kill()
        return time.perf_counter() - begun

    def _load(self, site: str, changes: int) -> None:
        node = self._network[site]
        with unhurried(node.server), contextlib.closing(node.connect()) as session:
            self._seed += 1
            self._works[site].run(session, changes, self._seed)

    def compare(self) -> None:
        """Raises AssertionError where rows differ."""
        for table in (name for work in self._works.values() for name in work.tables):
            eu, us = (_rows(node, table) for node in self._network.nodes.values())
            assert eu == us, f"{len(set(eu) ^ set(us))} rows of {table} differ"


def _rows(node: Node, table: str) -> list[tuple[str, ...]]:
    columns = "CONCAT(id, ''), email, CONCAT(balance, ''), payload"
    return [tuple(map(str, row)) for row in node.rows(f"SELECT {columns} FROM {table} ORDER BY id")]


def rounds(pair: str, servers: Sequence[Server], folder: Path, changes: int, count: int, seed: int) -> Iterator[Round]:
    """`servers`: of eu and us."""
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.enter_context(durability(server, "async"))
        made = Network(folder, dict(zip(("eu", "us"), servers, strict=True)), (OUT, BACK))
        both = Both(stack.enter_context(contextlib.closing(made)), seed)
        for _ in range(count):
            yield both.round(pair, changes)
