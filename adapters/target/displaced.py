"""Rows that made room for others at a spoke, as `tidelock_conflicts` records them (`engine.batch.blind_steps`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeGuard

import msgspec

from tidelock.adapters.target.conflict_records import packed_row
from tidelock.engine.batch.parked_rows import key_for_people
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import ChangeId, Step, UpsertRows
from tidelock.engine.two_way.conflicts import Conflict

COLUMNS: Final = (
    "source, number, ordinal, table_schema, table_name, row_key, type, outcome, incoming, lost, stands, path"
)
"""Columns of the record, but for `feed`, `grp` and `entry`."""
CONFLICT: Final = Conflict.INSERT_EXISTS.value
ATTEMPTS: Final = 5
"""A batch is tried so often where somebody takes a value just after its holder was looked for."""


class Displaced(msgspec.Struct, frozen=True):
    """Row of `table` that was deleted, as the change `of` is to have a value that it held; `by`: the row of that."""

    table: Binding
    row: Row
    of: ChangeId
    by: Row

    @property
    def key(self) -> str:
        """Key of the row, for people."""
        return key_for_people(self.table, self.row)

    @property
    def lost(self) -> bytes:
        """The row as it is recorded."""
        return packed_row(self.table, self.row) or b""

    @property
    def stands(self) -> bytes:
        """The row that stands, as it is recorded."""
        return packed_row(self.table, self.by) or b""


def displaces(step: Step) -> TypeGuard[UpsertRows]:
    """Tells whether rows of the target may have to make room, and be recorded."""
    return isinstance(step, UpsertRows) and bool(step.displaces)


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
    return any(map(displaces, steps))
