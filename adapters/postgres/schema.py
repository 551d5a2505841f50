"""Tables of a PostgreSQL source: what its log tells of their rows, and what their keys mean for the lock table.

A unique index of the source is told as one of a target is (`catalogue.index_of`): where a row does not say when the
index takes two values as equal, it is opaque, and says why.

| index                                   | in the log a row tells                                             |
|-----------------------------------------|--------------------------------------------------------------------|
| UNIQUE, PRIMARY KEY over exact types    | its value: two rows clash where their values are the same          |
| partial (WHERE …), over an expression   | neither whether it is in the index nor its value: opaque           |
| DEFERRABLE                              | equal values may stand side by side within a transaction: opaque   |
| NULLS NOT DISTINCT                      | NULL clashes with NULL: opaque                                     |
| float, jsonb, array, citext, ranges     | values may be equal and differ in spelling: opaque                 |
| EXCLUDE                                 | rows clash that share no value: opaque                             |

Partitions are not told: their rows are in the log under the name of the root (`publish_via_partition_root`).  A column
that PostgreSQL computes is in the catalogue and not in the log.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tidelock.adapters.postgres import catalogue
from tidelock.adapters.postgres.catalogue import Server, index_of, named
from tidelock.adapters.postgres.column_types import TYPE_FACTS, PostgresType, column_of, types_of
from tidelock.adapters.postgres.user_types import user_types
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.engine.model.records import ReplicaIdentity, TableName
from tidelock.engine.model.schema import ForeignKey, UniqueKey

PRIMARY: Final = "PRIMARY"
_OWN = "n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'"

_TABLES: Final = f"""
SELECT n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text, c.relreplident::text,
    c.relispartition, row_security_active(c.oid), has_table_privilege(c.oid, 'SELECT'),
    has_schema_privilege(n.oid, 'USAGE'), pg_has_role(c.relowner, 'USAGE'), pg_get_userbyid(c.relowner)::text,
    EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = c.oid) AND c.relkind = 'r',
    (
        SELECT pn.nspname::text || '.' || p.relname FROM pg_partition_root(c.oid) AS root
        JOIN pg_class p ON p.oid = root JOIN pg_namespace pn ON pn.oid = p.relnamespace WHERE c.relispartition
    )
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f') AND c.relpersistence <> 't' AND {_OWN}
ORDER BY 1, 2"""

_COLUMNS: Final = """
SELECT n.nspname::text, c.relname::text, a.attname::text, a.atttypid::bigint, a.atttypmod,
    format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, a.attgenerated <> '', a.attidentity::text,
    coalesce(pg_get_expr(d.adbin, d.adrelid), ''), coalesce(l.collname::text, '')
FROM unnest($1::text[], $2::text[]) AS w(schema, name)
JOIN pg_namespace n ON n.nspname = w.schema
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_collation l ON l.oid = a.attcollation AND l.collname <> 'default'
ORDER BY 1, 2, a.attnum"""

# Of a partitioned table the identities of its partitions count, which hold the rows.  PostgreSQL takes no deferrable
# primary key for an identity.
_IDENTITIES: Final = """
SELECT n.nspname::text, c.relname::text, ln.nspname::text, l.relname::text, l.reltoastrelid <> 0,
    l.relreplident::text, ARRAY(
    SELECT a.attname::text FROM pg_index i
    CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
    JOIN pg_attribute a ON a.attrelid = l.oid AND a.attnum = k.attnum
    WHERE i.indrelid = l.oid AND i.indisvalid AND i.indimmediate AND k.n <= i.indnkeyatts
        AND CASE l.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END
    ORDER BY k.n
)
FROM unnest($1::text[], $2::text[]) AS w(schema, name)
JOIN pg_namespace n ON n.nspname = w.schema
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
LEFT JOIN LATERAL (SELECT relid FROM pg_partition_tree(c.oid) WHERE isleaf AND relid <> c.oid) AS p ON true
JOIN pg_class l ON l.oid = coalesce(p.relid, c.oid)
JOIN pg_namespace ln ON ln.oid = l.relnamespace
ORDER BY 1, 2, 3, 4"""

_DEFERRABLE: Final = """
SELECT n.nspname::text, c.relname::text, k.conname::text
FROM unnest($1::text[], $2::text[]) AS w(schema, name)
JOIN pg_namespace n ON n.nspname = w.schema
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'f' AND k.condeferrable"""

_RULES: Final = """
SELECT n.nspname::text, c.relname::text, k.conname::text, k.contype::text, k.confupdtype::text, k.confdeltype::text,
    pg_get_constraintdef(k.oid)
FROM unnest($1::text[], $2::text[]) AS w(schema, name)
JOIN pg_namespace n ON n.nspname = w.schema
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype IN ('c', 'f') ORDER BY 1, 2, 3"""
RULES: Final = {"c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT", "r": "RESTRICT", "a": "NO ACTION"}
"""Rules of a foreign key, by the letter of pg_constraint."""

_LITERAL: Final = re.compile(r"(?:'(?:[^']|'')*'|-?\d[\d.]*|\(-\d[\d.]*\)|true|false)(?:::[\w \".()\[\],]+)?")


class TableRow(msgspec.Struct, frozen=True):
    """A table as `_TABLES` reads it, partitions and foreign tables too.

    `kind`: pg_class's relkind.  `persistence`: `p`ermanent or `u`nlogged.  `identity`: relreplident.  `hidden`: row
    security hides rows from us.  `owned`: we may act as its owner.  `inherited`: other tables inherit from it.
    `root`: of a partition, the partitioned table that its rows are told under.
    """

    schema: str
    table: str
    kind: str
    persistence: str
    identity: str
    partition: bool
    hidden: bool
    readable: bool
    usable: bool
    owned: bool
    owner: str
    inherited: bool
    root: str | None

    @property
    def name(self) -> TableName:
        """The table's name."""
        return TableName(self.schema, self.table)


async def read_rows(server: Server) -> list[TableRow]:
    """Every table of the database but the server's own, readable or not."""
    return [TableRow(*row) for row in await server.ask(_TABLES)]


async def read_shapes(server: Server, wanted: Callable[[TableName], bool]) -> dict[TableName, SourceTable]:
    """The source tables that `wanted` chooses, in order of their names: those that the log has rows of."""
    return await tables_of(server, [r for r in await read_rows(server) if is_replicated(r) and wanted(r.name)])


def is_replicated(row: TableRow) -> bool:
    """Tell whether the log can have rows under this table's name."""
    return not row.partition and row.kind != "f" and row.persistence == "p"


async def tables_of(server: Server, rows: Sequence[TableRow]) -> dict[TableName, SourceTable]:
    """Read what the catalogue says of these tables."""
    if not rows:
        return {}
    names = [r.name for r in rows]
    columns = await server.ask(_COLUMNS, *named(names))
    types = types_of(await server.ask(TYPE_FACTS, list({c[3] for c in columns})))
    uniques: dict[TableName, list[UniqueKey]] = defaultdict(list)
    for index in await catalogue.indexes(server, names):
        unique = index_of(index).unique
        uniques[index.table_name].append(msgspec.structs.replace(unique, name=PRIMARY) if index.primary else unique)
    children: dict[TableName, list[ForeignKey]] = defaultdict(list)
    for key in await catalogue.foreign_keys(server, names):
        children[key.child].append(key)
    identities: dict[TableName, list[_Identity]] = defaultdict(list)
    leaving_out: set[TableName] = set()
    for schema, table, *leaf, toasts, letter, key in await server.ask(_IDENTITIES, *named(names)):
        identities[TableName(schema, table)].append(_Identity(TableName(*leaf), letter, tuple(key)))
        if toasts and letter != "f":
            leaving_out.add(TableName(schema, table))
    deferrable: dict[TableName, list[str]] = defaultdict(list)
    for schema, table, key in await server.ask(_DEFERRABLE, *named(names)):
        deferrable[TableName(schema, table)].append(key)
    own = await user_types(server, types.values())
    made: dict[TableName, list[SourceColumn]] = defaultdict(list)
    used: dict[TableName, list[PostgresType]] = defaultdict(list)
    for schema, table, *described in columns:
        made[TableName(schema, table)].append(_column(types[described[1]], *described))
        used[TableName(schema, table)].append(types[described[1]])
    return {
        name: SourceTable(
            name=name,
            columns=tuple(made[name]),
            uniques=tuple(uniques[name]),
            foreign_keys=tuple(children[name]),
            identity=told_by(identities[name])[0],
            identity_columns=told_by(identities[name])[1],
            types=own.needed(used[name]),
            partitions=tuple(one.table for one in identities[name] if one.table != name),
            deferrable=tuple(deferrable[name]),
            leaves_out=name in leaving_out,
        )
        for name in names
    }


async def read_rules(
    server: Server, names: Sequence[TableName]
) -> tuple[dict[tuple[TableName, str], tuple[str, str]], dict[TableName, list[tuple[str, str]]]]:
    """Read ON UPDATE and ON DELETE of the foreign keys of tables, by table and name, and their check constraints."""
    rules: dict[tuple[TableName, str], tuple[str, str]] = {}
    checks: dict[TableName, list[tuple[str, str]]] = defaultdict(list)
    for schema, table, name, sort, update, delete, text in await server.ask(_RULES, *named(names)):
        place = TableName(schema, table)
        if sort == "f":
            rules[place, name] = RULES[update], RULES[delete]
        else:
            checks[place].append((name, text))
    return rules, checks


class _Identity(msgspec.Struct, frozen=True):
    """The replica identity of a table that holds rows: relreplident, and the columns of its key."""

    table: TableName
    letter: str
    key: tuple[str, ...]


def told_by(identities: Sequence[_Identity]) -> tuple[ReplicaIdentity, tuple[str, ...]]:
    """Returns what the log tells of an old row, and the columns under `key`: the least that any partition tells."""
    keys = {one.key for one in identities if one.letter != "f"}
    if not keys:
        return "full", ()
    if () in keys or len({frozenset(key) for key in keys}) > 1:
        return "nothing", ()
    return "key", min(keys)


def _column(
    type: PostgresType,
    name: str,
    _: int,
    modifier: int,
    spelled: str,
    nullable: bool,
    generated: bool,
    identity: str,
    expression: str,
    collation: str,
) -> SourceColumn:
    """Describe a column; `identity`: attidentity, whose values are in the log as any others."""
    literal = not generated and not identity and _LITERAL.fullmatch(expression) is not None
    return SourceColumn(
        column=column_of(name, type, modifier),
        type=spelled,
        nullable=nullable,
        default=expression if literal else "",
        generated=generated,
        collation=collation,
        expression=expression if generated else "",
        logged=not generated,
    )
