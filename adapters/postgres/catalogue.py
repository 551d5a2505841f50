"""The tables of a PostgreSQL server, read from its catalogue: one query a subject for all tables together.

Values are compared by a unique index as the engine compares canonical values only for the types of `COMPARED`; of all
others (floats with -0.0 and NaN, jsonb, ranges, …) the index is opaque.  Deterministic collations compare bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tidelock.adapters.postgres.column_types import COMPARED
from tidelock.adapters.schema.tables import Index, assemble
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Equality, ForeignKey, SecondaryIndex, TargetColumn, TargetTable, UniqueKey

if TYPE_CHECKING:
    import asyncpg

_WANTED = """
wanted AS MATERIALIZED (
    SELECT c.oid, n.nspname AS schema, c.relname AS name
    FROM unnest($1::text[], $2::text[]) AS w(schema, name)
    JOIN pg_namespace n ON n.nspname = w.schema
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p')
)"""

_COLUMNS = f"""
WITH {_WANTED}
SELECT w.schema, w.name, a.attname::text, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
    a.attgenerated <> '', a.atthasdef OR a.attidentity <> '', t.typname::text
FROM wanted w
JOIN pg_attribute a ON a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
ORDER BY w.oid, a.attnum"""

# `kinds`: per key column the type, enum or not; `names` holds NULL for an expression, whose columns (and those of a
# WHERE) are what the index depends on.
_INDEXES = f"""
WITH {_WANTED}
SELECT w.schema, w.name, x.relname::text AS index, i.indisprimary, i.indisunique, i.indimmediate, i.indisvalid,
    i.indpred IS NOT NULL AS partial, coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::bool, false) AS nulls_equal,
    ARRAY(
        SELECT CASE WHEN k.attnum > 0 THEN a.attname::text END
        FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
        LEFT JOIN pg_attribute a ON a.attrelid = w.oid AND a.attnum = k.attnum
        WHERE k.n <= i.indnkeyatts ORDER BY k.n
    ) AS names,
    ARRAY(
        SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = w.oid AND a.attnum IN (
            SELECT d.refobjsubid FROM pg_depend d
            WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid AND d.refobjid = w.oid
        ) ORDER BY a.attnum
    ) AS dependencies,
    ARRAY(
        SELECT CASE WHEN t.typtype = 'e' THEN 'enum' ELSE t.typname::text END
        FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
        JOIN pg_attribute a ON a.attrelid = w.oid AND a.attnum = k.attnum
        JOIN pg_type t ON t.oid = a.atttypid
        WHERE k.n <= i.indnkeyatts ORDER BY k.n
    ) AS kinds,
    ARRAY(
        SELECT a.attname::text FROM unnest(i.indkey::int2[]) AS k(attnum)
        JOIN pg_attribute a ON a.attrelid = w.oid AND a.attnum = k.attnum AND a.attgenerated <> ''
    ) AS generated,
    (
        SELECT c.collname::text FROM pg_collation c
        WHERE c.oid = ANY (i.indcollation::oid[]) AND NOT c.collisdeterministic LIMIT 1
    ) AS folding,
    (
        SELECT o.opcname::text FROM pg_opclass o WHERE o.oid = ANY (i.indclass::oid[]) AND NOT o.opcdefault LIMIT 1
    ) AS opclass
FROM wanted w
JOIN pg_index i ON i.indrelid = w.oid AND (i.indisunique OR i.indisexclusion) AND i.indislive
JOIN pg_class x ON x.oid = i.indexrelid
ORDER BY w.oid, i.indisprimary DESC, x.relname"""

_PLAIN_INDEXES = f"""
WITH {_WANTED}
SELECT w.schema, w.name, x.relname::text,
    ARRAY(
        SELECT lower(coalesce(a.attname::text, pg_get_indexdef(i.indexrelid, n, true)))
            || CASE WHEN i.indoption[n - 1] & 1 = 1 THEN ' desc' ELSE '' END
        FROM generate_series(1, i.indnkeyatts::int) AS n
        LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n - 1] AND i.indkey[n - 1] > 0
        ORDER BY n
    )
FROM wanted w
JOIN pg_index i ON i.indrelid = w.oid AND NOT i.indisunique AND NOT i.indisexclusion
JOIN pg_class x ON x.oid = i.indexrelid
ORDER BY 1, 2, 3"""

_CHECKS = f"""
WITH {_WANTED}
SELECT w.schema, w.name, array_agg(k.conname::text ORDER BY k.conname)
FROM wanted w JOIN pg_constraint k ON k.conrelid = w.oid AND k.contype = 'c'
GROUP BY 1, 2"""

# A partition's own copy of a key has a parent constraint; only the partitioned table's is read.
_FOREIGN_KEYS = f"""
WITH {_WANTED}
SELECT c.conname::text, cn.nspname::text, ct.relname::text, pn.nspname::text, pt.relname::text,
    ARRAY(
        SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY AS k(attnum, n)
        JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.attnum ORDER BY k.n
    ) AS columns,
    ARRAY(
        SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY AS k(attnum, n)
        JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.attnum ORDER BY k.n
    ) AS parent_columns,
    c.confdeltype IN ('c', 'n', 'd') OR c.confupdtype IN ('c', 'n', 'd') AS cascades
FROM pg_constraint c
JOIN pg_class ct ON ct.oid = c.conrelid
JOIN pg_namespace cn ON cn.oid = ct.relnamespace
JOIN pg_class pt ON pt.oid = c.confrelid
JOIN pg_namespace pn ON pn.oid = pt.relnamespace
WHERE c.contype = 'f' AND c.conparentid = 0
    AND (c.conrelid IN (SELECT oid FROM wanted) OR c.confrelid IN (SELECT oid FROM wanted))
ORDER BY 2, 3, 1"""

_RULES = """
SELECT n.nspname::text, t.relname::text, c.conname::text, c.confdeltype::text, c.confupdtype::text
FROM pg_constraint c
JOIN pg_class t ON t.oid = c.conrelid
JOIN pg_namespace n ON n.oid = t.relnamespace
WHERE c.contype = 'f' AND c.conparentid = 0 AND c.confrelid = (
    SELECT p.oid FROM pg_class p JOIN pg_namespace s ON s.oid = p.relnamespace WHERE s.nspname = $1 AND p.relname = $2
)"""

EXCLUSION, PARTIAL, NULLS_EQUAL = "an exclusion constraint", "partial", "NULLS NOT DISTINCT"
"""Why an index is opaque, or how that begins."""


class IndexRow(msgspec.Struct, frozen=True):
    """A unique index or an exclusion constraint, as `_INDEXES` reads it."""

    schema: str
    table: str
    name: str
    primary: bool
    unique: bool
    immediate: bool
    valid: bool
    partial: bool
    nulls_equal: bool
    columns: list[str | None]
    dependencies: list[str]
    kinds: list[str]
    generated: list[str]
    folding: str | None
    opclass: str | None

    @property
    def table_name(self) -> TableName:
        """The table of the index."""
        return TableName(self.schema, self.table)


class Server(Protocol):
    """A connection that can be asked, whichever driver it is of; parameters are `$1`, `$2`."""

    async def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]: ...


class AsyncServer:
    """Asks by asyncpg."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._connection = connection

    async def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        return [tuple(row) for row in await self._connection.fetch(sql, *args)]


async def read_tables(
    connection: asyncpg.Connection[asyncpg.Record], names: Sequence[TableName]
) -> dict[TableName, TargetTable]:
    """The tables of `names` that are there.  Raises what asyncpg raises."""
    server = AsyncServer(connection)
    wanted = named(names)
    columns: dict[TableName, list[TargetColumn]] = defaultdict(list)
    for schema, table, name, type_, nullable, generated, default, base in await server.ask(_COLUMNS, *wanted):
        equality = Equality.PADDED if base == "bpchar" else Equality.EXACT
        columns[TableName(schema, table)].append(TargetColumn(name, type_, nullable, generated, default, equality))
    found = await indexes(server, names)
    return assemble(names, columns, [index_of(row) for row in found], await foreign_keys(server, names))


async def read_tables_to_change(
    connection: asyncpg.Connection[asyncpg.Record], names: Sequence[TableName]
) -> dict[TableName, TargetTable]:
    """The same, with their plain indexes, and the names of their CHECKs and primary keys."""
    tables, server = await read_tables(connection, names), AsyncServer(connection)
    plain = await plain_indexes(server, names)
    checks = {TableName(*row[:2]): tuple(row[2]) for row in await server.ask(_CHECKS, *named(names))}
    primary = {TableName(row.schema, row.table): row.name for row in await indexes(server, names) if row.primary}
    return {
        name: msgspec.structs.replace(
            table, plain_indexes=plain.get(name, ()), checks=checks.get(name, ()), primary=primary.get(name, "")
        )
        for name, table in tables.items()
    }


def named(names: Sequence[TableName]) -> tuple[list[str], list[str]]:
    """Write names as the arrays that the queries take."""
    return [n.schema for n in names], [n.table for n in names]


async def indexes(server: Server, names: Sequence[TableName]) -> list[IndexRow]:
    """Read unique indexes and exclusion constraints: of each table the primary key first, the others by name."""
    return [IndexRow(*row) for row in await server.ask(_INDEXES, *named(names))]


async def plain_indexes(server: Server, names: Sequence[TableName]) -> dict[TableName, tuple[SecondaryIndex, ...]]:
    """Read the indexes that are not unique, by table."""
    found: dict[TableName, list[SecondaryIndex]] = defaultdict(list)
    for schema, table, name, parts in await server.ask(_PLAIN_INDEXES, *named(names)):
        found[TableName(schema, table)].append(SecondaryIndex(name, tuple(parts)))
    return {name: tuple(indexes) for name, indexes in found.items()}


async def foreign_keys(server: Server, names: Sequence[TableName]) -> list[ForeignKey]:
    """Read the foreign keys of `names` and those that point to them."""
    return [
        ForeignKey(name, TableName(schema, table), tuple(own), TableName(*parent), tuple(theirs), cascades)
        for name, schema, table, *parent, own, theirs, cascades in await server.ask(_FOREIGN_KEYS, *named(names))
    ]


async def foreign_rules(server: Server, parent: TableName) -> dict[tuple[TableName, str], tuple[str, str]]:
    """ON DELETE and ON UPDATE of each foreign key that points to the table, as letters of `pg_constraint`, by (child,
    name)."""
    rows = await server.ask(_RULES, parent.schema, parent.table)
    return {(TableName(schema, table), name): (delete, update) for schema, table, name, delete, update in rows}


def index_of(row: IndexRow) -> Index:
    """Describe an index as the engine sees it."""
    expression = None in row.columns
    columns = row.dependencies if expression or row.partial else [c for c in row.columns if c is not None]
    return Index(
        table=row.table_name,
        unique=UniqueKey(row.name, tuple(columns), _opaque(row)),
        primary=row.primary,
        identifies=row.unique and row.valid and row.immediate and not (expression or row.partial),
    )


def _opaque(row: IndexRow) -> str:
    """Returns why a log row does not tell when the index says 'equal'; '' where it does."""
    if not row.unique:
        return EXCLUSION
    if row.partial:
        return f"{PARTIAL} (WHERE …), so whether a row is in it is not known from the log"
    if None in row.columns:
        return "over an expression, whose value is not in the log"
    if not row.immediate:
        return "deferrable, so equal values may stand side by side until the end of a transaction"
    if row.nulls_equal:
        return NULLS_EQUAL
    if row.generated:
        return f"over the generated column {row.generated[0]}, which the target computes"
    if row.folding:
        return f"the collation {row.folding} is not deterministic"
    if row.opclass:
        return f"the operator class {row.opclass} has an equality of its own"
    odd = [kind for kind in row.kinds if kind not in COMPARED]
    return f"values of type {odd[0]} may be equal without being the same" if odd else ""
