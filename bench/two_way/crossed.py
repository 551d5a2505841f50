"""Backlogs of two sites that have written the same rows: how fast is that decided at the arbiter, and sent back?

Each round makes a backlog at both sites, of rows that both write.  Then the feed up catches up, which finds nearly each
of its rows changed, and after it the feed down, which brings what the arbiter has written and decided.  Both go on in
turn until the sites are equal.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bench.e2e.backlog import durability, unhurried
from bench.harness.network import Direction, Network
from bench.harness.servers import Server
from bench.harness.tidelock import Process
from bench.harness.usage import Usage
from bench.sites.topology import Topology
from bench.sites.written import accounts, make_tables

CATCH_UP_SECONDS: Final = 900.0
UP, DOWN = "us>eu", "eu>us"
KEYS: Final = 5000
ROWS: Final = 8
"""Rows of a transaction."""
EMAILS: Final = 10
TURNS: Final = 10


@dataclasses.dataclass(frozen=True)
class Leg:
    """One feed's catching up.  `rows`: that it applied.  `cpu_seconds`: of our processes, the source and the target."""

    seconds: float
    rows: int
    cpu_seconds: Mapping[str, float]

    def a_row(self, *names: str) -> float:
        """Milliseconds of processor time of these a row."""
        return 1000 * sum(self.cpu_seconds.get(name, 0.0) for name in names) / max(1, self.rows)


@dataclasses.dataclass(frozen=True)
class Round:
    """`changes`: of each site.  `conflicts`: that the arbiter has recorded."""

    pair: str
    changes: int
    conflicts: int
    up: Leg
    down: Leg
    load: float

    def __str__(self) -> str:
        legs = [
            f"{name} {leg.rows / leg.seconds:,.0f} rows/s, CPU ms a row: ours {leg.a_row('run', 'capture'):.3f}, "
            f"source {leg.a_row('source'):.3f}, target {leg.a_row('target'):.3f}"
            for name, leg in (("up", self.up), ("down", self.down))
        ]
        return f"{self.pair}: {self.conflicts} of {self.changes} in conflict; {'; '.join(legs)}; load {self.load}"


class Crossed:
    """A pair of sites that write the same rows; eu is the arbiter."""

    def __init__(self, network: Network, topology: Topology, seed: int) -> None:
        self._network = network
        self._rng = random.Random(seed)
        self._made = 0
        make_tables(network, unique=True)
        for feed in network.feeds.values():
            feed.options |= {"conflicts": topology.conflicts, "journal": ""}
            feed.tables = topology.tables(network.schema)
        self._settle()
        self._fill()
        self._settle()

    def round(self, pair: str, changes: int) -> Round:
        """Raises AssertionError where rows differ, TidelockFailed where a feed does."""
        before = self._conflicts()
        for site in self._network.nodes:
            self._load(site, changes)
        up = self._catch_up(UP, changes)
        decided = self._conflicts() - before
        down = self._catch_up(DOWN, changes)
        load = round(os.getloadavg()[0], 2)
        self._settle()
        return Round(pair, changes, decided, up, down, load)

    def _catch_up(self, edge: str, rows: int) -> Leg:
        feed: Direction = self._network.feeds[edge]
        begun = time.perf_counter()
        process = Process(["run", str(feed.file), "--until-caught-up"], feed.output)
        leaders = {"run": process.pid, "source": feed.source.server.pid, "target": feed.target.server.pid}
        try:
            with Usage(lambda: leaders) as usage:
                process.wait(CATCH_UP_SECONDS)
        finally:
            if process.running:
                process.kill()
        return Leg(round(time.perf_counter() - begun, 3), rows, usage.cpu_seconds)

    def _settle(self) -> None:
        """Until both have the same rows."""
        for _ in range(TURNS):
            for edge in (UP, DOWN):
                self._catch_up(edge, 0)
            eu, us = (accounts(node) for node in self._network.nodes.values())
            if eu == us:
                return
        raise AssertionError(f"{len(set(eu) ^ set(us))} rows differ")

    def _conflicts(self) -> int:
        told = f"SELECT CONCAT(count(*), '') FROM {self._network.books}.tidelock_conflicts"
        return int(self._network["eu"].rows(told)[0][0])

    def _fill(self) -> None:
        eu = self._network["eu"]
        for key in range(KEYS):
            eu.send(f"INSERT INTO account (id, email, token, n) VALUES ({key}, 'm{key}', 'made', 0)")

    def _load(self, site: str, changes: int) -> None:
        node, rng = self._network[site], self._rng
        with unhurried(node.server), contextlib.closing(node.connect()) as session:
            for _ in range(-(-changes // ROWS)):
                updates = []
                for key in sorted(rng.sample(range(KEYS), ROWS)):
                    self._made += 1
                    sets = f"token = '{site}-{self._made}', n = {self._made}"
                    updates.append(f"UPDATE account SET {sets} WHERE id = {key}")
                session.send("; ".join(["BEGIN", *updates, "COMMIT"]))


def rounds(
    topology: Topology, servers: Mapping[str, Server], folder: Path, changes: int, count: int, seed: int
) -> Iterator[Round]:
    """`servers`: by site."""
    with contextlib.ExitStack() as stack:
        for server in servers.values():
            stack.enter_context(durability(server, "async"))
        network = stack.enter_context(contextlib.closing(Network(folder, servers, topology.edges)))
        crossed = Crossed(network, topology, seed)
        for _ in range(count):
            yield crossed.round(topology.name, changes)
