"""Notes of what statements say of shadow tables, until one takes its table's place (`engine.capture.shadow_names`).

A tool for online schema changes makes an empty table in the form of another one, alters it, fills it with the other's
rows, and exchanges the names.  Where the feed leaves the shadow out, the log's rows of the table itself are all that
the target needs, and what the exchange changes is what altered the shadow.  So these statements are noted, with the
feed's bookkeeping and in the transaction that notes that they have passed, and go when the shadow does.

What is noted is as certain as the log: a shadow that was not seen from its beginning, one that was emptied, or whose
table was changed since in its own right, has a `doubt`, and the exchange halts the feed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tidelock.adapters.ddl.classify import classify, is_optional
from tidelock.adapters.ddl.kept_shadows import Shadow, Shadows
from tidelock.adapters.ddl.lexer import NotPlain
from tidelock.adapters.ddl.operations import AlterTable, CreateLike, CreateTable, DropTable, Operation, RenameTable
from tidelock.adapters.ddl.shadow_forms import difference, uniques_of
from tidelock.adapters.ddl.statement import operations, reader_of
from tidelock.engine.capture.shadow_names import shadowed
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind

_SHOWN: Final = 200


def noted(ddl: Ddl, shadows: Mapping[TableName, Shadow], takes: Callable[[TableName], bool]) -> Shadows:
    """Returns the shadows as they are behind a statement.  `takes`: tells whether the feed takes a table."""
    after = _Noted(ddl, dict(shadows), takes)
    try:
        found = operations(ddl)
    except NotPlain:
        after.unread()
    else:
        after.read(found)
    return after.shadows


def arrivals(renames: Sequence[RenameTable]) -> dict[TableName, TableName]:
    """Returns the table that has each name behind a RENAME TABLE, by the name that it had before, where they differ."""
    was: dict[TableName, TableName] = {}
    for one in renames:
        was[one.to] = was.pop(one.table, one.table)
    return {name: before for name, before in was.items() if name != before}


class _Noted:
    def __init__(self, ddl: Ddl, shadows: Shadows, takes: Callable[[TableName], bool]) -> None:
        self.shadows = shadows
        self._ddl, self._takes = ddl, takes

    def read(self, found: Sequence[Operation]) -> None:
        """Note what a statement does that is understood."""
        renames = [one for one in found if isinstance(one, RenameTable)]
        if renames:
            self._renamed(arrivals(renames))
        for one in found:
            if not isinstance(one, RenameTable) and self._takes(one.table):
                if not isinstance(one, CreateLike) and not is_optional([one]):
                    self._changed(one.table)  # a table with a shadow is there, so CREATE TABLE LIKE made none
                continue
            match one:
                case DropTable():
                    self.shadows.pop(one.table, None)
                case CreateLike():
                    self._made(one)
                case CreateTable():
                    self._made_whole(one)
                case AlterTable() if (shadow := self.shadows.get(one.table)) is not None:
                    said = (*shadow.altered, (self._ddl.schema, self._ddl.statement))
                    self.shadows[one.table] = replace(shadow, altered=said)

    def unread(self) -> None:
        """Note that a statement is not understood.  One that makes a table makes none that is there."""
        if self._ddl.kind is DdlKind.CREATE_TABLE:
            return
        for name in classify(self._ddl, "mysql").tables:
            if self._takes(name):
                self._changed(name)
            elif (shadow := self.shadows.get(name)) is not None:
                self._doubt(shadow, f"what has been done to it is not understood: {self._shown}")

    @property
    def _shown(self) -> str:
        return self._ddl.statement[:_SHOWN]

    def _made(self, made: CreateLike) -> None:
        if not self._may_be_there:
            self.shadows.pop(made.table, None)
            if self._takes(made.like):
                self.shadows[made.table] = Shadow(made.table, made.like)
        elif made.table not in self.shadows and self._takes(made.like):
            doubt = f"it may have been there before: {self._shown}"
            self.shadows[made.table] = Shadow(made.table, made.like, doubt=doubt)

    def _made_whole(self, made: CreateTable) -> None:
        of = shadowed(made.table)
        if of is None or not self._takes(of):
            return
        if self._may_be_there:
            doubt = f"it may have been there before: {self._shown}"
            self.shadows.setdefault(made.table, Shadow(made.table, of, doubt=doubt))
            return
        doubt = difference(self._ddl, made.made, of)
        self.shadows[made.table] = Shadow(made.table, of, doubt=doubt, uniques=uniques_of(made.made))

    @property
    def _may_be_there(self) -> bool:
        reader = reader_of(self._ddl)
        return reader.take("CREATE", "TABLE", "IF", "NOT", "EXISTS")

    def _renamed(self, arrived: Mapping[TableName, TableName]) -> None:
        before = dict(self.shadows)
        for name in arrived.values():
            self.shadows.pop(name, None)
        for name, was in arrived.items():
            self.shadows.pop(name, None)
            if was in before and not self._takes(name):
                self.shadows[name] = replace(before[was], table=name)
        for name in (*arrived, *arrived.values()):
            if self._takes(name):
                self._changed(name)

    def _changed(self, table: TableName) -> None:
        for shadow in [one for one in self.shadows.values() if one.of == table]:
            self._doubt(shadow, f"{table} was changed itself meanwhile: {self._shown}")

    def _doubt(self, shadow: Shadow, why: str) -> None:
        if not shadow.doubt:
            self.shadows[shadow.table] = replace(shadow, doubt=why)
