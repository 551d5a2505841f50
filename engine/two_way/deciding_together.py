"""Changes that are decided about together: those of one transaction that touch no row of each other's.

The changes share no lock, so what one *means* to write concerns none of the others.  What it *meets* may: a row that
makes room for it, or gets another unique value than its log says, can be the row that another one meets.  So they are
looked at together, and written together up to the first that meets a row which one before it writes; from there on they
are looked at again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import DecideChange, DeleteRows, Step, UpdateRows, UpsertRows
from tidelock.engine.two_way.conflicts import Met
from tidelock.engine.two_way.deciding import decided_steps, keys_of
from tidelock.engine.two_way.decisions import Decision


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
    """Returns the first of these, as many as touch no row of each other's; at least one."""
    taken: set[tuple[TableName, Row]] = set()
    for n, one in enumerate(judged):
        rows = one.rows
        if not taken.isdisjoint(rows):
            return judged[:n]
        taken |= rows
    return judged


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
