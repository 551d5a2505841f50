"""Places of tables in the feed's publication, by which it is known again that they have been there all the time; and
the attributes of composite types that their columns have.

A table that was taken out of the publication and put back has lost what was changed meanwhile, and so has every table
of a publication whose options, or row filters, were others for a while.  The log says nothing of either, and afterwards
all looks as before.  But the catalogue's numbers are others: that of the table's place in the publication, or that of
the transaction that wrote the publication.  So they are kept with the table's form and compared.

A composite type that gets or loses an attribute changes the text of all rows that have it, and no message tells that
either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace
from xxhash import xxh3_64_intdigest

from tidelock.adapters.postgres.logical.relation_changes import Form, FormChange
from tidelock.engine.model.schema_change import DdlKind

Rows: TypeAlias = Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]
NOWHERE: Final = "none"
"""Place of a table that is not in the publication, and attributes of one that has none."""
_POSITIVE: Final = (1 << 63) - 1
_PLACES: Final = """
WITH RECURSIVE chosen AS (SELECT told::oid AS oid FROM json_array_elements_text($1::json) told), used(rel, type) AS (
    SELECT a.attrelid, a.atttypid
    FROM chosen JOIN pg_attribute a ON a.attrelid = chosen.oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION
    SELECT u.rel, part.type
    FROM used u JOIN pg_type t ON t.oid = u.type AND t.oid >= 16384 CROSS JOIN LATERAL (
        SELECT t.typelem UNION ALL SELECT t.typbasetype
        UNION ALL SELECT a.atttypid FROM pg_attribute a
            WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS part(type) WHERE part.type >= 16384
)
SELECT chosen.oid::bigint::text, (
    SELECT concat_ws('.', p.oid::text, p.xmin::text, r.oid::text)
    FROM pg_publication p LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = chosen.oid
    WHERE p.pubname = $2 AND EXISTS (
        SELECT FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
        WHERE t.pubname = p.pubname AND c.oid = chosen.oid
    )
), (
    SELECT string_agg(concat_ws(' ', a.attrelid, a.attnum, format_type(a.atttypid, a.atttypmod)), ', '
        ORDER BY a.attrelid, a.attnum)
    FROM used u JOIN pg_type t ON t.oid = u.type AND t.typtype = 'c'
    JOIN pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE u.rel = chosen.oid
)
FROM chosen"""


def placed(ask: Rows, publication: str, forms: Iterable[Form]) -> list[Form]:
    """Returns forms with their places in the publication, and their attributes.  Raises what `ask` raises."""
    known = [*forms]
    found = ask(_PLACES, (msgspec.json.encode([form.oid for form in known]).decode(), publication))
    told = {int(oid): (place or NOWHERE, attributes or NOWHERE) for oid, place, attributes in found}
    return [as_placed(form, *told.get(form.oid, (NOWHERE, NOWHERE))) for form in known]


def as_placed(form: Form, published: str, attributes: str) -> Form:
    """Returns a form with this place, and these attributes."""
    return replace(form, published=published, attributes=attributes)


def left_out(before: Form, after: Form) -> FormChange | None:
    """Returns the change that some of a table's changes are not in the log, or may not be; None where all are, as far
    as is known of both."""
    words = [*_of_publication(before, after)]
    if before.attributes and after.attributes and before.attributes != after.attributes:
        words.append("a composite type has other attributes, in all rows that have it")
    if not words:
        return None
    marks = (before.oid, before.published, after.published, before.attributes, after.attributes)
    number, name = xxh3_64_intdigest(msgspec.json.encode(marks)) & _POSITIVE, before.name
    return FormChange(before.oid, number, DdlKind.OTHER, f"{name}: {'; '.join(words)}", (name,), untold=True)


def _of_publication(before: Form, after: Form) -> Iterator[str]:
    if not before.published or not after.published or before.published == after.published:
        return
    if after.published == NOWHERE:
        yield "it is not in the publication any more, so what is changed there is not in the log"
    else:
        yield (
            "it was not in the publication for a while, or that was made otherwise: what was changed meanwhile may not "
            "be in the log"
        )
