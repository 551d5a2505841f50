"""Places of tables in the feed's publication, by which it is known again that they have been there all the time.

A table that was taken out of the publication and put back has lost what was changed meanwhile, and so has every table
of a publication whose options, or row filters, were others for a while.  The log says nothing of either, and afterwards
all looks as before.  But the catalogue's numbers are others: that of the table's place in the publication, or that of
the transaction that wrote the publication.  So they are kept with the table's form and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace
from xxhash import xxh3_64_intdigest

from tidelock.adapters.postgres.logical.relation_changes import Form, FormChange
from tidelock.engine.model.schema_change import DdlKind

Rows: TypeAlias = Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]
NOWHERE: Final = "none"
"""Place of a table that is not in the publication."""
_POSITIVE: Final = (1 << 63) - 1
_PLACES: Final = """
SELECT told::bigint::text, (
    SELECT concat_ws('.', p.oid::text, p.xmin::text, r.oid::text)
    FROM pg_publication p LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = told::oid
    WHERE p.pubname = $1 AND EXISTS (
        SELECT FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
        WHERE t.pubname = p.pubname AND c.oid = told::oid
    )
)
FROM json_array_elements_text($2::json) told"""


def placed(ask: Rows, publication: str, forms: Iterable[Form]) -> list[Form]:
    """Returns forms with their places in the publication.  Raises what `ask` raises."""
    known = [*forms]
    found = ask(_PLACES, (publication, msgspec.json.encode([form.oid for form in known]).decode()))
    places = {int(oid): place or NOWHERE for oid, place in found}
    return [replace(form, published=places.get(form.oid, NOWHERE)) for form in known]


def left_out(before: Form, after: Form) -> FormChange | None:
    """Returns the change that some of a table's changes may not be in the log; None where all are, as far as both
    places are known."""
    if not before.published or not after.published or before.published == after.published:
        return None
    if after.published == NOWHERE:
        words = "it is not in the publication any more, so what is changed there is not in the log"
    else:
        words = (
            "it was not in the publication for a while, or that was made otherwise: what was changed meanwhile may not "
            "be in the log"
        )
    told = msgspec.json.encode((before.oid, before.published, after.published))
    number, name = xxh3_64_intdigest(told) & _POSITIVE, before.name
    return FormChange(before.oid, number, DdlKind.OTHER, f"{name}: {words}", (name,), untold=True)
