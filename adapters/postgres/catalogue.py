"""A PostgreSQL target's tables, read from its catalogue: one query a subject for all tables together.

Values are compared by a unique index as the engine compares canonical values only for the types of `_COMPARED`; of all
others (floats with -0.0 and NaN, jsonb, ranges, …) the index is opaque.  Deterministic collations compare bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidelock.adapters.schema.tables import Index, assemble
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Equality, ForeignKey, TargetColumn, TargetTable, UniqueKey

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

_NUMBERS = ("int2", "int4", "int8", "numeric", "bool", "bit", "varbit")
_TEXTS = ("text", "varchar", "bpchar", "enum", "bytea", "uuid", "inet")
_TIMES = ("date", "time", "timestamp", "timestamptz", "interval")
_COMPARED = frozenset((*_NUMBERS, *_TEXTS, *_TIMES))


async def read_tables(
    connection: asyncpg.Connection[asyncpg.Record], names: Sequence[TableName]
) -> dict[TableName, TargetTable]:
    """The tables of `names` that are there.  Raises what asyncpg raises."""
    wanted = [n.schema for n in names], [n.table for n in names]
    columns: dict[TableName, list[TargetColumn]] = defaultdict(list)
    for schema, table, name, type_, nullable, generated, default, base in await connection.fetch(_COLUMNS, *wanted):
        equality = Equality.PADDED if base == "bpchar" else Equality.EXACT
        columns[TableName(schema, table)].append(TargetColumn(name, type_, nullable, generated, default, equality))
    indexes = [_index(row) for row in await connection.fetch(_INDEXES, *wanted)]
    foreign = [
        ForeignKey(name, TableName(*child), tuple(own), TableName(*parent), tuple(theirs), cascades)
        for name, *child_parent, own, theirs, cascades in await connection.fetch(_FOREIGN_KEYS, *wanted)
        for child, parent in [(child_parent[:2], child_parent[2:])]
    ]
    return assemble(names, columns, indexes, foreign)


def _index(row: Any) -> Index:
    opaque = _opaque(row)
    expression = None in row["names"]
    columns = row["dependencies"] if expression or row["partial"] else row["names"]
    return Index(
        table=TableName(row["schema"], row["name"]),
        unique=UniqueKey(row["index"], tuple(columns), opaque),
        primary=row["indisprimary"],
        identifies=row["indisunique"]
        and row["indisvalid"]
        and row["indimmediate"]
        and not (expression or row["partial"]),
    )


def _opaque(row: Any) -> str:
    """Why a log row does not tell when the index says 'equal'; '' where it does."""
    if not row["indisunique"]:
        return "an exclusion constraint"
    if row["partial"]:
        return "partial (WHERE …), so whether a row is in it is not known from the log"
    if None in row["names"]:
        return "over an expression, whose value is not in the log"
    if not row["indimmediate"]:
        return "deferrable, so equal values may stand side by side until the end of a transaction"
    if row["nulls_equal"]:
        return "NULLS NOT DISTINCT"
    if row["generated"]:
        return f"over the generated column {row['generated'][0]}, which the target computes"
    if row["folding"]:
        return f"the collation {row['folding']} is not deterministic"
    if row["opclass"]:
        return f"the operator class {row['opclass']} has an equality of its own"
    odd = [kind for kind in row["kinds"] if kind not in _COMPARED]
    return f"values of type {odd[0]} may be equal without being the same" if odd else ""
