"""Base of all workloads: grouping changes into transactions, and sending them fast.

A workload is a model of its tables in memory and an endless stream of single-row changes
that keeps the model and the tables equal; it starts from empty tables, and a second `run`
of the same object goes on where the first ended.  Half of the changes go out in one-row
transactions and half in 50-row transactions, fifty of the first before each of the second.

Many transactions travel in one round trip (statements separated by `;`), so that 100,000
one-row transactions are limited by the server's commits, not by the network.

`version` columns hold the number of the change that wrote the row, counted over the whole
workload: it grows with every change of a primary key and is never used twice, also where a
deleted key comes back (`bench.harness.recorder` checks a target's history against that).
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import pymysql

from bench.harness.session import Endpoint, Flavor, MySqlSession, Session, connection
from bench.harness.workload.tables import Table, source_ddl, target_ddl

LARGE_TRANSACTION_ROWS = 50
PACKET_CHANGES = 500
PACED_PACKETS_PER_SECOND = 20
AGAIN_SECONDS = 0.05
REFUSED = (
    asyncpg.IntegrityConstraintViolationError, asyncpg.DeadlockDetectedError, pymysql.IntegrityError,
    pymysql.OperationalError,
)  # fmt: skip


class Kind(enum.Enum):
    """Kind of a change to its row; the value is its name in `Counts`."""

    INSERT = "inserts"
    UPDATE = "updates"
    DELETE = "deletes"


Change = tuple[Kind, str]


@dataclasses.dataclass(slots=True)
class Transaction:
    """SQL statements to commit together and the kinds of their row changes (a statement may change several rows)."""

    statements: list[str]
    kinds: list[Kind]


@dataclasses.dataclass(slots=True)
class Counts:
    """Result of a run: the changes that were committed, and how long that took."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    transactions: int = 0
    seconds: float = 0.0

    @property
    def changes(self) -> int:
        return self.inserts + self.updates + self.deletes

    def add(self, packet: list[Transaction]) -> None:
        for transaction in packet:
            self.inserts += transaction.kinds.count(Kind.INSERT)
            self.updates += transaction.kinds.count(Kind.UPDATE)
            self.deletes += transaction.kinds.count(Kind.DELETE)
        self.transactions += len(packet)


class Workload(abc.ABC):
    """One family of tables and the changes made to them.

    `deleted`: (table, primary key, version) of every row that the source deleted or moved to another key.
    `filling`: how many changes come first and make the rows that all others are about.
    """

    name: str
    specs: tuple[Table, ...]
    filling = 0

    def __init__(self) -> None:
        self.deleted: list[tuple[str, int, int]] = []
        self._rng = random.Random(0)
        self._version = 0
        self._stream: Iterator[Change] = self.changes()

    @property
    def tables(self) -> list[str]:
        """Table names without their database; parents before children."""
        return [table.name for table in self.specs]

    def ddl(self, flavor: Flavor | str) -> list[str]:
        """Statements that make the source tables in the session's current database."""
        return source_ddl(self.specs, Flavor(flavor))

    def target_ddl(self, flavor: Flavor | str, schema: str) -> list[str]:
        """Statements that make `schema` and the target tables in it."""
        return target_ddl(self.specs, Flavor(flavor), schema)

    @abc.abstractmethod
    def changes(self) -> Iterator[Change]:
        """The endless stream of changes, in order; the model changes as they are drawn."""

    def seed(self, seed: int) -> None:
        """Begin a new stream: what is drawn from now on depends on `seed` and the model alone."""
        self._rng = random.Random(seed)

    def draw(self) -> Change:
        """The next change of the stream."""
        return next(self._stream)

    def transaction(self, size: int) -> Transaction:
        """The next `size` changes as one transaction."""
        drawn = [self.draw() for _ in range(size)]
        return Transaction([sql for _, sql in drawn], [kind for kind, _ in drawn])

    def transactions(self, changes: int, seed: int) -> Iterator[Transaction]:
        """Transactions of exactly `changes` row changes in all."""
        self.seed(seed)
        while changes > 0:
            sizes = [1] * min(LARGE_TRANSACTION_ROWS, changes)
            changes -= len(sizes)
            if changes:
                sizes.append(min(LARGE_TRANSACTION_ROWS, changes))
                changes -= sizes[-1]
            for size in sizes:
                yield self.transaction(size)

    def run(
        self,
        endpoint: Endpoint | pymysql.Connection[Any],
        changes: int,
        seed: int,
        rate: float | None = None,
        stop: threading.Event | None = None,
        progress: Callable[[int], object] | None = None,
        patience: float = 0.0,
        hold: Callable[[], float] | None = None,
    ) -> Counts:
        """Commit `changes` row changes at the source, at most `rate` a second, until done or `stop` is set.

        `endpoint`: a URL with a database, a session, or a PyMySQL connection opened with MULTI_STATEMENTS.
        `progress`: called after each packet with the changes made so far.  `patience`: seconds for which a transaction
        is sent again that the server refuses, as others write there too; each is a packet then.  `hold`: called before
        each packet; returns for how many seconds it has held it up, which are not made up for.
        """
        opened = MySqlSession(endpoint) if isinstance(endpoint, pymysql.Connection) else endpoint
        session, close = connection(opened)
        render = render_postgres if session.flavor is Flavor.POSTGRES else render_mysql
        packet_changes = PACKET_CHANGES if rate is None else max(1, int(rate / PACED_PACKETS_PER_SECOND))
        if patience:
            packet_changes = 1
        counts, begun = Counts(), time.monotonic()
        held = 0.0
        try:
            for packet in _packets(self.transactions(changes, seed), packet_changes):
                held += hold() if hold else 0.0
                _send(session, render(packet), patience)
                counts.add(packet)
                if progress:
                    progress(counts.changes)
                if _paused(begun + held, counts.changes, rate, stop):
                    break
        finally:
            close()
        counts.seconds = time.monotonic() - begun
        return counts

    @property
    def version(self) -> int:
        """Version of the last change that wrote a row."""
        return self._version

    def next_version(self) -> int:
        self._version += 1
        return self._version

    def moment(self) -> str:
        """A time to the microsecond that grows with every change."""
        seconds, micros = divmod(self._version * 7919, 1_000_000)
        minutes, second = divmod(seconds, 60)
        hours, minute = divmod(minutes, 60)
        day, hour = divmod(hours, 24)
        return f"'2024-03-{day % 31 + 1:02} {hour:02}:{minute:02}:{second:02}.{micros:06}'"

    def amount(self) -> str:
        """A decimal of two places, sometimes negative."""
        cents = int(self._rng.random() * 10_000_000) - 500_000
        return f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02}"


def _send(session: Session, script: str, patience: float) -> None:
    """Send a script; while patience lasts, again where a unique value or a lock is another's for the moment."""
    end = time.monotonic() + patience
    while True:
        try:
            session.send(script)
        except REFUSED:
            if time.monotonic() >= end:
                raise
            session.send("ROLLBACK")
            time.sleep(AGAIN_SECONDS)  # until the next attempt
        else:
            return


def _packets(transactions: Iterator[Transaction], changes: int) -> Iterator[list[Transaction]]:
    """Transactions of about `changes` row changes at a time; the last packet may be smaller."""
    packet: list[Transaction] = []
    held = 0
    for transaction in transactions:
        packet.append(transaction)
        held += len(transaction.kinds)
        if held >= changes:
            yield packet
            packet, held = [], 0
    if packet:
        yield packet


def _paused(begun: float, made: int, rate: float | None, stop: threading.Event | None) -> bool:
    """Wait until `made` changes are due; true when told to stop."""
    wait = begun + made / rate - time.monotonic() if rate else 0.0
    if stop is not None:
        return stop.wait(max(wait, 0.0)) if wait > 0 else stop.is_set()
    if wait > 0:
        time.sleep(wait)
    return False


def render_mysql(packet: list[Transaction]) -> str:
    """A single statement commits itself: one answer to read in place of three."""
    return ";".join(
        transaction.statements[0]
        if len(transaction.statements) == 1
        else f"BEGIN;{';'.join(transaction.statements)};COMMIT"
        for transaction in packet
    )


def render_postgres(packet: list[Transaction]) -> str:
    """PostgreSQL takes a whole packet for one transaction unless each has its own BEGIN and COMMIT."""
    return ";".join(f"BEGIN;{';'.join(transaction.statements)};COMMIT" for transaction in packet)
