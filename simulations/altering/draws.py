"""Statements that change tables, drawn at random for tables as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.schema_change import DdlKind
from tidelock.simulations.altering import forms
from tidelock.simulations.altering.forms import NAMES, Form
from tidelock.simulations.altering.reshape import Made, Reshape

Clause: TypeAlias = Callable[[Form, Random], Form | None]
Tables: TypeAlias = Mapping[TableName, TargetTable]


class Statement(msgspec.Struct, frozen=True):
    """A statement.  `tables`: those of the feed that it names; `beside`: others.  `reshape`: what it makes of them,
    None for a TRUNCATE.  `databases`: those that it drops."""

    words: str
    kind: DdlKind
    tables: tuple[TableName, ...]
    reshape: Reshape | None
    beside: tuple[TableName, ...] = ()
    databases: tuple[str, ...] = ()


FREELY: tuple[Clause, ...] = (forms.drop_column, forms.rename_column, forms.drop_unique, forms.modify)
"""Clauses that no rows stand in the way of."""
KEYED: tuple[Clause, ...] = (forms.change_key, forms.add_unique)


def draw(tables: Tables, chance: Random, *, keyed: bool) -> Statement | None:
    """Returns a statement for these tables, None where they have nothing for the kind that was drawn.  `keyed`: also
    with keys that rows may stand in the way of."""
    kinds: list[tuple[int, Callable[[], Statement | None]]] = [
        (6, lambda: _altered(tables, chance, (*FREELY, *(KEYED if keyed else ())))),
        (3, lambda: _altered(tables, chance, (forms.add_column,))),
        (2, lambda: _several(tables, chance)),
        (1, lambda: _altered(tables, chance, (forms.swap_columns,))),
        (2, lambda: _renamed(tables, chance)),
        (2, lambda: _exchanged(tables, chance)),
        (2, lambda: _dropped(tables, chance)),
        (3, lambda: _created(tables, chance)),
        (2, lambda: _emptied(tables, chance)),
        (1, lambda: _dropped_database(tables)),
    ]
    if not tables:
        return _created(tables, chance)
    (make,) = chance.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
    statement = make()
    if statement is not None and statement.reshape is not None and chance.random() < 0.15:
        return replace(statement, kind=DdlKind.OTHER)  # the target cannot follow it: an operator does
    return statement


def _altered(tables: Tables, chance: Random, clauses: tuple[Clause, ...]) -> Statement | None:
    clause = chance.choice(clauses)
    return _alter(tables, chance, (clause,))


def _several(tables: Tables, chance: Random) -> Statement | None:
    return _alter(tables, chance, (forms.drop_column, forms.rename_column, forms.add_column))


def _alter(tables: Tables, chance: Random, clauses: tuple[Clause, ...]) -> Statement | None:
    before = tables[chance.choice(sorted(tables))]
    form: Form | None = Form(before, tuple(range(len(before.columns))))
    for clause in clauses:
        form = clause(form, chance) if form is not None else None
    if form is None or (len(clauses) > 1 and _comes_and_goes(before, form)):
        return None
    kind = DdlKind.ADD_COLUMN if clauses == (forms.add_column,) else DdlKind.ALTERED
    words = f"ALTER TABLE {before.name.table} {', '.join(clause.__name__ for clause in clauses)}"
    return Statement(words, kind, (before.name,), Reshape((before,), (Made(form.spec, before.name, form.places),)))


def _comes_and_goes(before: TargetTable, form: Form) -> bool:
    """Tells whether one statement drops a column and adds one of its name."""
    names = {column.name for column in before.columns}
    return any(place < 0 and c.name in names for c, place in zip(form.spec.columns, form.places, strict=True))


def _kept(table: TargetTable, name: TableName) -> Made:
    """Returns the table under a name."""
    return Made(replace(table, name=name), table.name, tuple(range(len(table.columns))))


def _rename(tables: Tables, pairs: list[tuple[TableName, TableName]]) -> Statement:
    made = tuple(_kept(tables[old], new) for old, new in pairs)
    words = ", ".join(f"{old.table} TO {new.table}" for old, new in pairs)
    names = tuple(dict.fromkeys(name for pair in pairs for name in pair))
    return Statement(
        f"RENAME TABLE {words}", DdlKind.ALTERED, names, Reshape(tuple(tables[old] for old, _ in pairs), made)
    )


def _renamed(tables: Tables, chance: Random) -> Statement | None:
    free = [name for name in NAMES if name not in tables]
    if not free:
        return None
    return _rename(tables, [(chance.choice(sorted(tables)), chance.choice(free))])


def _exchanged(tables: Tables, chance: Random) -> Statement | None:
    """Two tables trade their names, or one takes the name that another has just given away."""
    if len(tables) < 2:
        return None
    one, two = chance.sample(sorted(tables), 2)
    free = [name for name in NAMES if name not in tables]
    return _rename(tables, [(one, chance.choice([two, *free])), (two, one)])


def _dropped(tables: Tables, chance: Random) -> Statement | None:
    if len(tables) < 2:
        return None
    names = chance.sample(sorted(tables), min(len(tables) - 1, chance.choice((1, 1, 2))))
    words = f"DROP TABLE {', '.join(name.table for name in names)}"
    reshape = Reshape(tuple(tables[name] for name in names), ())
    return Statement(words, DdlKind.ALTERED, tuple(names), reshape, _beside(chance))


def _beside(chance: Random) -> tuple[TableName, ...]:
    return (chance.choice(forms.OTHERS),) if chance.random() < 0.3 else ()


def _dropped_database(tables: Tables) -> Statement:
    """The reader may know the tables that go, or not; that of an odd number of them does."""
    words, reshape = f"DROP DATABASE {forms.DATABASE}", Reshape((*tables.values(),), ())
    if len(tables) % 2:
        return Statement(words, DdlKind.ALTERED, tuple(sorted(tables)), reshape)
    return Statement(words, DdlKind.OTHER, (), reshape, databases=(forms.DATABASE,))


def _created(tables: Tables, chance: Random) -> Statement | None:
    free = [name for name in NAMES if name not in tables]
    if not free:
        return None
    spec = forms.made_anew(chance.choice(free), chance)
    return Statement(
        f"CREATE TABLE {spec.name.table}", DdlKind.CREATE_TABLE, (spec.name,), Reshape((), (Made(spec, None),))
    )


def _emptied(tables: Tables, chance: Random) -> Statement | None:
    names = tuple(chance.sample(sorted(tables), min(len(tables), chance.choice((1, 2)))))
    words = f"TRUNCATE {', '.join(name.table for name in names)}"
    return Statement(words, DdlKind.TRUNCATE, names, None, _beside(chance))
