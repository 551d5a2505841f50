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

from tidelock.engine.model.records import TableName

PREFIX: Final = "tidelock.form"

FORMS: Final = """
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
    c.relnatts
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
"""Parameters: JSON of (schema, table) pairs, and of oids.  One text a table that is there: JSON of a `Form`."""


def tell(name: TableName, path: tuple[str, ...], quoted: Callable[[str], str]) -> str:
    """Returns the statement that tells the form of a table, if it is there.  `quoted`: makes a literal of a text."""
    chosen = FORMS.replace("$2", "'[]'").replace("$1", quoted(msgspec.json.encode([name]).decode()))
    head = quoted(f'{{"path":{msgspec.json.encode(path).decode()},"form":')
    content = f"{head} || told.form || '}}'"
    return f"SELECT pg_logical_emit_message(true, '{PREFIX}', {content}) FROM ({chosen}) AS told(form)"
