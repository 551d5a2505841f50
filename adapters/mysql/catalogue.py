"""The catalogue of a MySQL or MariaDB server as plain records: one query a subject for all tables together.

MariaDB opens every table that a condition does not rule out by an equality on its schema, so each condition begins
with one; the system schemas, whose views are slow to open, are never asked for.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import ForeignKey, SecondaryIndex

if TYPE_CHECKING:
    import aiomysql

    from tidelock.adapters.mysql.connection import Address, SourceConnection

_SYSTEM = ("information_schema", "mysql", "performance_schema", "sys")
_UNSEEN = ("CASCADE", "CASCADE")  # a foreign key whose rules are not shown to us
ON_CHANGE = ("CASCADE", "SET NULL", "SET DEFAULT")


class ColumnRow(msgspec.Struct, frozen=True):
    """`default`: COLUMN_DEFAULT, which MariaDB spells as SQL and MySQL as the bare value."""

    schema: str
    table: str
    name: str
    default: str | None
    nullable: bool
    data_type: str
    column_type: str
    characters: int
    precision: int
    scale: int
    fraction: int
    charset: str
    collation: str
    extra: str
    expression: str

    @property
    def table_name(self) -> TableName:
        """The table of the column."""
        return TableName(self.schema, self.table)

    @property
    def generated(self) -> bool:
        """True if the server computes the column."""
        return bool(self.expression)


class IndexRow(msgspec.Struct, frozen=True):
    """A unique index.  `columns`: None for an expression.  `prefixes`: characters, 0 for the whole column.

    `expressions`: texts of the expressions, '' for columns.
    """

    table_name: TableName
    name: str
    columns: tuple[str | None, ...]
    prefixes: tuple[int, ...]
    expressions: tuple[str, ...]


class Server(Protocol):
    """A connection that can be asked, whichever driver it is of."""

    @property
    def is_mariadb(self) -> bool: ...

    async def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]: ...


class AsyncServer:
    """Asks by aiomysql."""

    def __init__(self, connection: aiomysql.Connection) -> None:
        self._connection = connection
        self.is_mariadb = "mariadb" in connection.get_server_info().lower()

    async def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        async with self._connection.cursor() as cursor:
            await cursor.execute(sql, args or None)
            return list(await cursor.fetchall())


class BlockingServer:
    """Asks by PyMySQL, in a thread.  `ask` raises SourceError, at a target too."""

    def __init__(self, connection: SourceConnection, place: Address) -> None:
        self._connection = connection
        self._place = place
        self.is_mariadb = "mariadb" in str(connection.get_server_info()).lower()  # type: ignore[no-untyped-call]

    async def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Run a query in a thread and return its rows."""
        import asyncio  # a reader of the log, which asks without it, does without it

        return await asyncio.to_thread(self.rows, sql, *args)

    def rows(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Run a query in this thread and return its rows."""
        import pymysql

        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql, args or None)
                return list(cursor.fetchall())
        except (pymysql.MySQLError, OSError) as error:
            from tidelock.adapters.mysql.connection import explained

            raise explained(error, self._place) from error

    def stream(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """Run a query in this thread and yield its rows as they come."""
        import pymysql
        from pymysql.cursors import SSCursor

        try:
            with self._connection.cursor(SSCursor) as cursor:
                cursor.execute(sql)
                yield from cursor
        except (pymysql.MySQLError, OSError) as error:
            from tidelock.adapters.mysql.connection import explained

            raise explained(error, self._place) from error

    def interrupt(self) -> None:
        """End the connection, called from another thread: whoever waits for an answer gets an error."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection."""
        if self._connection.open:
            self._connection.close()


async def schemas(server: Server) -> list[str]:
    """The databases that we may see, the server's own left out."""
    return [s for (s,) in await server.ask("SHOW DATABASES") if s.lower() not in _SYSTEM]


async def columns(server: Server, names: Sequence[TableName]) -> list[ColumnRow]:
    """Read columns, in order of the tables and their columns."""
    where, args = condition(names)
    rows = await server.ask(
        f"""SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_DEFAULT, IS_NULLABLE = 'YES', LOWER(DATA_TYPE),
        COLUMN_TYPE, COALESCE(CHARACTER_MAXIMUM_LENGTH, 0), COALESCE(NUMERIC_PRECISION, 0), COALESCE(NUMERIC_SCALE, 0),
        COALESCE(DATETIME_PRECISION, 0), COALESCE(CHARACTER_SET_NAME, ''), COALESCE(COLLATION_NAME, ''), LOWER(EXTRA),
        COALESCE(GENERATION_EXPRESSION, '')
        FROM information_schema.COLUMNS WHERE {where} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION""",
        *args,
    )
    # MariaDB answers COALESCE as DECIMAL.
    found = (ColumnRow(*(*r[:4], bool(r[4]), *r[5:7], *map(int, r[7:11]), *r[11:])) for r in rows)
    wanted = set(names)
    return [c for c in found if c.table_name in wanted]


async def plain_indexes(server: Server, names: Sequence[TableName]) -> dict[TableName, tuple[SecondaryIndex, ...]]:
    """Read the indexes that are not unique, by table."""
    where, args = condition(names)
    rows = await server.ask(
        f"""SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, LOWER(COALESCE(COLUMN_NAME, '?')), COALESCE(SUB_PART, 0),
        COALESCE(COLLATION, '') = 'D' FROM information_schema.STATISTICS
        WHERE NON_UNIQUE = 1 AND ({where}) ORDER BY 1, 2, 3, SEQ_IN_INDEX""",
        *args,
    )
    parts: dict[tuple[TableName, str], list[str]] = defaultdict(list)
    for schema, table, name, column, prefix, descending in rows:
        part = column + (f"({prefix})" if prefix else "") + (" desc" if descending else "")
        parts[TableName(schema, table), name].append(part)
    found: dict[TableName, list[SecondaryIndex]] = defaultdict(list)
    for (of, name), listed in parts.items():
        found[of].append(SecondaryIndex(name, tuple(listed)))
    return {name: tuple(indexes) for name, indexes in found.items()}


async def unique_indexes(server: Server, names: Sequence[TableName]) -> list[IndexRow]:
    """The primary key first, the others by name."""
    where, args = condition(names)
    expression = "''" if server.is_mariadb else "COALESCE(EXPRESSION, '')"
    rows = await server.ask(
        f"""SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, COALESCE(SUB_PART, 0), {expression}
        FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0 AND ({where})
        ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX""",
        *args,
    )
    wanted = set(names)
    parts: dict[tuple[TableName, str], list[tuple[str | None, int, str]]] = defaultdict(list)
    for schema, table, index, *part in rows:
        if TableName(schema, table) in wanted:
            column, prefix, text = part
            parts[TableName(schema, table), index].append((column, int(prefix), text))
    return [IndexRow(table, index, *zip(*p, strict=True)) for (table, index), p in parts.items()]


async def foreign_keys(server: Server, names: Sequence[TableName]) -> list[ForeignKey]:
    """Read the foreign keys of `names` and those that point to them, from every database we may see."""
    everywhere = sorted(set(await schemas(server)) | {n.schema for n in names})
    where = " OR ".join(["TABLE_SCHEMA = %s"] * len(everywhere))
    rows = await server.ask(
        f"""SELECT TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_SCHEMA,
        REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE
        WHERE REFERENCED_TABLE_NAME IS NOT NULL AND ({where})
        ORDER BY TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION""",
        *everywhere,
    )
    wanted = set(names)
    pairs: dict[tuple[TableName, str, TableName], list[tuple[str, str]]] = defaultdict(list)
    for schema, table, constraint, column, parent_schema, parent_table, parent_column in rows:
        child, parent = TableName(schema, table), TableName(parent_schema, parent_table)
        if child in wanted or parent in wanted:
            pairs[child, constraint, parent].append((column, parent_column))
    acting = await rules(server, {child.schema for child, _, _ in pairs}) if pairs else {}
    return [
        ForeignKey(
            name=name,
            child=child,
            columns=tuple(c for c, _ in columns),
            parent=parent,
            parent_columns=tuple(p for _, p in columns),
            cascades=bool(clause(*acting.get((child, name), _UNSEEN))),
        )
        for (child, name, parent), columns in pairs.items()
    ]


async def rules(server: Server, in_schemas: Iterable[str]) -> dict[tuple[TableName, str], tuple[str, str]]:
    """ON UPDATE and ON DELETE of each foreign key of those databases, by (child, name)."""
    names = sorted(in_schemas)
    where = " OR ".join(["CONSTRAINT_SCHEMA = %s"] * len(names)) or "FALSE"
    rows = await server.ask(
        f"""SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, UPDATE_RULE, DELETE_RULE
        FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE {where}""",
        *names,
    )
    return {(TableName(s, t), name): (update, delete) for s, t, name, update, delete in rows}


def clause(update: str, delete: str) -> str:
    """Spell the rule: ` ON UPDATE CASCADE ON DELETE SET NULL`; what only refuses is left out."""
    parts = (("UPDATE", update), ("DELETE", delete))
    return "".join(f" ON {event} {rule}" for event, rule in parts if rule in ON_CHANGE)


def condition(names: Sequence[TableName]) -> tuple[str, list[str]]:
    """Make a WHERE condition that finds the tables `names`, and its arguments."""
    by_schema: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_schema[name.schema].append(name.table)
    parts, args = [], list[str]()
    for schema, tables in by_schema.items():
        parts.append(f"(TABLE_SCHEMA = %s AND TABLE_NAME IN ({', '.join(['%s'] * len(tables))}))")
        args += [schema, *tables]
    return " OR ".join(parts) or "FALSE", args


def columns_in(expression: str, known: Iterable[str]) -> tuple[str, ...]:
    """The columns that the text of an expression mentions, quoted as the server does."""
    mentioned = {m.replace("``", "`") for m in re.findall(r"`((?:[^`]|``)+)`", expression)}
    return tuple(c for c in known if c in mentioned)


_MARIADB_CHECKS = """SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, CHECK_CLAUSE
        FROM information_schema.CHECK_CONSTRAINTS WHERE {} ORDER BY 1, 2, 3"""  # a join would open every table
_MYSQL_CHECKS = """SELECT CONSTRAINT_SCHEMA, t.TABLE_NAME, CONSTRAINT_NAME, c.CHECK_CLAUSE
        FROM information_schema.TABLE_CONSTRAINTS t JOIN information_schema.CHECK_CONSTRAINTS c
        USING (CONSTRAINT_SCHEMA, CONSTRAINT_NAME)
        WHERE t.CONSTRAINT_TYPE = 'CHECK' AND t.ENFORCED = 'YES' AND ({}) ORDER BY 1, 2, 3"""


async def checks(server: Server, names: Sequence[TableName]) -> dict[TableName, list[tuple[str, str]]]:
    """(name, clause) of the check constraints that are enforced."""
    schemas_there = sorted({n.schema for n in names})
    where = " OR ".join(["CONSTRAINT_SCHEMA = %s"] * len(schemas_there)) or "FALSE"
    rows = await server.ask((_MARIADB_CHECKS if server.is_mariadb else _MYSQL_CHECKS).format(where), *schemas_there)
    found: dict[TableName, list[tuple[str, str]]] = defaultdict(list)
    for schema, table, name, text in rows:
        found[TableName(schema, table)].append((name, text))
    return found


async def triggers(server: Server, names: Sequence[TableName]) -> dict[TableName, list[str]]:
    """Read the names of the triggers on tables."""
    schemas_there = sorted({n.schema for n in names})
    where = " OR ".join(["EVENT_OBJECT_SCHEMA = %s"] * len(schemas_there)) or "FALSE"
    rows = await server.ask(
        f"""SELECT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, TRIGGER_NAME FROM information_schema.TRIGGERS
        WHERE {where} ORDER BY 1, 2, 3""",
        *schemas_there,
    )
    found: dict[TableName, list[str]] = defaultdict(list)
    for schema, table, name in rows:
        found[TableName(schema, table)].append(name)
    return found


async def engines(server: Server, names: Sequence[TableName]) -> dict[TableName, str]:
    """Read the storage engines of tables."""
    where, args = condition(names)
    rows = await server.ask(
        f"SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE {where}", *args
    )
    return {TableName(schema, table): str(engine) for schema, table, engine in rows}
