"""The tables of a MySQL or MariaDB source as they were at each place of its log.

What is known of a table comes from a look at the catalogue (`table_look`): it holds from the place on behind which no
statement has changed the table, once the log is read up to the place of the look.  From there each statement of the
log moves it forward (`ddl.former_tables`), or it is looked at anew.  Each form is kept with the place from which on it
holds (`ports.table_form`), before what is behind that place is told.  So a reader that begins before a statement, after
a crash or a long stop, goes by the form of then, although the catalogue has another one now.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec

from tidelock.adapters.mysql.binlog.table_look import Look
from tidelock.adapters.ports.table_form import TableForm
from tidelock.engine.capture.shadow_names import shadowed
from tidelock.engine.model import lineage
from tidelock.engine.model.records import Column, Kind, Position, Shape, TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind, FormerTable


class _Words(msgspec.Struct, frozen=True, array_like=True):
    """Content of a `TableForm`.  `server`: whose log its place is of; `table`: None where it is gone or not known."""

    server: str
    table: FormerTable | None


_TEXTS: Final = (Kind.TEXT, Kind.ENUM, Kind.SET)
_COMPARED: Final = (Kind.INT, Kind.DECIMAL, Kind.ENUM, Kind.SET, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
_ENCODE: Final = msgspec.json.Encoder().encode
_DECODE: Final = msgspec.json.Decoder(_Words).decode


class TableHistory:
    """Follows the tables that are `wanted` while a log is read, and `shadows`, which may take the place of these.

    `kept`: the forms that are; `look`: at the catalogue, but for tables that are known.
    """

    def __init__(
        self,
        start: Position,
        kept: Iterable[TableForm],
        look: Callable[[Collection[TableName]], Look],
        wanted: Callable[[TableName], bool],
        shadows: Callable[[TableName], bool] = lambda _: False,
    ) -> None:
        self._start, self._kept, self._look, self._wanted = start, tuple(kept), look, wanted
        self._shadows = shadows
        self._tables: dict[TableName, FormerTable] = {}
        self._partly: set[TableName] = set()  # those of which a statement alone has told
        self._since: dict[TableName, Position] = {}  # the place of the last statement about a table
        self._floor: Position | None = start  # of one which may have been about any; None: not read so far
        self._compared: dict[TableName, Shape] = {}  # shapes that agree with what is known by now
        self._pending: Look | None = None
        self._stale = False
        self._whole = False  # all tables are known that the source has
        self._vague = False  # since the last look there may be one that is not
        self._server = ""
        self._is_there = False  # places that are read are those of the server's own log
        self._learned: list[TableForm] = []

    def begin(self) -> None:
        """Takes up what is kept, and looks at the other tables.  Raises SourceError."""
        proof = lineage.decode(self._start.proof)
        self._server = proof.server if proof is not None else ""
        for form in sorted(self._kept, key=lambda one: one.place.order):
            words = _DECODE(form.words)
            if form.place.order <= self._start.order and words.server == self._server:
                self._tables.pop(form.table, None)
                if words.table is not None:
                    self._tables[form.table] = words.table
        self._pending = self._look(self._tables.keys())
        self._is_there = self._pending.server == self._server
        if not self._is_there:  # no place of the other server's log is one of this one's
            self._server, self._floor = self._pending.server, None
            if self._tables:
                self._tables.clear()
                self._pending = self._look(())
        self._settle(self._start)

    def met(self, shapes: Mapping[int, Shape], place: Position) -> None:
        """Notes the shapes of rows, and the place behind these.  Raises SourceError."""
        self._arrive(place)
        self._settle(place)
        for shape in shapes.values():
            if self._compared.get(shape.name) is not shape:
                self._compare(shape, place)
                self._compared[shape.name] = shape
        if self._stale and self._pending is None:
            self._look_again()

    def passed(self, ddl: Ddl, end: Position) -> Ddl:
        """Returns a statement with its table as it was before, or is, where it makes one; `end`: the place behind it.
        Raises SourceError."""
        from tidelock.adapters.ddl.dropped_database import of_tables  # DDL is rare
        from tidelock.adapters.ddl.former_tables import given_up, moved
        from tidelock.adapters.ddl.shadow_forms import former_of

        self._arrive(end)
        if self._pending is not None and end.order[:2] > self._pending.place.order[:2]:
            self._settle(end)  # it begins at the place of the look, or behind it
        own = {name: table for name, table in self._tables.items() if self._wanted(name)}
        if self._whole:
            ddl = of_tables(ddl, own.keys())
        former = former_of(ddl, own, shadowed(ddl.tables[0]) if ddl.tables else None)
        partly = [self._tables[name] for name in self._partly if name in self._tables]
        behind = moved(ddl, self._tables)
        gone = given_up(ddl) if None in behind.values() else ()
        for name, table in behind.items():
            if self._wanted(name):
                self._note(name, table, end, gone=name in gone)
            elif self._shadows(name):
                self._note_shadow(name, table, end)
            if table is not None and any(table is one for one in partly):
                self._partly.add(name)
        if not ddl.tables and ddl.kind is not DdlKind.UNRELATED:
            self._pending, self._floor, self._stale = None, end, True
            self._whole, self._vague = False, True
        if ddl.kind is DdlKind.CREATE_TABLE and ddl.tables[0] in self._tables:
            self._partly.add(ddl.tables[0])
            self._stale = self._stale or self._wanted(ddl.tables[0])
        if former is None and ddl.kind is DdlKind.CREATE_TABLE and self._wanted(ddl.tables[0]):
            former = self._made(ddl.tables[0])
        return ddl if former is None else msgspec.structs.replace(ddl, former=former)

    def _made(self, name: TableName) -> FormerTable | None:
        """Returns a table that a statement has just made as the catalogue has it now, for the collations that the
        statement leaves to a default; None where it is gone.  Raises SourceError."""
        seen = self._look_again()
        return seen.tables.get(name) if self._server in ("", seen.server) else None

    def take_learned(self) -> tuple[TableForm, ...]:
        """Returns the forms that were learned since the last call."""
        learned, self._learned = self._learned, []
        return tuple(learned)

    def _compare(self, shape: Shape, place: Position) -> None:
        """Compares what is known of a table with what its rows tell, which may be more: a character set that was left
        to a default."""
        table = self._tables.get(shape.name)
        if table is None:
            return
        if is_contradicted(table, shape):
            self._note(shape.name, None, place)
        elif (filled := with_default(table, shape)) != table:
            self._tables[shape.name] = filled
            self._learn(shape.name, filled, place)

    # ------------------------------------------------------------------ tables that the log does not name

    def form(self, name: TableName) -> tuple[FormerTable | None, bool]:
        """Returns a table as it is known by now, and whether a statement alone has told of it."""
        return self._tables.get(name), name in self._partly

    def settle(self, name: TableName, table: FormerTable, group: Position) -> None:
        """Takes what a table certainly is at the place that is read.  `group`: where the open transaction begins."""
        if self._tables.get(name) == table and name not in self._partly:
            return
        floor = self._floor or group
        self._tables[name] = table
        self._partly.discard(name)
        if self._pending is not None:
            self._pending.tables.pop(name, None)
        self._learn(name, table, max(self._since.get(name, floor), floor, key=lambda one: one.order))

    def complete(self, name: TableName, charset: str, collation: str) -> None:
        """Takes the character set that a table which a statement has made got from its database."""
        table = self._tables.get(name)
        if table is not None and name in self._since:
            self._tables[name] = filled = with_texts(table, charset, collation)
            self._learn(name, filled, self._since[name])

    # ------------------------------------------------------------------ looks

    def _look_again(self) -> Look:
        self._pending, self._stale, self._vague = self._look(self._tables.keys() - self._partly), False, False
        return self._pending

    def _arrive(self, place: Position) -> None:
        if not self._is_there and place.order[:2] != self._start.order[:2]:
            proof = lineage.decode(place.proof)
            self._is_there = proof is not None and proof.server == self._server
        if self._is_there:
            self._floor = self._floor or place

    def _settle(self, place: Position) -> None:
        """Takes what was seen of tables, once the log is read up to the place of the look."""
        seen = self._pending
        if seen is None or not self._is_there or place.order[:2] < seen.place.order[:2]:
            return
        self._pending = None
        if seen.server != self._server:
            return
        self._whole = not self._vague
        floor = self._floor or place
        self._compared.clear()
        for name, table in seen.tables.items():
            since = max(self._since.get(name, floor), floor, key=lambda one: one.order)
            self._partly.discard(name)
            self._tables[name] = table
            self._learn(name, table, since)

    def _note(self, name: TableName, table: FormerTable | None, place: Position, *, gone: bool = False) -> None:
        if self._pending is not None:
            self._pending.tables.pop(name, None)
        self._since[name] = place
        self._compared.pop(name, None)
        if table is None:
            self._tables.pop(name, None)
            self._partly.discard(name)
            self._stale = True
            if not gone:
                self._whole, self._vague = False, True
        else:
            self._tables[name] = table
        self._learn(name, table, place)

    def _note_shadow(self, name: TableName, table: FormerTable | None, place: Position) -> None:
        self._partly.discard(name)
        if table is not None:
            self._tables[name] = table
        elif self._tables.pop(name, None) is None:
            return
        self._learn(name, table, place)

    def _learn(self, name: TableName, table: FormerTable | None, place: Position) -> None:
        words = _ENCODE(_Words(self._server, table)).decode()
        # Forms of a table are told apart by offset and rows alone, so the file is a part of them: less than no row is
        # no other place.
        at = Position(place.file, place.offset, -place.order[0])
        self._learned.append(TableForm(_number(name), name, at, words))


def is_contradicted(table: FormerTable, shape: Shape) -> bool:
    """Tells whether rows of the log have columns that the table has not, or has in another way: it was changed without
    a statement in the log.  What each says in a way of its own (JSON, UUID) is not compared."""
    known = {one.column.name: one.column for one in table.columns}
    return any(
        column.name not in known
        or (column.kind in _COMPARED and known[column.name].kind in _COMPARED and _bare(column, known) != column)
        for column in shape.columns
    )


def with_default(table: FormerTable, shape: Shape) -> FormerTable:
    """Returns a table with the character set that rows of the log tell of texts for which a statement said none."""
    told = {column.name: column.charset for column in shape.columns}
    texts = [one.column for one in table.columns if one.column.kind in _TEXTS and not one.column.charset]
    charset = next((told[one.name] for one in texts if told.get(one.name)), "")
    if not charset or table.charset:
        return table
    return with_texts(table, charset, "")


def with_texts(table: FormerTable, charset: str, collation: str) -> FormerTable:
    """Returns a table with a character set for itself and its texts without one."""
    columns = tuple(
        msgspec.structs.replace(
            one, column=msgspec.structs.replace(one.column, charset=charset), collation=one.collation or collation
        )
        if one.column.kind in _TEXTS and not one.column.charset else one
        for one in table.columns
    )  # fmt: skip
    return msgspec.structs.replace(
        table, columns=columns, charset=table.charset or charset, collation=table.collation or collation
    )


def _bare(column: Column, known: dict[str, Column]) -> Column:
    """Returns the known column as the log has it, without what depends on when its default was told."""
    other = known[column.name]
    return msgspec.structs.replace(other, charset=column.charset)


def _number(name: TableName) -> int:
    """Returns a number for a table: MySQL has none that is its own."""
    digest = hashlib.blake2b(f"{name.schema}\0{name.table}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
