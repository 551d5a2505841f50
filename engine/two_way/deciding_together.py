"""Changes that are decided about together: those of one transaction that touch no row of each other's.

The changes share no lock, so what one *means* to write concerns none of the others.  What it *meets* may: a row that
makes room for it, or gets another unique value than its log says, can be the row that another one meets.  And a unique
value that an update leaves alone is locked by nobody: over another row it is written all the same, and another change
may want it, where the arbiter's own changes at the spoke have let it go in between.  So they are looked at together,
and written together up to the first that meets a row, or writes a unique value, which one before it writes; from there
on they are looked at again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tidelock.engine.model.index import Index
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import DecideChange, DeleteRows, Step, UpdateRows, UpsertRows
from tidelock.engine.two_way.conflicts import Met
from tidelock.engine.two_way.deciding import decided_steps, keys_of
from tidelock.engine.two_way.decisions import Decision, Outcome


class Judged(msgspec.Struct, frozen=True):
    """A change, what it meets, and what is decided about it."""

    change: DecideChange
    met: Met
    decision: Decision

    @property
    def rows(self) -> set[tuple[TableName, Row]]:
        """The rows that it looks at, and all that it may write, by their keys."""
        table, met = self.change.table, self.met
        found = {*keys_of(table, self.change.before, self.change.after), *keys_of(table, met.row, self.decision.row)}
        return {(table.name, key) for key in (*found, *(table.key_of(holder.row) for holder in met.holders))}


def independent(judged: Sequence[Judged]) -> Sequence[Judged]:
    """Returns the first of these, as many as touch no row and write no unique value of each other's; at least one."""
    taken: set[tuple[object, ...]] = set()
    uniques: dict[Binding, Sequence[Index]] = {}
    for n, one in enumerate(judged):
        table = one.change.table
        if table not in uniques:
            uniques[table] = _uniques(table)
        own = {*one.rows, *_written(one, uniques[table])}
        if not taken.isdisjoint(own):
            return judged[:n]
        taken |= own
    return judged


def _written(judged: Judged, uniques: Sequence[Index]) -> Iterator[tuple[object, ...]]:
    """Yields the unique values of the row that is written, as their indexes compare them."""
    decision = judged.decision
    if decision.row is None or decision.outcome in (Outcome.VERDICT, Outcome.PARK):
        return
    for index in uniques:
        if (value := index.values(decision.row)) is not None:
            yield judged.change.table.name, "unique", value


def _uniques(table: Binding) -> Sequence[Index]:
    """Returns the unique indexes besides the key, but for those over columns that the log does not tell."""
    at = {column.name: n for n, column in enumerate(table.shape.columns)}
    equality = {column.name: column.equality for column in table.target.columns}
    return [
        Index(n, tuple(at[name] for name in one.columns), tuple(equality[name] for name in one.columns), is_key=False)
        for n, one in enumerate(table.target.uniques)
        if one.columns and at.keys() >= {*one.columns}
    ]


def steps_together(judged: Sequence[Judged]) -> list[Step]:
    """Returns the steps that write decisions which touch no row of each other's: deletes, then updates, then inserts,
    each kind of a table at once, but for rows that move."""
    deletes: dict[Binding, list[Row]] = {}
    updates: dict[Binding, UpdateRows] = {}
    inserts: dict[Binding, list[Row]] = {}
    moves: list[Step] = []
    for step in _steps(judged):
        match step:
            case DeleteRows():
                deletes.setdefault(step.table, []).extend(step.keys)
            case UpsertRows():
                inserts.setdefault(step.table, []).extend(step.rows)
            case UpdateRows() if step.moves:
                moves.append(step)
            case UpdateRows():
                together = updates.setdefault(step.table, UpdateRows(step.table, [], [], moves=False))
                together.keys += step.keys
                together.rows += step.rows
    return [
        *(DeleteRows(table, keys) for table, keys in deletes.items()),
        *updates.values(),
        *moves,
        *(UpsertRows(table, rows, fresh=True, absent=True) for table, rows in inserts.items()),
    ]


def _steps(judged: Sequence[Judged]) -> Iterator[Step]:
    for one in judged:
        yield from decided_steps(one.change.table, one.met, one.decision)
