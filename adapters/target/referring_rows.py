"""Rows of a spoke that stand in the way of what its arbiter deletes: they refer to it (`engine.batch.blind_steps`).

The walk goes down from the row, by one foreign key after another.  Rows that refuse are deleted, children before
parents, and recorded; those that a foreign key deletes by itself are only passed, as something below may refuse; what
is set to NULL or its default refuses nothing.  A child is deleted once, so a circle of rows ends the walk, and what
stays in the way is the server's to refuse.  Tables that are not in the feed are left alone.

A child may have come since a row was found to have none: so each level is locked before the next one is read.
"""

from __future__ import annotations

import enum
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from tidelock.adapters.target.displaced import Displaced
from tidelock.engine.model.records import Row, TableName, Value
from tidelock.engine.model.schema import Binding, TargetColumn, TargetTable
from tidelock.engine.protocol.steps import ChangeId, DeleteRows, Step, UpdateRows
from tidelock.engine.two_way.conflicts import Conflict

ATTEMPTS: Final = 5
"""A change is tried so often where somebody makes a child just after those there were deleted."""
MOST: Final = 10_000
"""So many rows at one level are deleted; more are left for an operator."""
_KEY_CHARACTERS, _VALUE_CHARACTERS = 500, 60
_NUMBERS: Final = ("bigint", "int", "smallint", "mediumint", "tinyint", "integer")


class Rule(enum.Enum):
    """Effect of a foreign key on a child whose parent goes, or changes what is referred to."""

    REFUSES = "refuses"
    FOLLOWS = "follows"
    CLEARS = "clears"


class Reference(msgspec.Struct, frozen=True):
    """A foreign key, as its parent sees it."""

    child: TableName
    columns: tuple[str, ...]
    parent: TableName
    parent_columns: tuple[str, ...]
    on_delete: Rule
    on_update: Rule


Path: TypeAlias = tuple[Reference, ...]
"""From the row that goes to rows that refer to it, directly or not."""
Image: TypeAlias = dict[str, Value]


class Goes(msgspec.Struct, frozen=True):
    """Row that goes, or changes what is referred to in the columns `changed`, by the change `of`."""

    table: Binding
    key: Row
    of: ChangeId
    changed: frozenset[str] | None = None


def going(steps: Sequence[Step]) -> list[Goes]:
    """Returns the rows of steps with leave to clear what refers to them."""
    found: list[Goes] = []
    for step in steps:
        match step:
            case DeleteRows(clears=clears) if clears:
                found += [Goes(step.table, key, of) for key, of in zip(step.keys, clears, strict=True)]
            case UpdateRows(clears=clears) if clears:
                changed = frozenset(step.changed)
                found += [Goes(step.table, key, of, changed) for key, of in zip(step.keys, clears, strict=True)]
    return found


class ReferringRows(ABC):
    """Clears what refers to one row, in an open transaction.  Methods raise what the target does."""

    def __init__(self, row: Goes, tables: Mapping[TableName, TargetTable]) -> None:
        """`tables`: those of the feed."""
        self._goes = row
        self._tables = tables
        self._met: set[tuple[TableName, tuple[Value, ...]]] = set()

    @abstractmethod
    async def _references(self, table: TableName) -> list[Reference]:
        """Read the foreign keys that point to the table."""

    @abstractmethod
    async def _locked(self, path: Path, columns: Sequence[TargetColumn], most: int) -> list[Image]:
        """Lock and read the rows at the end of the path, `most` at most."""

    @abstractmethod
    async def _delete(self, path: Path, gone: Sequence[Displaced]) -> None:
        """Delete the rows at the end of the path, and record them."""

    async def clear(self) -> int:
        """Delete and record what stands in the way of the row; returns how many.  Raises TooMany."""
        table = self._tables.get(self._goes.table.name)
        if table is None or not self._unmet(table, await self._locked((), table.columns, 1)):
            return 0
        return await self._below((), table.name, self._goes.changed)

    async def _below(self, path: Path, table: TableName, changed: frozenset[str] | None) -> int:
        count = 0
        for reference in await self._references(table):
            if changed is None:
                rule = reference.on_delete
                passed = rule is Rule.CLEARS
            else:
                rule = reference.on_update
                passed = rule is not Rule.REFUSES or not changed & set(reference.parent_columns)
            child = self._tables.get(reference.child)
            if passed or child is None:
                continue
            longer = (*path, reference)
            rows = self._unmet(child, await self._locked(longer, child.columns, MOST + 1))
            if len(rows) > MOST:
                raise TooMany(f"more than {MOST:,} rows of {child.name} refer to the row of {self._goes.table.name}")
            if not rows:
                continue
            count += await self._below(longer, child.name, None)
            if rule is Rule.REFUSES:
                await self._delete(longer, [self._displaced(child, row) for row in rows])
                count += len(rows)
        return count

    def _unmet(self, table: TargetTable, rows: Sequence[Image]) -> list[Image]:
        """Returns rows that the walk has not come to before, and notes them."""
        fresh = []
        for row in rows:
            met = table.name, tuple(row[name] for name in table.key or row)
            if met not in self._met:
                self._met.add(met)
                fresh.append(row)
        return fresh

    def _displaced(self, table: TargetTable, row: Image) -> Displaced:
        key = ", ".join(f"{name}={str(row[name])[:_VALUE_CHARACTERS]}" for name in table.key or row)
        lost = msgspec.msgpack.encode(row)
        return Displaced(table.name, self._goes.of, key[:_KEY_CHARACTERS], lost, conflict=Conflict.FOREIGN_KEY)


class TooMany(Exception):
    """Raised where more rows refer to a row than are deleted."""


def image(
    columns: Sequence[TargetColumn], shown: Sequence[str | None], is_bytes: Callable[[TargetColumn], bool]
) -> Image:
    """Returns a row by its columns.  `shown`: their texts, of bytes in hexadecimal; whole numbers are returned as such.
    """
    return {column.name: _value(column, text, is_bytes) for column, text in zip(columns, shown, strict=True)}


def _value(column: TargetColumn, shown: str | None, is_bytes: Callable[[TargetColumn], bool]) -> Value:
    if shown is None:
        return None
    if is_bytes(column):
        return bytes.fromhex(shown)
    return int(shown) if re.split("[ (]", column.type, maxsplit=1)[0] in _NUMBERS else shown


def steps_up(path: Path, last: str, identifier: Callable[[str], str]) -> list[str]:
    """Writes, for each reference of a path, the condition by which its rows refer to those one step nearer to the
    beginning.  `last`: alias or name of the table at the end; the others are `c0`, `c1`, …."""
    found = []
    for n, one in enumerate(path):
        child = last if n == len(path) - 1 else f"c{n + 1}"
        pairs = zip(one.columns, one.parent_columns, strict=True)
        found.append(" AND ".join(f"{child}.{identifier(own)} = c{n}.{identifier(theirs)}" for own, theirs in pairs))
    return found
