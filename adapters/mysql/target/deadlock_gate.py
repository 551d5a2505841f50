"""Turns of batches on tables whose unique indexes make the server see deadlocks where rows have nothing in common.

Before InnoDB inserts into a secondary unique index that still holds the value on a row deleted before, it locks that
record, the next one and the gaps before both, at READ COMMITTED too.  Two batches that free and take neighbouring
values so wait for each other, though the lock table has seen to it that they share no value; one is rolled back whole.
Where values are freed and taken all the time, lanes lose more batches to that than they gain.

A turn lets batches that delete or insert rows of such a table run one after another, from their receipt to COMMIT.
Only deadlocks call for turns: most tables never take any, and one that does is tried without after SECONDS.  Batches
that only update other columns lock no gap and stay side by side.

A child locks its parent, and InnoDB does not tell a parent's other columns from its key: so batches that write children
and batches that write their parents wait for each other, though no two rows of theirs are the same.  Mostly one that is
sent again passes.  One that is rolled back again has the tables that its foreign keys tie take turns too, those that
only update among them.

A batch takes its turns before it locks anything at the server, which may keep others waiting (a foreign key's check for
a row that a batch has updated), and takes them in one order: so nothing can wait in a circle.  Batches that are held
before COMMIT take none: they wait for each other's commits.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows

SECONDS: Final = 60.0


class DeadlockGate:
    """Tells batches of one target when they must take turns."""

    def __init__(self) -> None:
        self._until: dict[TableName, float] = {}
        self._tied_until: dict[TableName, float] = {}
        self._locks: defaultdict[TableName, asyncio.Lock] = defaultdict(asyncio.Lock)

    def deadlocked(self, steps: Sequence[Step], *, again: bool = False) -> None:
        """Note that a batch of these steps was rolled back: its tables take turns for a while.  `again`: not for the
        first time."""
        end = time.monotonic() + SECONDS
        self._until |= dict.fromkeys(_contended(steps), end)
        if again:
            self._tied_until |= dict.fromkeys(_parents(steps), end)

    def of(self, steps: Sequence[Step]) -> Turn:
        """Make the turn of a batch of these steps; nothing of it is taken yet."""
        if not (self._until or self._tied_until):
            return Turn(())
        now = time.monotonic()
        tables = {table for table in _contended(steps) if self._until.get(table, now) > now}
        tables |= {table for table in _parents(steps) if self._tied_until.get(table, now) > now}
        return Turn([self._locks[table] for table in sorted(tables, key=str)])


class Turn:
    """The turn of one batch: a context manager that gives back what `take` has taken."""

    def __init__(self, locks: Sequence[asyncio.Lock]) -> None:
        self._locks = locks
        self._taken = 0

    async def take(self) -> None:
        """Take the turn; returns once it is this batch's turn on all its tables; at once if it holds them already."""
        while self._taken < len(self._locks):
            await self._locks[self._taken].acquire()
            self._taken += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lock in self._locks[: self._taken]:
            lock.release()
        self._taken = 0


def moves_unique_values(step: Step) -> bool:
    """Tell whether the step puts rows into a secondary unique index, or takes them out."""
    match step:
        case DeleteRows():
            return _has_secondary(step.table)
        case UpsertRows():
            return step.fresh and _has_secondary(step.table)
        case UpdateRows():
            return step.moves and _has_secondary(step.table)


def _contended(steps: Sequence[Step]) -> dict[TableName, None]:
    return dict.fromkeys(step.table.name for step in steps if moves_unique_values(step))


def _parents(steps: Sequence[Step]) -> dict[TableName, None]:
    """Returns tables whose rows these steps lock, as parents of what they write, or as what they write itself."""
    found: dict[TableName, None] = {}
    for step in steps:
        table = step.table.target
        found |= dict.fromkeys(key.parent for key in table.foreign_keys)
        if table.references:
            found[table.name] = None
    return found


def _has_secondary(table: Binding) -> bool:
    return any(unique.columns != table.target.key for unique in table.target.uniques)
