"""Forms of tables as the catalogue has them, and as they are kept between two readers of a log.

The catalogue's is a form of *now*.  It is that of a place in the log only where it is read in a view that belongs to
that place (a new slot's), or where the log has been read up to a place that was asked for afterwards: whoever changes a
table waits for all who have written it, so no row in the former form is committed behind the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.adapters.ports.table_form import TableForm
from tidelock.adapters.postgres.ddl_trigger import FOUND, SCHEMA, CommandTrigger, whole
from tidelock.adapters.postgres.form_messages import FORMS
from tidelock.adapters.postgres.logical.relation_changes import Form
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Position, TableName

Rows: TypeAlias = Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]
"""Runs a query with `$1`, … and returns its rows."""

class ToldForm(msgspec.Struct, frozen=True):
    """A form that the log tells (`postgres.form_messages`).  `path`: the sites by which a feed brought it."""

    path: tuple[str, ...]
    form: Form


_TOLD: Final = msgspec.json.Decoder(ToldForm)
_FORM: Final = msgspec.json.Decoder(Form)


def read_forms(
    ask: Rows, names: Iterable[TableName], oids: Iterable[int] = (), *, told: bool = False
) -> list[Form]:
    """Returns the forms of the tables of these names and oids that are there, by name.  `told`: event triggers tell all
    changes since before this call (`is_there`).  Raises what `ask` raises."""
    values = [msgspec.json.encode([*chosen]).decode() for chosen in (names, oids)]
    forms = (msgspec.structs.replace(_FORM.decode(words), told=told) for (words,) in ask(FORMS, values))
    return sorted(forms, key=lambda form: form.name)


def is_there(ask: Rows, slot: str) -> bool:
    """Tells whether the feed of this slot has an event trigger that tells every command.  Raises what `ask` raises."""
    return whole(ask(FOUND, (SCHEMA, CommandTrigger(slot, ()).function)))


def read_told(content: bytes) -> ToldForm:
    """Reads a message that tells a form.  Raises UnsuitableLog."""
    try:
        return _TOLD.decode(content)
    except msgspec.MsgspecError as error:
        raise UnsuitableLog(
            f"a message of a feed about a table's form is not understood: {error}",
            f"Run the version of Tidelock that wrote it, or a later one; if no feed did, {RESYNC}",
        ) from error


def kept(form: Form, place: Position) -> TableForm:
    """Returns a form to be kept, as that from `place` on."""
    return TableForm(form.oid, form.name, place, msgspec.json.encode(form).decode())


def former(forms: Iterable[TableForm]) -> dict[int, Form]:
    """Returns kept forms by oid.  Raises msgspec.MsgspecError for words that are none."""
    found = [_FORM.decode(form.words) for form in forms if form.words]
    return {form.oid: form for form in found}
