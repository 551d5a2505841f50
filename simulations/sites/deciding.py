"""Changes of a batch at an arbiter, decided about as sinks do it: looked at together, and written together.

Which of them are written together, and in which steps, the engine says (`engine.two_way.deciding_together`).  It also
sees to it that no two of a batch share a lock, which a sink could not tell.  Here both are checked: no two share one,
and all comes out as if the changes had been decided about one after another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tidelock.adapters.target.conflict_records import decided, lost_rows
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.events import Decided
from tidelock.engine.protocol.steps import DecideChange
from tidelock.engine.two_way.conflicts import Holder, Met
from tidelock.engine.two_way.deciding import decided_steps, judged, kept_out, keys_of
from tidelock.engine.two_way.deciding_together import Judged, independent, steps_together
from tidelock.engine.two_way.decisions import Decision
from tidelock.simulations.faults import Faults
from tidelock.simulations.layout import Token
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.model import Table, Violation
from tidelock.simulations.session import Session

_Outcome: TypeAlias = tuple[list[Decided], list[bytes | None], Mapping[TableName, Mapping[Token, Row]]]
"""Decisions, the rows that lost, and the rows of all tables."""


class Concluded:
    """Decisions of a batch, and rows that it will tell.  `told`: tables and keys."""

    def __init__(self) -> None:
        self.decided: list[Decided] = []
        self.lost: list[bytes | None] = []
        self.told: dict[tuple[Binding, Row], None] = {}

    def add(self, change: DecideChange, decision: Decision) -> None:
        """Notes what was decided about the change."""
        self.decided.append(decided(decision))
        self.lost += [one.lost for one in lost_rows(change, decision)]
        if decision.verdict:
            keys = keys_of(change.table, change.before, change.after)
            self.told.update(dict.fromkeys((change.table, key) for key in keys))


def decide(session: Session, changes: Sequence[DecideChange], concluded: Concluded, faults: Faults) -> None:
    """Raises Mistake where two of the changes share a lock, or it comes out otherwise than one by one, and Violation
    where what is decided cannot be written."""
    if len(changes) < 2:
        _together(session, changes, concluded, faults)
        return
    faults.seen("up: several are decided about in one transaction")
    _need_apart(session, changes)
    wanted = _one_by_one(session, changes)
    try:
        _together(session, changes, concluded, faults)
    except Violation as error:
        if wanted is None or any(change.table.target.foreign_keys for change in changes):
            raise  # parents go before their children, whatever the log's order was
        raise Mistake(f"decided about together, {_told(changes)} cannot be written: {error}") from error
    if wanted is not None and wanted != _outcome(session, changes, concluded):
        raise Mistake(f"decided about together, {_told(changes)} come out otherwise than one by one")


def _told(changes: Sequence[DecideChange]) -> str:
    return "; ".join(f"{change.table.name} {change.before} to {change.after}" for change in changes)


def _together(session: Session, changes: Sequence[DecideChange], concluded: Concluded, faults: Faults) -> None:
    left = [*changes]
    while left and left[0].refused:
        change = left.pop(0)
        concluded.add(change, kept_out(change))
    while left:
        found = [_judged(session, change) for change in left]
        together = independent(found)
        if len(together) < len(found):
            faults.seen("up: one decision makes others look again")
        session.run(steps_together(together))
        for one in together:
            concluded.add(one.change, one.decision)
            if not one.decision.conflicts:
                faults.seen("up: decided about, and in no conflict")
        left = left[len(together) :]


def _one_by_one(session: Session, changes: Sequence[DecideChange]) -> _Outcome | None:
    """Returns what it comes to, one after another; None where that cannot be written."""
    own, concluded = session.apart(), Concluded()
    try:
        for change in changes:
            one = _judged(own, change)
            own.run(decided_steps(change.table, one.met, one.decision))
            concluded.add(change, one.decision)
    except Violation:
        return None
    return _outcome(own, changes, concluded)


def _outcome(session: Session, changes: Sequence[DecideChange], concluded: Concluded) -> _Outcome:
    rows = {change.table.name: session.table(change.table.name).rows for change in changes}
    return concluded.decided, concluded.lost, rows


def _need_apart(session: Session, changes: Sequence[DecideChange]) -> None:
    """Raises Mistake where two share a row, a unique value, or the key of a parent."""
    before: list[tuple[DecideChange, Session]] = []
    for change in changes:
        own = session.apart()
        own.note_locks(session.table(change.table.name), change.before, change.after)
        for other, taken in before:
            if shared := own.conflicts(taken):
                raise Mistake(f"one transaction decides about {other.after} and {change.after}: both lock {shared}")
        before.append((change, own))


def _judged(session: Session, change: DecideChange) -> Judged:
    met = _met(session, change)
    return Judged(change, met, judged(change, met))


def _met(session: Session, change: DecideChange) -> Met:
    """Locks and reads what the change meets."""
    image = change.before if change.before is not None else change.after
    assert image is not None, "a change has an image"
    binding, table = change.table, session.table(change.table.name)
    key = binding.key_of(image)
    lock(session, binding, key)
    slot = session.find(table, binding, key)
    row = None if slot is None else table.rows[slot]
    found = []
    for columns, held in holders(table, change.after) if change.after is not None else ():
        if table.key(held) != slot:
            lock(session, binding, binding.key_of(held))
            found.append(Holder(columns, held))
    return Met(row, unseen=row is not None and row != change.before, holders=tuple(found))


def holders(table: Table, row: Row) -> list[tuple[tuple[int, ...], Row]]:
    """Rows that hold values which this one is to have, its own key among them, with the columns of each index."""
    found = []
    columns = {unique.name: unique.columns for unique in table.spec.uniques}
    for index, (name, read) in zip(table.indexes, table.layout.uniques, strict=True):
        value = read(row)
        if value is not None and (slot := index.get(value)) is not None:
            found.append((tuple(table.at[column] for column in columns[name]), table.rows[slot]))
    if (slot := table.key(row)) in table.rows:
        found.append((tuple(table.at[column] for column in table.spec.key), table.rows[slot]))
    return found


def lock(session: Session, table: Binding, key: Row) -> None:
    """Locks a row, there or not."""
    session.exclusive.add((table.name, "row", key))
