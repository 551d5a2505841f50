"""Looks at a source's tables as its catalogue has them, with a place of the log at which they certainly are so.

A server shows a table in its new form no sooner than the statement is in its log.  So what is read before the log's end
is asked for is as it is at that end, of each table that no statement has changed up to there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import closing
from typing import Any, TypeVar

import msgspec
import pymysql

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.mysql import catalogue
from tidelock.adapters.mysql.binlog.history import identity
from tidelock.adapters.mysql.binlog.log_ends import current_place
from tidelock.adapters.mysql.connection import SourceConnection, connect, explained, flavor, reader_endpoint, rows
from tidelock.adapters.mysql.schema import VERSIONED, source_column, versioned
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import FormerColumn, FormerTable

Answer = TypeVar("Answer")


class Look(msgspec.Struct, frozen=True):
    """`server`: its identity; `place`: the log's end, behind the look; `tables`: those that were asked for.  `texts`:
    character set and collation that the database of a single table gives to tables; '' where that was not asked."""

    server: str
    place: Position
    tables: dict[TableName, FormerTable]
    texts: tuple[str, str] = ("", "")


class TableLook:
    """Looks at the tables that a feed takes."""

    def __init__(self, source: Endpoint, mapping: Mapping) -> None:
        self._address, self._mapping = reader_endpoint(source), mapping

    def __call__(self, known: Collection[TableName]) -> Look:
        """Returns the feed's tables that are not among the `known`.  Raises SourceError."""
        return self._seen(lambda connection: self._tables(connection, known))

    def at(self, name: TableName) -> Look:
        """Returns one table, which need not be the feed's, and the texts of its database.  Raises SourceError."""
        return self._seen(lambda connection: _described(connection, [name]), name.schema)

    def _seen(
        self, tables_of: Callable[[SourceConnection], dict[TableName, FormerTable]], database: str = ""
    ) -> Look:
        try:
            with closing(connect(self._address)) as connection:
                server = identity(connection)
                tables = tables_of(connection)
                texts = _texts_of(connection, database) if database else ("", "")
                return Look(server, current_place(connection), tables, texts)
        except pymysql.MySQLError as error:
            raise explained(error, self._address) from error

    def _tables(self, connection: SourceConnection, known: Collection[TableName]) -> dict[TableName, FormerTable]:
        asked = _Asked(connection)
        schemas = [name for name in _done(catalogue.schemas(asked)) if self._mapping.draws_on(name)]
        if not schemas:
            return {}
        places = ", ".join(["%s"] * len(schemas))
        there = rows(
            connection,
            f"SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES"
            f" WHERE TABLE_SCHEMA IN ({places}) AND TABLE_TYPE IN ('BASE TABLE', '{VERSIONED}')",
            *schemas,
        )
        found = [TableName(str(schema), str(table)) for schema, table, _ in there]
        for name, (*_, type_) in zip(found, there, strict=True):
            if str(type_) == VERSIONED and self._mapping.selects(name):
                raise versioned(name)
        return _described(connection, [name for name in found if name not in known and self._mapping.selects(name)])


def _texts_of(connection: SourceConnection, database: str) -> tuple[str, str]:
    found = rows(
        connection,
        "SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA"
        " WHERE SCHEMA_NAME = %s",
        database,
    )
    return (str(found[0][0]), str(found[0][1])) if found else ("", "")


def _described(connection: SourceConnection, names: Sequence[TableName]) -> dict[TableName, FormerTable]:
    if not names:
        return {}
    asked = _Asked(connection)
    where, args = catalogue.condition(names)
    collations = {
        TableName(str(schema), str(table)): str(collation or "")
        for schema, table, collation in rows(
            connection,
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COLLATION FROM information_schema.TABLES WHERE " + where,
            *args,
        )
    }
    columns: dict[TableName, list[FormerColumn]] = {}
    for row in _done(catalogue.columns(asked, names)):
        columns.setdefault(row.table_name, []).append(_column(row))
    indexes = _done(catalogue.unique_indexes(asked, names))
    keys = {one.table_name: tuple(filter(None, one.columns)) for one in indexes if one.name == "PRIMARY"}
    return {
        name: FormerTable(
            tuple(columns[name]), collations[name].partition("_")[0], collations[name], keys.get(name, ())
        )
        for name in names
        if name in columns and name in collations
    }


class _Asked:
    """A `catalogue.Server` that answers at once, so that no loop is needed."""

    def __init__(self, connection: SourceConnection) -> None:
        self._connection = connection
        self.is_mariadb = flavor(connection).is_mariadb

    async def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Runs a query and returns its rows."""
        return list(rows(self._connection, sql, *args))


def _done(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Returns what a coroutine makes that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        answer: Answer = done.value
        return answer
    raise AssertionError("it waits for nothing")


def _column(row: catalogue.ColumnRow) -> FormerColumn:
    column = source_column(row)
    return FormerColumn(
        column.column, row.column_type, row.nullable, row.collation, "auto_increment" in row.extra, row.generated
    )
