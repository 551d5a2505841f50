"""The merge of a chunk in the modelled target: what is staged, less what the machine leaves out, plus the last images.

Rows are inserted plainly; what refers to others of the table is looked at when all are in (the constraints' checker
does that).  Where rows are kept, one that clashes is passed over.  A repair overwrites the rows that come back in their
place, as a server would rather do; where values trade places among them, all leave first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.records import Row, filled
from tidelock.engine.protocol.effects import MergeChunk
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows
from tidelock.simulations.layout import DEFAULT, Token, comparable
from tidelock.simulations.model import Database, Table, Violation
from tidelock.simulations.session import Session
from tidelock.simulations.view import Mistake

Way: TypeAlias = Callable[[Session, Table, MergeChunk, Sequence[Row]], None]

MERGING = -1
"""The lane of merges."""


def merge(database: Database, effect: MergeChunk, staged: Sequence[Row]) -> Session:
    """An open transaction that has done it.  Raises Violation."""
    effect, staged = _updated(effect, staged)
    if effect.split.by is not By.KEYS:
        return _put(database, effect, staged, _insert)
    try:
        return _put(database, effect, staged, _overwrite)
    except Violation:
        return _put(database, effect, staged, _replace)


def refused_rows(database: Database, effect: MergeChunk, staged: Sequence[Row]) -> list[tuple[Row, Violation]]:
    """The staged rows that the target takes no more of, and why: each is tried beside those that it has taken, again
    and again while it takes one."""
    effect, staged = _updated(effect, staged)
    taken = _gone_anyway(effect, staged)
    left = [n for n in range(len(staged)) if n not in taken]
    why: dict[int, Violation] = {}
    while left:
        why = {}
        for n in left:
            try:
                merge(database, *_only(database, effect, staged, [*taken, n]))
            except Violation as refused:
                why[n] = refused
            else:
                taken.append(n)
        if len(why) == len(left):
            break
        left = list(why)
    return [(staged[n], refused) for n, refused in why.items()]


def _updated(effect: MergeChunk, staged: Sequence[Row]) -> tuple[MergeChunk, list[Row]]:
    """The merge without its updates of staged rows, which are done.  Raises Violation where one is not staged."""
    rows, steps = list(staged), list[Step]()
    for step in effect.steps:
        if not isinstance(step, UpdateRows):
            steps.append(step)
            continue
        at = {step.table.key_of(row): n for n, row in enumerate(rows)}
        for key, row in zip(step.keys, step.rows, strict=True):
            if key not in at:
                raise Violation(f"{step.table.name} {key} is not staged")
            rows[at[key]] = filled(row, rows[at[key]])
    return replace(effect, steps=steps), rows


def _gone_anyway(effect: MergeChunk, staged: Sequence[Row]) -> list[int]:
    """Staged rows without a key that the merge takes away."""
    found = list[int]()
    for row in (row for step in effect.steps if isinstance(step, DeleteRows) for row in step.keys):
        found.append(next(n for n, other in enumerate(staged) if other == row and n not in found))
    return found


def _only(
    database: Database, effect: MergeChunk, staged: Sequence[Row], chosen: Sequence[int]
) -> tuple[MergeChunk, list[Row]]:
    """The merge of these rows alone: of a repair the others stay as they are."""
    names = _names(database.tables[effect.split.table])
    places = [names.index(column) for column in effect.key]
    kept = {tuple(row[p] for p in places) for n, row in enumerate(staged) if n not in chosen}
    gone = [key for key in effect.gone if key not in kept]
    return replace(effect, gone=gone), [staged[n] for n in chosen]


def _put(database: Database, effect: MergeChunk, staged: Sequence[Row], way: Way) -> Session:
    session = database.begin(watched=True)
    table = session.table(effect.split.table)
    session.trusting = True
    way(session, table, effect, [_whole(table, row) for row in _rows(table, effect, staged)])
    _complete(table)
    return session


def _insert(session: Session, table: Table, effect: MergeChunk, rows: Sequence[Row]) -> None:
    for row in rows:
        with contextlib.suppress(Violation) if effect.split.keep else contextlib.nullcontext():
            session.insert(table.spec.name, row)


def _rows(table: Table, effect: MergeChunk, staged: Sequence[Row]) -> list[Row]:
    """Returns the staged rows that come to the table."""
    names = _names(table)
    places = [names.index(column) for column in effect.key]
    left_out = frozenset(effect.without)
    rows = [row for row in staged if not places or tuple(row[p] for p in places) not in left_out]
    for step in effect.steps:
        if isinstance(step, DeleteRows):
            _take_away(rows, step)
        else:
            assert isinstance(step, UpsertRows), "a chunk is written with inserts"
            rows += step.rows
    return rows


def _take_away(rows: list[Row], step: DeleteRows) -> None:
    if step.table.key:
        raise Mistake("rows with a key are left out by it")
    for row in step.keys:
        if row not in rows:
            raise Mistake(f"{row} is to be taken away from a chunk that does not have it")
        rows.remove(row)


def _complete(table: Table) -> None:
    """Raises Violation where a row refers to one of its table that is not there."""
    for fk, read in table.layout.parents:
        for row in table.rows.values() if fk.parent == table.spec.name else ():
            if (wanted := read(row)) is not None and table.holder(fk.parent_columns, wanted) is None:
                raise Violation(f"{table.spec.name} {row} has no parent {wanted}")


def _overwrite(session: Session, table: Table, effect: MergeChunk, rows: Sequence[Row]) -> None:
    name, coming, gone = table.spec.name, {table.key(row): row for row in rows}, _slots(table, effect)
    for slot in gone:
        if slot in table.rows and slot not in coming:
            session.delete(name, slot)
    for slot, row in coming.items():
        old = table.rows.get(slot)
        if old is None or slot not in gone:
            session.insert(name, row)
        else:
            session.update(name, slot, _keeping_own(table, old, row))


def _replace(session: Session, table: Table, effect: MergeChunk, rows: Sequence[Row]) -> None:
    name, old = table.spec.name, table.rows.copy()
    for slot in _slots(table, effect):
        if slot in table.rows:
            session.delete(name, slot)
    for row in rows:
        session.insert(name, _keeping_own(table, old.get(table.key(row)), row))


def _slots(table: Table, effect: MergeChunk) -> list[Token]:
    equalities = [table.layout.equality[column] for column in effect.key]
    slots = (tuple(comparable(v, e) for v, e in zip(key, equalities, strict=True)) for key in effect.gone)
    return list(dict.fromkeys(slots))


def _keeping_own(table: Table, old: Row | None, new: Row) -> Row:
    if old is None:
        return new
    return tuple(kept if c.default else fresh for c, kept, fresh in zip(table.spec.columns, old, new, strict=True))


def _names(table: Table) -> list[str]:
    return [c.name for c in table.spec.columns if not c.generated and not c.default]


def _whole(table: Table, row: Row) -> Row:
    """With the target's own columns."""
    names = _names(table)
    if len(names) != len(row):
        raise Mistake(f"{row} of a chunk of {table.spec.name} does not have the columns {names}")
    given = dict(zip(names, row, strict=True))
    whole = tuple(given.get(c.name, DEFAULT if c.default else None) for c in table.spec.columns)
    return table.layout.complete(whole)
