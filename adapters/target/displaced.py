"""Rows that made room for others at a spoke, as `tidelock_conflicts` records them (`engine.batch.blind_steps`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeGuard

import msgspec

from tidelock.adapters.target.conflict_records import packed_row
from tidelock.engine.batch.parked_rows import key_for_people
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import ChangeId, Step, UpdateRows, UpsertRows
from tidelock.engine.two_way.conflicts import Conflict

COLUMNS: Final = (
    "source, number, ordinal, table_schema, table_name, row_key, type, outcome, incoming, lost, stands, path"
)
"""Columns of the record, but for `feed`, `grp` and `entry`."""
ATTEMPTS: Final = 5
"""A batch is tried so often where somebody takes a value just after its holder was looked for."""


class Displaced(msgspec.Struct, frozen=True):
    """Row that was deleted for the change `of`.  `key`: for people.  `lost`: the row, `stands`: the one that stands in
    its place, as they are recorded."""

    table: TableName
    of: ChangeId
    key: str
    lost: bytes
    stands: bytes | None = None
    conflict: Conflict = Conflict.INSERT_EXISTS

    @classmethod
    def holder(cls, table: Binding, row: Row, of: ChangeId, by: Row) -> Displaced:
        """Returns a row that held a value which `by`, the row of the change, is to have."""
        lost, stands = packed_row(table, row) or b"", packed_row(table, by)
        return cls(table.name, of, key_for_people(table, row), lost, stands)


def displaces(step: Step) -> TypeGuard[UpsertRows]:
    """Tells whether rows of the target may have to make room, and be recorded."""
    return isinstance(step, UpsertRows) and bool(step.displaces)


def moves(step: Step) -> TypeGuard[UpdateRows]:
    """Tells the same of rows that get another key, or a value that is referred to, in their place."""
    return isinstance(step, UpdateRows) and bool(step.displaces)


def parted(step: UpsertRows, held: Collection[int]) -> Iterator[UpsertRows]:
    """Yield the step's rows in steps: all together those that want nothing that is held, with no leave to displace, and
    then each that does (`held`: their indexes)."""
    clear = [row for n, row in enumerate(step.rows) if n not in held]
    if clear:
        yield UpsertRows(step.table, clear, fresh=False, blind=True, columns=step.columns)
    for n in sorted(held):
        of = (step.displaces[n],)
        yield UpsertRows(step.table, [step.rows[n]], fresh=False, blind=True, displaces=of, columns=step.columns)


def any_displaces(steps: Sequence[Step]) -> bool:
    """Tells the same of a batch."""
    return any(displaces(step) or moves(step) for step in steps)
