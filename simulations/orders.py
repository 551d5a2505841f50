"""Orders that the simulated target carries out beside batches: checkpoints, schema changes, copies that begin, searches
for rows that a merge is refused for, and rollbacks of batches that are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.protocol.effects import ApplyDdl, BeginCopy, EffectId, FindRefused, RollbackBatch, SaveCheckpoint
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
from tidelock.simulations.altering import carrying_out
from tidelock.simulations.faults import Faults
from tidelock.simulations.lane_work import Post
from tidelock.simulations.merging import refused_rows
from tidelock.simulations.owner_fence import OwnerFence
from tidelock.simulations.schema_change import change_schema, emptied_by, refusal
from tidelock.simulations.stored import Stored

Order: TypeAlias = SaveCheckpoint | ApplyDdl | BeginCopy | RollbackBatch | FindRefused

_FAILED: dict[type[Order], Callable[[EffectId, Failure], ApplyEvent]] = {
    SaveCheckpoint: CheckpointFailed, ApplyDdl: DdlFailed, BeginCopy: CopyFailed,
    FindRefused: BatchFailed,
}  # fmt: skip

UNTOLD = 0.2
"""How often a target cannot tell which staged rows it refuses."""


class Orders:
    """Orders that are under way, in the order in which they came, each with the number of its owner."""

    def __init__(self, stored: Stored, fence: OwnerFence, faults: Faults) -> None:
        self._stored = stored
        self._fence = fence
        self._faults = faults
        self._waiting: list[tuple[int, Order, Post]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, owner: int, effect: Order, post: Post) -> None:
        """Take an order."""
        self._waiting.append((owner, effect, post))

    def of(self, owner: int) -> Iterator[Order]:
        """Yield the orders of one owner."""
        return (effect for number, effect, _ in self._waiting if number == owner)

    def changes_tables(self, owner: int) -> bool:
        """Tell whether an order of the owner is under way beside which no batch may run."""
        return any(isinstance(effect, ApplyDdl | BeginCopy) for effect in self.of(owner))

    def carry_out(self, at: int) -> None:
        """Carry one out; `at`: its place among them."""
        self._carry_out(*self._waiting[at])

    def cut_off(self) -> None:
        """Drop the orders of older owners.  A checkpoint comes too late, and the fence stops it."""
        for _, order, _ in self._waiting:
            self._faults.seen(f"taken over during {type(order).__name__}")
            if isinstance(order, ApplyDdl) and order.id.epoch == self._fence.epoch - 1 and not self._faults.forgot:
                self._end_statement(order)
        self._waiting = [entry for entry in self._waiting if isinstance(entry[1], SaveCheckpoint)]

    def _end_statement(self, effect: ApplyDdl) -> None:
        """A statement that runs when a newer owner comes ends, or has just run, before that one reads the tables."""
        if not self._stored.ledger.history.plan.altered or refusal(self._stored, effect.ddl):
            return
        if self._faults.chance.random() < 0.5:
            self._faults.seen("altered: ran when another owner took over")
            change_schema(self._stored, effect.ddl, noted=self._notes)

    def drop(self) -> None:
        """Drop all: whoever waits is told that the connection is lost."""
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

    def _carry_out(self, owner: int, effect: Order, post: Post) -> None:
        self._waiting = [entry for entry in self._waiting if entry[1] is not effect]
        if isinstance(effect, RollbackBatch):
            post(BatchRolledBack(effect.id))
        elif refusal := self._fence.refusal(owner, effect.id.epoch):
            post(_FAILED[type(effect)](effect.id, refusal))
        elif isinstance(effect, ApplyDdl):
            self._try_statement(effect, post)
        elif isinstance(effect, BeginCopy):
            self._try_begin(effect, post)
        elif isinstance(effect, FindRefused):
            self._try_find(effect, post)
        else:
            self._try_save(owner, effect, post)

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
            post(BatchFailed(effect.id, Failure(ErrorKind.TRANSIENT, "connection lost")))
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
        rows = (RefusedRow(view.shape(name, row), row, str(why), why.code) for row, why in found)
        post(RefusedFound(effect.id, tuple(rows)))

    # ------------------------------------------------------------------ checkpoints and statements

    def _try_statement(self, effect: ApplyDdl, post: Post) -> None:
        if refused := refusal(self._stored, effect.ddl):
            self._faults.seen(f"altered: refused, as {refused}")
            post(DdlFailed(effect.id, Failure(ErrorKind.TARGET, refused)))
            return
        if self._faults.strikes("checkpoint"):
            trouble = self._faults.chance.choice((ErrorKind.TRANSIENT, ErrorKind.IN_DOUBT))
            if trouble is ErrorKind.IN_DOUBT and self._faults.chance.random() < 0.5:
                change_schema(self._stored, effect.ddl, noted=self._notes)
                self._faults.seen("statement took effect without an answer")
            post(DdlFailed(effect.id, Failure(trouble, "connection lost")))
            return
        change_schema(self._stored, effect.ddl)
        emptied = emptied_by(self._stored, effect.ddl)
        post(DdlApplied(effect.id, self._stored.database.specs, emptied))

    @property
    def _notes(self) -> bool:
        """Tells whether a statement that took effect is noted together with it."""
        return self._stored.ledger.history.plan.altered != carrying_out.IMPLICIT

    def _try_save(self, owner: int, effect: SaveCheckpoint, post: Post) -> None:
        if self._faults.strikes("checkpoint"):
            trouble = self._faults.chance.choice((ErrorKind.TRANSIENT, ErrorKind.IN_DOUBT, ErrorKind.IN_DOUBT))
            if trouble is ErrorKind.IN_DOUBT and self._faults.chance.random() < 0.5:
                self._save(owner, effect)
                self._faults.seen("checkpoint stored without an answer")
            post(CheckpointFailed(effect.id, Failure(trouble, "connection lost")))
            return
        self._save(owner, effect)
        post(CheckpointSaved(effect.id))

    def _save(self, owner: int, effect: SaveCheckpoint) -> None:
        self._stored.advance(effect.position, effect.drop)
        self._fence.saved(owner)
        self._stored.flush()
