"""An application at one server: writes the tables of all feeds that read there, in turn, at a steady rate each."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Final

from bench.fleet.feeds import FleetFeed
from bench.harness.session import Flavor, Session, connect
from bench.harness.workload.workload import Transaction, render_mysql, render_postgres

TURN_SECONDS: Final = 0.5
FOREVER: Final = 10**12


class Writer(threading.Thread):
    """`rate`: row changes a second for each feed.  `changes`: that the server has committed.  `failure`: what ended it,
    but for `stop`."""

    def __init__(self, feeds: Sequence[FleetFeed], rate: float, seed: int) -> None:
        super().__init__(name="writer", daemon=True)
        self.changes = 0
        self.failure = ""
        self._rate = rate
        self._parts = [Part(feed, seed + number) for number, feed in enumerate(feeds)]
        self._ended = threading.Event()

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.failure = f"a writer ended: {error!r}"
            raise
        finally:
            for part in self._parts:
                part.close()

    def _work(self) -> None:
        last, owed = time.monotonic(), 0.0
        while not self._ended.wait(TURN_SECONDS):
            now = time.monotonic()
            owed += min(now - last, 2 * TURN_SECONDS) * self._rate  # what a busy machine made late is not made up for
            last = now
            for part in self._parts:
                self.changes += part.write(owed)


class Part:
    """The work on one feed's tables."""

    def __init__(self, feed: FleetFeed, seed: int) -> None:
        self._session: Session = connect(feed.rig.source.url(feed.rig.schema))
        self._stream: Iterator[Transaction] = feed.workload.transactions(FOREVER, seed)
        self._made = 0

    def write(self, owed: float) -> int:
        """Commits transactions until so many changes were made in all; returns how many it has made now."""
        packet: list[Transaction] = []
        before = self._made
        while self._made < owed:
            packet.append(next(self._stream))
            self._made += len(packet[-1].kinds)
        if packet:
            render = render_postgres if self._session.flavor is Flavor.POSTGRES else render_mysql
            self._session.send(render(packet))
        return self._made - before

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._session.close()
