"""Tables that are altered: their columns, keys and names, and one clause of an ALTER TABLE at a time."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Equality, TargetColumn, TargetTable, UniqueKey
from tidelock.simulations.altering.reshape import NULL

DATABASE = "annex"
NAMES = tuple(TableName(DATABASE, name) for name in ("draft", "page", "sheet", "spare"))
OTHERS = (TableName("private", "log"), TableName("private", "past"))
"""Tables that the feed does not take, and that statements name beside its own."""
FILLED = ("id", "rank", "text")
"""Columns that are never NULL, so they can be keys."""
FREE = ("code", "kind", "more", "note")
PRIMARY = "primary"
_KEYS = (("id",), ("rank",), ("text",), ("id", "text"), ("text", "id"), ())


class Form(NamedTuple):
    """A table on its way through the clauses of a statement.  `places`: of its columns, in the rows of before."""

    spec: TargetTable
    places: tuple[int, ...]


def made_anew(name: TableName, chance: Random) -> TargetTable:
    """Returns a table for a CREATE TABLE."""
    columns = ["id", *(c for c in FILLED[1:] if chance.random() < 0.5), *sorted(chance.sample(FREE, 2))]
    key = ("id",) if chance.random() < 0.8 else ()
    spec = TargetTable(name, tuple(map(_column, columns)), key, (UniqueKey(PRIMARY, key),) if key else ())
    return with_unique(spec, columns[-1]) if chance.random() < 0.4 else spec


def with_unique(spec: TargetTable, column: str) -> TargetTable:
    """Returns the table with one more unique index."""
    return replace(spec, uniques=(*spec.uniques, UniqueKey(f"by_{column}", (column,))))


def _column(name: str) -> TargetColumn:
    return TargetColumn(name, "", name not in FILLED, equality=Equality.FOLDED if name == "kind" else Equality.EXACT)


def _has(spec: TargetTable) -> list[str]:
    return [column.name for column in spec.columns]


# ---------------------------------------------------------------------- clauses; None: the table has nothing for one


def add_column(form: Form, chance: Random) -> Form | None:
    """A column comes, NULL in all rows."""
    absent = [name for name in FREE if name not in _has(form.spec)]
    if not absent:
        return None
    columns = (*form.spec.columns, _column(chance.choice(absent)))
    return Form(replace(form.spec, columns=columns), (*form.places, NULL))


def drop_column(form: Form, chance: Random) -> Form | None:
    """A column goes, and the unique index that it alone has."""
    spec = form.spec
    held = {*spec.key, *(c for u in spec.uniques if len(u.columns) > 1 for c in u.columns)}
    loose = [i for i, column in enumerate(spec.columns) if column.name not in held and column.name != "id"]
    if len(spec.columns) < 3 or not loose:
        return None
    at = chance.choice(loose)
    gone = spec.columns[at].name
    columns = (*spec.columns[:at], *spec.columns[at + 1 :])
    uniques = tuple(u for u in spec.uniques if gone not in u.columns)
    return Form(replace(spec, columns=columns, uniques=uniques), (*form.places[:at], *form.places[at + 1 :]))


def rename_column(form: Form, chance: Random) -> Form | None:
    """A column gets a name that the table does not have, often one that it had."""
    names = _has(form.spec)
    pairs = [(old, new) for old in names for new in _alike(old) if new not in names]
    if not pairs:
        return None
    old, new = chance.choice(pairs)
    return Form(_named(form.spec, {old: new}), form.places)


def swap_columns(form: Form, chance: Random) -> Form | None:
    """Two columns trade their names."""
    names = [name for name in _has(form.spec) if name in FREE]
    if len(names) < 2:
        return None
    one, two = chance.sample(names, 2)
    return Form(_named(form.spec, {one: two, two: one}), form.places)


def _alike(name: str) -> tuple[str, ...]:
    """Returns names whose columns have values of the same kind."""
    return FREE if name in FREE else ("id", "rank") if name in ("id", "rank") else ()


def _named(spec: TargetTable, names: dict[str, str]) -> TargetTable:
    def renamed(columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(c, c) for c in columns)

    columns = tuple(replace(c, name=names.get(c.name, c.name)) for c in spec.columns)
    uniques = tuple(replace(u, columns=renamed(u.columns)) for u in spec.uniques)
    return replace(spec, columns=columns, key=renamed(spec.key), uniques=uniques)


def change_key(form: Form, chance: Random) -> Form | None:
    """The table gets another primary key, or loses it."""
    spec, names = form.spec, _has(form.spec)
    keys = [key for key in _KEYS if key != spec.key and all(c in names for c in key)]
    if not keys:
        return None
    key = chance.choice(keys)
    others = tuple(u for u in spec.uniques if u.name != PRIMARY)
    return form._replace(spec=replace(spec, key=key, uniques=((UniqueKey(PRIMARY, key), *others) if key else others)))


def add_unique(form: Form, chance: Random) -> Form | None:
    """The table gets a unique index over a column or two."""
    spec = form.spec
    names = [name for name in _has(spec) if all(name not in u.columns for u in spec.uniques)]
    if not names:
        return None
    spec = with_unique(spec, chance.choice(names))
    if len(names) > 1 and chance.random() < 0.3:
        pair = tuple(sorted(chance.sample(names, 2)))
        spec = replace(spec, uniques=(*form.spec.uniques, UniqueKey("by_" + "_".join(pair), pair)))
    return form._replace(spec=spec) if len({u.name for u in spec.uniques}) == len(spec.uniques) else None


def drop_unique(form: Form, chance: Random) -> Form | None:
    """The table loses a unique index."""
    names = [u.name for u in form.spec.uniques if u.name != PRIMARY]
    if not names:
        return None
    gone = chance.choice(names)
    return form._replace(spec=replace(form.spec, uniques=tuple(u for u in form.spec.uniques if u.name != gone)))


def modify(form: Form, chance: Random) -> Form | None:
    """A column has another definition, and no value changes."""
    return form
