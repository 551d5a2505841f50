"""Statements of the log ahead of the place that is read: whether a table changes between there and a look at it.

The log is read ahead on a connection of its own, each part once, and its rows are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final, Literal, TypeAlias

import msgspec

from tidelock.adapters.mysql.binlog import events
from tidelock.adapters.mysql.binlog.damage import checked
from tidelock.adapters.mysql.binlog.payloads import inflated
from tidelock.adapters.mysql.binlog.prepared_log import log_from
from tidelock.adapters.mysql.binlog.query_events import QueryKind
from tidelock.adapters.mysql.binlog.query_events import classify as kind_of
from tidelock.adapters.mysql.connection import Address, connect, variable
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind

Place: TypeAlias = tuple[int, int]
"""Number of the file, and offset."""
_QUERIES: Final = (events.QUERY, events.QUERY_COMPRESSED)
_AROUND_ROWS: Final = (b"\0BEGIN", b"\0COMMIT")
_DATABASE: Final = re.compile(r"\b(DATABASE|SCHEMA)\b", re.IGNORECASE)
_HEAD: Final = 4096


class Statement(msgspec.Struct, frozen=True):
    """A statement that changes tables, or defaults of databases alone.  `end`: the place behind it.  Without `tables`
    and `databases`: any of them."""

    end: Place
    tables: tuple[TableName, ...]
    databases: tuple[str, ...]
    of_defaults: bool = False

    def concerns(self, name: TableName) -> bool:
        """Tells whether a table may have another form behind it."""
        if self.tables or self.of_defaults:
            return name in self.tables
        return not self.databases or name.schema in self.databases


def changes_tables(ddl: Ddl) -> bool:
    """Tells whether tables may have another form behind a statement."""
    return ddl.kind is not DdlKind.TRUNCATE and (ddl.kind is not DdlKind.UNRELATED or bool(ddl.tables))


class StatementsAhead:
    """`folded`: tells whether the server keeps names in lower case."""

    def __init__(self, endpoint: Address, dialect: Literal["mysql", "mariadb"], folded: Callable[[], bool]) -> None:
        self._endpoint, self._dialect, self._folded = endpoint, dialect, folded
        self._found: list[Statement] = []
        self._begin: Place | None = None
        self._read: Position | None = None

    def changes(self, name: TableName, start: Position, end: Position) -> bool:
        """Tells whether a statement of the log between two places may change a table.  Raises SourceError."""
        return any(one.concerns(name) for one in self._between(start, end))

    def changes_defaults(self, start: Position, end: Position) -> bool:
        """Tells whether a statement of the log between two places may change what a database has tables made with.
        Raises SourceError."""
        return any(one.of_defaults or not one.tables for one in self._between(start, end))

    def _between(self, start: Position, end: Position) -> list[Statement]:
        here, until = start.order[:2], end.order[:2]
        if self._begin is None or self._read is None or not self._begin <= here <= self._read.order[:2]:
            self._found, self._begin, self._read = [], here, start
        self._begin, self._found = here, [one for one in self._found if one.end > here]
        if self._read.order[:2] < until:
            self._read_on(self._read, until)
        return [one for one in self._found if one.end <= until]

    def _read_on(self, start: Position, until: Place) -> None:
        place = start
        for place, query in _queries(self._endpoint, start, until):
            if query is not None and (found := self._statement(query, place.order[:2])) is not None:
                self._found.append(found)
        self._read = place

    def _statement(self, query: events.Query, end: Place) -> Statement | None:
        if kind_of(query.statement) is not QueryKind.DDL:
            return None
        from tidelock.adapters.ddl.classify import classify  # DDL is rare

        ddl = Ddl(query.schema, query.statement, "", 0, sql_mode=query.sql_mode)
        read = classify(ddl, self._dialect, folded=self._folded())
        if changes_tables(read):
            return Statement(end, read.tables, read.databases)
        return Statement(end, (), (), of_defaults=True) if _DATABASE.search(query.statement[:_HEAD]) else None


def _queries(endpoint: Address, start: Position, until: Place) -> Iterator[tuple[Position, events.Query | None]]:
    """Yields statements up to `until`, each with the place behind it, and that end at last.  Raises SourceError."""
    with closing(connect(endpoint)) as connection:
        tail = events.CHECKSUM_SIZE if variable(connection, "binlog_checksum") != "NONE" else 0
    file, offset, number = start.file, start.offset, start.order[0]
    with closing(log_from(endpoint, file, offset)) as packets:
        for b, p, end in packets:
            tail = checked(b, p + 1, end, tail)
            _, kind, _, size, log_end, flags = events.HEADER(b, p + 1)
            body, body_end = p + 1 + events.HEADER_SIZE, end - tail
            if log_end and not flags & events.ARTIFICIAL and kind != events.HEARTBEAT:
                offset += size
            if kind == events.ROTATE:
                file, offset = events.rotation(b, body, body_end)
                number = Position(file, offset).order[0]
            elif kind in _QUERIES and not b.endswith(_AROUND_ROWS, body, body_end):
                yield Position(file, offset), _query(b, body, body_end, kind)
            if (number, offset) >= until:
                break
    yield Position(file, offset), None


def _query(b: bytes, p: int, end: int, kind: int) -> events.Query:
    if kind == events.QUERY:
        return events.query(b, p, end)
    return events.query(b, p, end, inflated(b, events.query_text_at(b, p), end))
