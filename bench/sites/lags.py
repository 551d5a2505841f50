"""Lags between an arbiter and a spoke, measured by rows that are written for it while the bench runs.

All servers are on one machine, and so is the clock.  Each probe has a row of its own in the table `probe`, whose column
`n` adds up (`delta`), so that a value tells who has seen what:

- *arrival*: from the spoke's COMMIT of a new row until it is at the arbiter.
- *coverage*: from that COMMIT until the feed down has stored, at the spoke, a checkpoint behind the row's arrival: it
  is what later changes of the spoke go by as seen.  Where the arbiter's log ends is asked for once the row is found
  there, so this is never too short, and too long by the time between.
- *echo*: from the spoke's COMMIT of a change that crosses one of the arbiter's until the spoke has what the arbiter
  made of both.  The spoke holds the row's lock while the arbiter writes, so the arbiter's change is never seen.

A probe that loses a session, or takes longer than LONGEST_SECONDS, is counted as broken, and the next begins; one that
waits through a blow counts with its whole time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from bench.harness.network import Direction, Node
from bench.harness.servers import MariaDb, Postgres
from bench.harness.session import Session
from bench.sites.topology import PROBE
from bench.sites.writer import REFUSED
from tidelock.engine.model.records import Position

KINDS: Final = ("arrival", "coverage", "echo")
EACH_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.005
LONGEST_SECONDS: Final = 300.0
AWAY_SECONDS: Final = 0.5
PER_SPOKE: Final = 1_000_000
_POSITION: Final = msgspec.json.Decoder(Position)


class Ended(Exception):
    """Says that the bench is over, or that a probe took too long."""


@dataclasses.dataclass(frozen=True)
class Lag:
    """`at`: seconds since the probes began."""

    at: float
    spoke: str
    kind: str
    seconds: float


class Prober(threading.Thread):
    """Probes one spoke.  `down`: the feed to it.  `each`: seconds between two probes.

    `lags`: what was found; `broken`: probes that came to nothing.
    """

    def __init__(
        self, arbiter: Node, spoke: Node, down: Direction, number: int, each: float = EACH_SECONDS
    ) -> None:
        super().__init__(name=f"prober of {spoke.site}", daemon=True)
        self.lags: list[Lag] = []
        self.broken = 0
        self._arbiter, self._spoke, self._down = arbiter, spoke, down
        self._key, self._each = number * PER_SPOKE, each
        self._ended = threading.Event()
        self._begun = time.monotonic()

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                with session(self._arbiter) as arbiter, session(self._spoke) as spoke:
                    while not self._ended.wait(self._each):
                        self._probe(arbiter, spoke)
            except REFUSED:
                self.broken += 1
                self._ended.wait(AWAY_SECONDS)
            except Ended:
                self.broken += not self._ended.is_set()

    def _probe(self, arbiter: Session, spoke: Session) -> None:
        self._key += 1
        spoke.send(f"INSERT INTO {PROBE} VALUES ({self._key}, 0)")
        committed = time.monotonic()
        self._until(lambda: _value(arbiter, self._key) == 0)
        self._note("arrival", committed)
        place = _place(arbiter, self._arbiter).order
        self._until(lambda: self._stored(spoke) >= place)
        self._note("coverage", committed)
        self._cross(arbiter, spoke)

    def _cross(self, arbiter: Session, spoke: Session) -> None:
        spoke.send("BEGIN")
        spoke.send(f"UPDATE {PROBE} SET n = n + 2 WHERE id = {self._key}")
        arbiter.send(f"UPDATE {PROBE} SET n = n + 1 WHERE id = {self._key}")
        spoke.send("COMMIT")
        committed = time.monotonic()
        self._until(lambda: _value(spoke, self._key) == 3)
        self._note("echo", committed)

    def _note(self, kind: str, since: float) -> None:
        now = time.monotonic()
        self.lags.append(Lag(round(now - self._begun, 1), self._spoke.site, kind, round(now - since, 4)))

    def _until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LONGEST_SECONDS
        while not true():
            if time.monotonic() > deadline or self._ended.wait(LOOK_SECONDS):
                raise Ended

    def _stored(self, spoke: Session) -> tuple[int, int, int]:
        told = f"SELECT position FROM {self._down.books}.tidelock_checkpoint WHERE feed = '{self._down.name}'"
        rows = spoke.rows(told)
        return _POSITION.decode(rows[0][0]).order if rows else (0, 0, 0)


def _value(asked: Session, key: int) -> int | None:
    rows = asked.rows(f"SELECT CONCAT(n, '') FROM {PROBE} WHERE id = {key}")
    return int(rows[0][0]) if rows else None


def _place(asked: Session, node: Node) -> Position:
    """The end of the node's log now."""
    if isinstance(node.server, Postgres):
        ((end,),) = asked.rows("SELECT (pg_current_wal_lsn() - '0/0')::bigint::text")
        return Position("server/timeline", int(end))
    status = "SHOW MASTER STATUS" if isinstance(node.server, MariaDb) else "SHOW BINARY LOG STATUS"
    file, offset, *_ = asked.rows(status)[0]
    return Position(str(file), int(offset))


@contextlib.contextmanager
def session(node: Node) -> Iterator[Session]:
    """A session that may be lost."""
    made = node.connect()
    try:
        yield made
    finally:
        with contextlib.suppress(Exception):
            made.close()


def spread(lags: Sequence[Lag], kind: str) -> tuple[int, float, float, float]:
    """How many of that kind there are, and their p50, p99 and the longest, in seconds."""
    found = sorted(lag.seconds for lag in lags if lag.kind == kind)
    if not found:
        return 0, math.nan, math.nan, math.nan
    return len(found), found[len(found) // 2], found[math.ceil(0.99 * len(found)) - 1], found[-1]
