"""Orders at the simulated target that are no batches: checkpoints, statements, copies that begin, searches.

Each is carried out late, and fails or is left in doubt by chance.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeAlias

from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.emptying import children_first
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import Ddl, DdlKind
from tidelock.engine.protocol.effects import (
    ApplyDdl,
    BeginCopy,
    EffectId,
    FindRefused,
    RollbackBatch,
    SaveCheckpoint,
)
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchFailed,
    BatchRolledBack,
    CheckpointFailed,
    CheckpointSaved,
    CopyBegun,
    CopyFailed,
    DdlApplied,
    DdlFailed,
    RefusedFound,
    RefusedRow,
)
from tidelock.simulations.history import ADDED, Entry
from tidelock.simulations.merging import refused_rows
from tidelock.simulations.model import Violation
from tidelock.simulations.target_stored import Stored
from tidelock.simulations.target_work import LOST, Post, refusal_code

Order: TypeAlias = SaveCheckpoint | ApplyDdl | BeginCopy | RollbackBatch | FindRefused

_FAILED: dict[type[Order], Callable[[EffectId, Failure], ApplyEvent]] = {
    SaveCheckpoint: CheckpointFailed, ApplyDdl: DdlFailed, BeginCopy: CopyFailed,
    FindRefused: BatchFailed,
}  # fmt: skip

UNTOLD = 0.2
"""How often a target cannot tell which staged rows it refuses."""


class Orders:
    """Orders of all owners that are not carried out yet, oldest first."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._faults = stored.faults
        self._waiting: list[tuple[int, Order, Post]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, owner: int, effect: Order, post: Post) -> None:
        self._waiting.append((owner, effect, post))

    def of(self, owner: int) -> list[Order]:
        return [order for number, order, _ in self._waiting if number == owner]

    def taken_over(self) -> None:
        """Ends what older owners have ordered; a checkpoint comes too late, and the fence stops it."""
        for _, order, _ in self._waiting:
            self._faults.seen(f"taken over during {type(order).__name__}")
        self._waiting = [entry for entry in self._waiting if isinstance(entry[1], SaveCheckpoint)]

    def lost(self) -> None:
        """Ends all connections, as in a crash of the target: what was ordered is in doubt."""
        orders, self._waiting = self._waiting, []
        for _, order, post in orders:
            lost_connection = Failure(ErrorKind.IN_DOUBT, "connection lost")
            match order:
                case RollbackBatch():
                    post(BatchRolledBack(order.id))
                case SaveCheckpoint():
                    post(CheckpointFailed(order.id, lost_connection))
                case ApplyDdl():
                    post(DdlFailed(order.id, lost_connection))
                case BeginCopy():
                    post(CopyFailed(order.id, lost_connection))

    def carry_out(self, at: int) -> None:
        """Carries out the order at this index."""
        owner, effect, post = self._waiting[at]
        self._waiting = [entry for entry in self._waiting if entry[1] is not effect]
        if isinstance(effect, RollbackBatch):
            post(BatchRolledBack(effect.id))
        elif refusal := self._stored.fenced(owner, effect.id.epoch):
            post(_FAILED[type(effect)](effect.id, refusal))
        elif isinstance(effect, ApplyDdl):
            self._try_statement(effect, post)
        elif isinstance(effect, BeginCopy):
            self._try_begin(effect, post)
        elif isinstance(effect, FindRefused):
            self._try_find(effect, post)
        else:
            self._try_save(owner, effect, post)

    # ------------------------------------------------------------------ checkpoints and statements

    def _try_statement(self, effect: ApplyDdl, post: Post) -> None:
        if self._faults.strikes("checkpoint"):
            trouble = self._faults.chance.choice((ErrorKind.TRANSIENT, ErrorKind.IN_DOUBT))
            if trouble is ErrorKind.IN_DOUBT and self._faults.chance.random() < 0.5:
                self._change_schema(effect)
                self._faults.seen("statement took effect without an answer")
            post(DdlFailed(effect.id, Failure(trouble, "connection lost")))
            return
        self._change_schema(effect)
        emptied = effect.ddl.tables if effect.ddl.kind is DdlKind.TRUNCATE else ()
        post(DdlApplied(effect.id, self._stored.database.specs, emptied))

    def _try_save(self, owner: int, effect: SaveCheckpoint, post: Post) -> None:
        if self._faults.strikes("checkpoint"):
            trouble = self._faults.chance.choice((ErrorKind.TRANSIENT, ErrorKind.IN_DOUBT, ErrorKind.IN_DOUBT))
            if trouble is ErrorKind.IN_DOUBT and self._faults.chance.random() < 0.5:
                self._stored.save(owner, effect.position, effect.drop)
                self._faults.seen("checkpoint stored without an answer")
            post(CheckpointFailed(effect.id, Failure(trouble, "connection lost")))
            return
        self._stored.save(owner, effect.position, effect.drop)
        post(CheckpointSaved(effect.id))

    def _change_schema(self, effect: ApplyDdl) -> None:
        entry = self._statement(effect.ddl)
        for checker in self._stored.checkers:
            checker.statement(entry)
        name, *_ = effect.ddl.tables
        match effect.ddl.kind:
            case DdlKind.TRUNCATE:
                for emptied in children_first(effect.ddl.tables, self._stored.database.specs):
                    self._stored.database.delete_all(emptied)
                    self._stored.empty(emptied)
            case DdlKind.CREATE_TABLE:
                self._stored.database.create(self._stored.ledger.history.tables[name])
            case _:
                self._stored.database.add_column(name, ADDED)
        for checker in self._stored.checkers:
            checker.statement_done(entry)
        self._stored.flush()

    def _statement(self, ddl: Ddl) -> Entry:
        return next(e for e in self._stored.ledger.history.entries if e.ddl is not None and e.number == ddl.number)

    def pass_statement(self, ddl: Ddl) -> None:
        """The operator changes the target by hand, if it needs that, and says `tidelock ddl done`."""
        entry = self._statement(ddl)
        for checker in self._stored.checkers:
            checker.statement(entry)
        if entry.keys is not None:
            (name,) = ddl.tables
            with contextlib.suppress(Violation):  # rows that are parked or given up may be missing here
                self._stored.database.alter(entry.keys.of(self._stored.database.tables[name].spec))
        for checker in self._stored.checkers:
            checker.statement_done(entry)
        self._stored.state.ddl_passed = (ddl.source, ddl.number)
        self._stored.flush()

    # ------------------------------------------------------------------ copies

    def _try_begin(self, effect: BeginCopy, post: Post) -> None:
        if self._faults.strikes("checkpoint"):
            trouble = self._faults.chance.choice((ErrorKind.TRANSIENT, ErrorKind.IN_DOUBT))
            if trouble is ErrorKind.IN_DOUBT and self._faults.chance.random() < 0.5:
                self._begin(effect)
                self._faults.seen("copy: begun without an answer")
            post(CopyFailed(effect.id, Failure(trouble, "connection lost")))
            return
        self._begin(effect)
        post(CopyBegun(effect.id))

    def _begin(self, effect: BeginCopy) -> None:
        begun = self._stored.ledger.history.index(effect.position)
        for split in effect.splits:
            if not split.keeps_target_rows:
                self._stored.database.truncate(split.table)
                self._stored.empty(split.table)
            wanted = self._stored.wanted.get(split.table, {})
            for key in split.keys if split.by is By.KEYS else list(wanted):
                wanted.pop(key, None)
            self._stored.ledger.begin(split, begun)
        for checker in self._stored.checkers:
            checker.copy_begun(effect)
        self._stored.advance(effect.position, effect.drop)
        self._stored.flush()

    def _try_find(self, effect: FindRefused, post: Post) -> None:
        if self._faults.strikes("checkpoint"):
            post(BatchFailed(effect.id, LOST))
            return
        staged = self._stored.staged.get(effect.merge.staged, [])
        if len(staged) != effect.merge.rows:
            post(BatchFailed(effect.id, Failure(ErrorKind.COMMITS_LOST, "staged rows are lost")))
            return
        found = refused_rows(self._stored.database, effect.merge, staged)
        if found and self._faults.chance.random() < UNTOLD:
            self._faults.seen("copy: rows that a merge is refused for cannot be told")
            post(BatchFailed(effect.id, Failure(ErrorKind.ROW, "too many rows")))
            return
        if found:
            self._faults.seen("copy: rows that a merge is refused for are found")
        name, view = effect.merge.split.table, self._stored.ledger.view
        rows = (RefusedRow(view.shape(name, row), row, str(why), refusal_code(why)) for row, why in found)
        post(RefusedFound(effect.id, tuple(rows)))
