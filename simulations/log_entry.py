"""A thing in a source's log, as the simulated source leaves it and checkers compare with it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidelock.engine.model.records import Position, Row, RowChange, Shape, TableName
from tidelock.engine.model.schema import TargetTable, UniqueKey
from tidelock.engine.model.schema_change import Ddl
from tidelock.simulations.altering.reshape import Reshape

Place: TypeAlias = tuple[str, int, int]
Marks: TypeAlias = tuple[tuple[int, Row], ...]


class Keys(msgspec.Struct, frozen=True):
    """Keys of a table as a statement leaves them."""

    key: tuple[str, ...]
    uniques: tuple[UniqueKey, ...]

    def of(self, spec: TargetTable) -> TargetTable:
        return msgspec.structs.replace(spec, key=self.key, uniques=self.uniques)


class Entry(msgspec.Struct):
    """One thing in the log, `end` the position after it: a row (`shape`), a row of a table not taken, a commit, a DDL.

    `change` is as the source logs it (`change.table` is not set: each reader numbers shapes its own way); `before`,
    `after` as the target should see it, both None where it does not concern the target.
    `origin`: the nodes that the transaction came through, the one that made it first; '' for the source itself.
    `keys`: what a statement makes of its table's keys, at both ends, by an operator's hand at the target.  `adds`: it
    adds a column that was not there.  `reshape`: what it makes of tables that are altered;
    `beside`: tables that it names and the feed does not take.
    `spec`: the target's table of a row as it was then, where tables are altered.
    `swept`: rows that go with this one by a cascade, and that the log tells later or not at all.
    `verdict`: the feed that left it; the row of its change stands, or none does.
    `marks`: rows of feeds' own tables that its transaction wrote, where sites have names.
    """

    source: str
    number: int
    end: Position
    change: RowChange | None = None
    shape: Shape | None = None
    before: Row | None = None
    after: Row | None = None
    commit: bool = False
    ddl: Ddl | None = None
    origin: str = ""
    keys: Keys | None = None
    adds: bool = False
    reshape: Reshape | None = None
    beside: tuple[TableName, ...] = ()
    spec: TargetTable | None = None
    swept: tuple[tuple[TableName, Row], ...] = ()
    marks: Marks = ()
    verdict: str = ""

    @property
    def place(self) -> Place:
        assert self.change is not None
        return (self.source, self.number, self.change.ordinal)

    @property
    def taken(self) -> bool:
        """Tells whether it is a row change that the feed has to apply."""
        return self.before is not None or self.after is not None
