"""The form of a source's table, as the reader of its log knows it: kept at the target, given back to the next reader.

A log without statements (PostgreSQL's) tells a change of a table only by the difference from what was there before, and
one with statements (MySQL's) does not tell what a column was before one.  So what was there is kept, each form with the
place of the log behind which it holds.  A reader that begins anew at a place goes by the last one of each table at or
before it.  So it does no harm to keep a form before what is in the log at its place is applied; it must be kept before
a checkpoint passes that place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from tidelock.engine.model.records import Position, TableName


class TableForm(msgspec.Struct, frozen=True, array_like=True):
    """Form of a table from `place` on.  `id`: the source's own number of the table, whatever its name.  `words`: a text
    of the source's own, which only its reader understands; '': the table is not the feed's any more."""

    id: int
    table: TableName
    place: Position
    words: str


def in_force(forms: Iterable[TableForm], place: Position) -> list[TableForm]:
    """Returns for each table the last form at or before this place of the log, in the order of their places."""
    found: dict[int, TableForm] = {}
    for form in sorted(forms, key=lambda one: one.place.order):
        if form.place.order <= place.order:
            found.pop(form.id, None)
            found[form.id] = form
    return list(found.values())


class KnownForms:
    """The forms that are known while a log is read.  `all`: several of a table, each from another place on."""

    def __init__(self, forms: Iterable[TableForm] = ()) -> None:
        self.all = tuple(forms)

    def at(self, place: Position) -> tuple[TableForm, ...]:
        """Returns the forms in force at a place of the log."""
        return tuple(in_force(self.all, place))

    def learn(self, forms: Iterable[TableForm]) -> None:
        """Takes these too; one that is told again stands once."""
        told = {_key(form): form for form in forms}
        self.all = (*(form for form in self.all if _key(form) not in told), *told.values())

    def forget_behind(self, place: Position) -> list[TableForm]:
        """Forgets forms behind a place from which the log is read anew, and returns them."""
        return self._forget([form for form in self.all if form.place.order > place.order])

    def forget_replaced(self, place: Position) -> list[TableForm]:
        """Forgets forms that another one has followed at this place or before it, and returns them."""
        left = {*map(_key, self.at(place))}
        return self._forget(
            [form for form in self.all if form.place.order <= place.order and _key(form) not in left]
        )

    def _forget(self, gone: list[TableForm]) -> list[TableForm]:
        keys = {*map(_key, gone)}
        self.all = tuple(form for form in self.all if _key(form) not in keys)
        return gone


def _key(form: TableForm) -> tuple[int, int, int]:
    return form.id, form.place.offset, form.place.rows


class FormKeeper(Protocol):
    """Keeps what the reader of a log learns."""

    @property
    def all(self) -> tuple[TableForm, ...]:
        """Returns the forms that are kept, as `CaptureOrder` has them."""
        ...

    async def read_on(self, place: Position) -> None:
        """Forgets forms behind a place from which the log is read anew: they are told once more, or their log is gone.
        Raises TargetError."""
        ...

    async def keep(self, forms: Sequence[TableForm]) -> None:
        """Keeps these too.  Raises TargetError."""
        ...
