"""Facts of a table that the stream does not tell, asked of the catalogue: types, the primary key, defaults of columns.

They are the catalogue's *now*, while the stream may be days behind.  So they say how values are read and what a new
column holds in old rows, and never which columns a row has: that is the relation message's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from tidelock.adapters.postgres.column_types import TYPE_FACTS, PostgresType, types_of
from tidelock.adapters.postgres.form_messages import FILE

Ask: TypeAlias = Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]
"""Runs a query with `$1`, … and returns its rows."""


class ColumnFacts(msgspec.Struct, frozen=True):
    """`number`: attnum, which no other column of the table ever has.  `has_default`: also where it is an identity.
    `fill`: the value that rows have which were there before the column, as text; None where there is none, or where the
    table was written anew since."""

    number: int
    is_nullable: bool = True
    has_default: bool = False
    fill: str | None = None


class Identity(msgspec.Struct, frozen=True):
    """A replica identity: its letter as in `messages.Relation`, and the columns of its key (none under `f` and `n`)."""

    letter: str
    key: tuple[str, ...] = ()


class RelationCatalogue(msgspec.Struct, frozen=True):
    """`types`: those asked for, by oid.  `columns`: by name.  `leaves`: identities of its partitions, each once; none
    where it has none.  `computed`: its generated columns, as (name, attnum, expression).  `ever`: how many columns
    it has ever had.  `file`: number of the file that its rows are in."""

    types: Mapping[int, PostgresType] = {}
    primary_key: tuple[str, ...] = ()
    columns: Mapping[str, ColumnFacts] = {}
    leaves: tuple[Identity, ...] = ()
    computed: tuple[tuple[str, int, str], ...] = ()
    ever: int = 0
    file: int = 0


# A missing value is an array of one element, whose text is that of the value.  A partitioned table has none: its
# partitions have it.
_COLUMNS: Final = f"""
SELECT a.attname::text, a.attnum, NOT a.attnotnull,
    (a.atthasdef AND a.attgenerated = '') OR a.attidentity <> '',
    CASE WHEN a.atthasmissing THEN (a.attmissingval::text::text[])[1] ELSE (
        SELECT min((l.attmissingval::text::text[])[1])
        FROM pg_partition_tree(a.attrelid) t JOIN pg_attribute l ON l.attrelid = t.relid AND l.attname = a.attname
        WHERE t.isleaf AND t.level > 0
        HAVING bool_and(l.atthasmissing) AND count(DISTINCT l.attmissingval::text) = 1
    ) END,
    EXISTS (
        SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey::int2[])
    ),
    CASE WHEN a.attgenerated <> '' THEN (
        SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum
    ) END,
    c.relnatts, {FILE}
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum"""

_LEAVES: Final = """
SELECT DISTINCT c.relreplident::text, ARRAY(
    SELECT a.attname::text
    FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey::int2[])
    WHERE i.indrelid = c.oid AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END
    ORDER BY a.attname
)
FROM pg_partition_tree($1::oid) t JOIN pg_class c ON c.oid = t.relid
WHERE t.isleaf AND t.level > 0"""

def read_relation(ask: Ask, oid: int, types: Sequence[int]) -> RelationCatalogue:
    """Returns the facts of a table, empty ones where it is not there any more, and of these types.  Raises what `ask`
    raises."""
    columns = ask(_COLUMNS, (oid,))
    return RelationCatalogue(
        types=types_of(ask(TYPE_FACTS, (sorted(set(types)),))),
        primary_key=tuple(row[0] for row in columns if row[5]),
        columns={row[0]: ColumnFacts(*row[1:5]) for row in columns},
        leaves=tuple(Identity(letter, tuple(key)) for letter, key in ask(_LEAVES, (oid,))),
        computed=tuple((row[0], row[1], row[6]) for row in columns if row[6] is not None),
        ever=columns[0][7] if columns else 0,
        file=columns[0][8] if columns else 0,
    )
