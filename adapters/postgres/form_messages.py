"""Messages that tell a table's form in the log, around a statement that a feed runs; and the query for forms.

PostgreSQL's log has no statements, and a change of a table is told by the next row of it.  So the transaction in which
a feed runs a statement tells the table's form before and behind it: whoever reads the log takes the new form at its
place, and knows that a feed has brought it.  The form before tells a change by somebody else apart, of which no row
came yet.

The prefix is `tidelock.form`; the content is JSON of `{"path": […], "form": …}`.  `path`: the sites by which the change
came, none of the form before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from tidelock.adapters.postgres.column_types import COMPARED
from tidelock.engine.model.records import TableName

PREFIX: Final = "tidelock.form"

# A missing value is an array of one element, whose text is that of the value.  A partitioned table has none: its
# partitions have it.
_FILL = """CASE WHEN a.atthasmissing THEN (a.attmissingval::text::text[])[1] ELSE (
    SELECT min((l.attmissingval::text::text[])[1])
    FROM pg_partition_tree(a.attrelid) t JOIN pg_attribute l ON l.attrelid = t.relid AND l.attname = a.attname
    WHERE t.isleaf AND t.level > 0
    HAVING bool_and(l.atthasmissing) AND count(DISTINCT l.attmissingval::text) = 1
) END"""
FILE: Final = """coalesce(hashtextextended((
    SELECT string_agg(l.relfilenode::text, ' ' ORDER BY l.oid)
    FROM pg_partition_tree(c.oid) t JOIN pg_class l ON l.oid = t.relid WHERE t.isleaf AND t.level > 0
), 0), c.relfilenode::bigint)"""
"""Number of the file that holds the rows of a table `c`, of its partitions' files where these hold them: another one
where they were written anew."""
_KINDS = ", ".join(f"'{kind}'" for kind in sorted(COMPARED))
_COMPARES = f"""i.indpred IS NULL AND i.indimmediate AND i.indisvalid AND 0 <> ALL (i.indkey::int2[])
    AND NOT coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::bool, false)
    AND NOT EXISTS (SELECT FROM pg_collation l WHERE l.oid = ANY (i.indcollation::oid[]) AND NOT l.collisdeterministic)
    AND NOT EXISTS (SELECT FROM pg_opclass o WHERE o.oid = ANY (i.indclass::oid[]) AND NOT o.opcdefault)
    AND NOT EXISTS (
        SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey::int2[])
            AND (a.attgenerated <> '' OR t.typtype <> 'e' AND t.typname NOT IN ({_KINDS}))
    )"""
# A column of the system's is written with its table, and never again.
_ATTACHED = """coalesce((
    SELECT max(h.xmin::text::bigint)
    FROM pg_partition_ancestors(t.relid) p JOIN pg_inherits h ON h.inhrelid = p.relid
    JOIN pg_attribute y ON y.attrelid = p.relid AND y.attnum = -1
    WHERE h.xmin::text <> y.xmin::text
), 0)"""
# A new type stores a column's default anew as well.  VACUUM FULL and CLUSTER write the column where they take away the
# value that rows had before it, and leave its default.
_CONVERTED = """(
            SELECT coalesce(json_agg(json_build_array(a.number, a.written) ORDER BY a.number), '[]')
            FROM (
                SELECT a.attnum AS number, coalesce(d.xmin, a.xmin)::text::bigint AS written
                FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            ) AS a
            WHERE a.written::text = ANY (ARRAY(
                SELECT c.xmin::text
                UNION ALL
                SELECT x.xmin::text FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = c.oid
            ))
        )"""
_LABELS = """(
            SELECT coalesce(json_agg(DISTINCT jsonb_build_array(e.oid::bigint, e.enumlabel)), '[]')
            FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
            JOIN pg_enum e ON e.enumtypid IN (t.oid, t.typelem, t.typbasetype)
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        )"""
_FACTS = f"""json_build_array(
        (
            SELECT coalesce(json_agg(json_build_array(
                a.attnum, a.attname, a.atttypid::bigint, a.atttypmod, format_type(a.atttypid, a.atttypmod),
                NOT a.attnotnull, (a.atthasdef AND a.attgenerated = '') OR a.attidentity <> '', {_FILL}
            ) ORDER BY a.attnum), '[]')
            FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        ),
        (
            SELECT coalesce(json_agg(json_build_array(
                x.relname, (
                    SELECT json_agg(k.number ORDER BY k.place)
                    FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place) WHERE k.place <= i.indnkeyatts
                ), i.indisprimary, {_COMPARES}
            ) ORDER BY x.relname), '[]')
            FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
            WHERE i.indrelid = c.oid AND i.indisunique AND i.indislive
        ),
        (
            SELECT coalesce(json_agg(json_build_array(
                t.relid::oid::bigint, coalesce(pg_relation_size(t.relid) = 0, false), l.relname, l.relfilenode::bigint,
                {_ATTACHED}
            ) ORDER BY l.oid), '[]')
            FROM pg_partition_tree(c.oid) t JOIN pg_class l ON l.oid = t.relid WHERE t.isleaf AND t.level > 0
        ),
        {_CONVERTED},
        {_LABELS},
        {FILE}
    )"""

FORMS: Final = f"""
SELECT json_build_array(
    c.oid::bigint,
    json_build_array(n.nspname, c.relname),
    (
        SELECT coalesce(json_agg(json_build_array(
            a.attname, a.atttypid::bigint, a.atttypmod, format_type(a.atttypid, a.atttypmod), a.attnum
        ) ORDER BY a.attnum), '[]')
        FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    ),
    (
        SELECT coalesce(json_agg(a.attname ORDER BY a.attnum), '[]')
        FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey::int2[])
        WHERE i.indrelid = c.oid AND i.indisprimary
    ),
    (
        SELECT coalesce(json_agg(json_build_array(
            a.attname, a.attnum, pg_get_expr(d.adbin, d.adrelid)
        ) ORDER BY a.attnum), '[]')
        FROM pg_attribute a JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE a.attrelid = c.oid AND NOT a.attisdropped AND a.attgenerated <> ''
    ),
    c.relnatts,
    {_FACTS},
    false,
    {FILE}
)::text
FROM (
    SELECT c.oid
    FROM json_array_elements($1::json) w
    JOIN pg_namespace n ON n.nspname = (w->>0)::name
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = (w->>1)::name
    UNION
    SELECT told::oid FROM json_array_elements_text($2::json) told
) chosen
JOIN pg_class c ON c.oid = chosen.oid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p')"""
"""Parameters: JSON of (schema, table) pairs, and of oids.  One text a table that is there: JSON of a `Form`, with its
`FormFacts`."""


def tell(name: TableName, path: tuple[str, ...], quoted: Callable[[str], str]) -> str:
    """Returns the statement that tells the form of a table, if it is there.  `quoted`: makes a literal of a text."""
    chosen = FORMS.replace("$2", "'[]'").replace("$1", quoted(msgspec.json.encode([name]).decode()))
    head = quoted(f'{{"path":{msgspec.json.encode(path).decode()},"form":')
    content = f"{head} || told.form || '}}'"
    return f"SELECT pg_logical_emit_message(true, '{PREFIX}', {content}) FROM ({chosen}) AS told(form)"
