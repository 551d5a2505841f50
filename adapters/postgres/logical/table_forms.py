"""Forms of tables as the catalogue has them, and as they are kept between two readers of a log.

The catalogue's is a form of *now*.  It is that of a place in the log only where it is read in a view that belongs to
that place (a new slot's), or where the log has been read up to a place that was asked for afterwards: whoever changes a
table waits for all who have written it, so no row in the former form is committed behind the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from tidelock.adapters.ports.table_form import TableForm
from tidelock.adapters.postgres.logical.relation_changes import Form
from tidelock.engine.model.records import Position, TableName

Rows: TypeAlias = Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]
"""Runs a query with `$1`, … and returns its rows."""

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
    )
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

_FORM: Final = msgspec.json.Decoder(Form)


def read_forms(ask: Rows, names: Iterable[TableName], oids: Iterable[int] = ()) -> list[Form]:
    """Returns the forms of the tables of these names and oids that are there, by name.  Raises what `ask` raises."""
    values = [msgspec.json.encode([*chosen]).decode() for chosen in (names, oids)]
    return sorted((_FORM.decode(words) for (words,) in ask(FORMS, values)), key=lambda form: form.name)


def kept(form: Form, place: Position) -> TableForm:
    """Returns a form to be kept, as that from `place` on."""
    return TableForm(form.oid, form.name, place, msgspec.json.encode(form).decode())


def former(forms: Iterable[TableForm]) -> dict[int, Form]:
    """Returns kept forms by oid.  Raises msgspec.MsgspecError for words that are none."""
    found = [_FORM.decode(form.words) for form in forms if form.words]
    return {form.oid: form for form in found}
