"""The simulated target: carries out the apply machine's effects as `engine.effects` documents them, late and in any
order, and answers, or fails, or leaves in doubt.

A batch is QUEUED, then OPEN (its statements are done, its locks held), then committed.  Two open batches that touch the
same thing mean that the lock table let through what it must not: `Mistake`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from random import Random

from engine.effects import (
    ApplyBatch,
    ApplyDdl,
    CommitBatch,
    EffectId,
    ParkedRow,
    RollbackBatch,
    SaveCheckpoint,
)
from engine.errors import Failure, Trouble
from engine.events import (
    ApplyEvent,
    BatchCommitted,
    BatchFailed,
    BatchReady,
    BatchRolledBack,
    CheckpointFailed,
    CheckpointSaved,
    DdlApplied,
    DdlFailed,
    ParkedKey,
    Receipt,
    TakenOver,
)
from engine.records import DdlKind, Position, TableName
from simulations.checks import Checks, Mistake
from simulations.history import ADDED, Place
from simulations.model import Database, Session, Violation

Post = Callable[[ApplyEvent], None]
Deed = Callable[[], None]


class Stage(enum.Enum):
    QUEUED = "queued"
    OPEN = "open"
    COMMITTING = "committing"
    ROLLING = "rolling"


class Work:
    """One lane's batch. `owner`: number of the machine that sent it."""

    def __init__(self, owner: int, epoch: int, effect: ApplyBatch, post: Post) -> None:
        self.owner = owner
        self.epoch = epoch
        self.effect = effect
        self.post = post
        self.stage = Stage.QUEUED
        self.session: Session | None = None


class Faults:
    """Chances of each fault; all zero once the world calms down."""

    def __init__(self, chance: Random) -> None:
        self.transient, self.doubt, self.crossing, self.checkpoint = (
            chance.choice((0.0, p, 2 * p)) for p in (0.05, 0.05, 0.1, 0.1)
        )

    def stop(self) -> None:
        self.transient = self.doubt = self.crossing = self.checkpoint = 0.0


class Target:
    def __init__(self, database: Database, start: Position, chance: Random, checks: Checks, *, strict: bool) -> None:
        """`strict`: two open batches in conflict are a mistake; else one fails, as after a lock timeout."""
        self.database = database
        self.faults = Faults(chance)
        self.works: list[Work] = []
        self.parked: dict[Place, tuple[ParkedRow, str]] = {}
        self.wished: dict[Place, str] = {}  # an operator does not change his mind here, so what was done can be told
        self.ddl_passed: tuple[str, int] | None = None
        self._epoch = 0
        self._checkpoint = start
        self._receipts: dict[EffectId, bytes] = {}
        self._behind: dict[
            EffectId, EffectId
        ] = {}  # held up by a later batch (a gap lock, say), as nobody could foresee
        self._lanes: dict[EffectId, int] = {}
        self._orders: list[tuple[int, SaveCheckpoint | ApplyDdl | RollbackBatch, Post]] = []
        self._chance = chance
        self._checks = checks
        self._strict = strict

    # ------------------------------------------------------------------ what machines ask for

    def apply(self, owner: int, effect: ApplyBatch, post: Post) -> None:
        for work in self.works:
            if work.owner == owner and work.effect.lane == effect.lane:
                raise Mistake(f"{effect.id} sent to lane {effect.lane}, which is busy with {work.effect.id}")
        for number, order, _ in self._orders:
            if number == owner and isinstance(order, ApplyDdl):
                raise Mistake(f"{effect.id} sent while a schema change runs")
            if number == owner and isinstance(order, RollbackBatch) and self._lanes[order.id] == effect.lane:
                raise Mistake(f"{effect.id} sent to lane {effect.lane}, which still rolls {order.id} back")
        self._lanes[effect.id] = effect.lane
        self._checks.sent(effect)
        self.works.append(Work(owner, effect.id.epoch, effect, post))

    def commit(self, owner: int, effect: CommitBatch, post: Post) -> None:
        work = self._work(owner, effect.id)
        if work is None and effect.id.epoch != self._epoch:
            post(BatchFailed(effect.id, Failure(Trouble.FENCED, "killed by a newer owner")))
            return
        if work is None or work.stage is not Stage.OPEN:
            raise Mistake(f"told to commit {effect.id}, which is not held")
        work.stage = Stage.COMMITTING

    def roll_back(self, owner: int, effect: RollbackBatch, post: Post) -> None:
        work = self._work(owner, effect.id)
        if work is None:
            self._orders.append((owner, effect, post))
            return
        if work.stage is Stage.COMMITTING:
            raise Mistake(f"told to roll {effect.id} back while it commits")
        work.stage = Stage.ROLLING

    def order(self, owner: int, effect: SaveCheckpoint | ApplyDdl, post: Post) -> None:
        if isinstance(effect, ApplyDdl) and any(work.owner == owner for work in self.works):
            raise Mistake("a schema change runs beside a batch")
        self._orders.append((owner, effect, post))

    def _work(self, owner: int, id_: EffectId) -> Work | None:
        return next((w for w in self.works if w.owner == owner and w.effect.id == id_), None)

    def take_over(self) -> TakenOver:
        """Raise the epoch once older transactions are gone, commit, then read."""
        self._epoch += 1
        for work in list(self.works):
            if work.stage is Stage.QUEUED:
                continue  # it comes too late, and the fence stops it
            self.works.remove(work)
            under_way = work.stage is Stage.COMMITTING or (work.stage is Stage.OPEN and not work.effect.held)
            if under_way and self._chance.random() < 0.5:
                self._commit(work)
                work.post(BatchCommitted(work.effect.id))
            else:
                work.post(BatchFailed(work.effect.id, Failure(Trouble.FENCED, "killed by a newer owner")))
        self._orders = [entry for entry in self._orders if isinstance(entry[1], SaveCheckpoint)]
        return TakenOver(
            self._epoch,
            self._checkpoint,
            tuple(Receipt(id_, covered) for id_, covered in sorted(self._receipts.items())),
            tuple(self.wishes(every=True)),
            self.database.specs,
            self.ddl_passed,
        )

    def wishes(self, *, every: bool = False) -> list[ParkedKey]:
        return [
            ParkedKey(*place, TableName(row.schema, row.table), row.change, wish)
            for place, (row, wish) in self.parked.items()
            if wish or every
        ]

    # ------------------------------------------------------------------ what happens by itself

    def deeds(self) -> list[Deed]:
        """All that may happen next at the target."""
        out: list[Deed] = [lambda e=entry: self._carry_out(e) for entry in self._orders]  # type: ignore[misc]
        for work in self.works:
            if work.stage is Stage.QUEUED:
                if self._held_up(work):
                    out.append(lambda w=work: self._time_out(w))  # type: ignore[misc]
                else:
                    out.append(lambda w=work: self._execute(w))  # type: ignore[misc]
            elif work.stage is Stage.ROLLING:
                out.append(lambda w=work: self._end(w, BatchRolledBack(w.effect.id)))  # type: ignore[misc]
            elif work.stage is Stage.COMMITTING or not work.effect.held:
                out.append(lambda w=work: self._try_commit(w))  # type: ignore[misc]
        return out

    def _held_up(self, work: Work) -> bool:
        other = self._behind.get(work.effect.id)
        return any(w.effect.id == other and w.stage is not Stage.QUEUED for w in self.works)

    def _time_out(self, work: Work) -> None:
        if self._chance.random() < 0.2:
            self._fail(work, Trouble.TRANSIENT, "lock wait timeout")

    def _end(self, work: Work, answer: ApplyEvent) -> None:
        self.works.remove(work)
        work.post(answer)

    def _fail(self, work: Work, trouble: Trouble, message: str) -> None:
        self._end(work, BatchFailed(work.effect.id, Failure(trouble, message)))

    def _execute(self, work: Work) -> None:
        effect = work.effect
        if self._chance.random() < self.faults.crossing:
            later = [w for w in self.works if w.stage is Stage.OPEN and w.effect.held and w.effect.id > effect.id]
            if later and effect.id not in self._behind:
                self._behind[effect.id] = self._chance.choice(later).effect.id
                return
        if self._chance.random() < self.faults.transient:
            self._fail(work, Trouble.TRANSIENT, "deadlock")
            return
        if work.epoch != self._epoch:
            self._fail(work, Trouble.FENCED, "a newer owner has the feed")
            return
        if effect.id in self._receipts:
            self._end(work, BatchCommitted(effect.id))
            return
        session = self.database.begin()
        try:
            session.run(effect.steps)
        except Violation as error:
            self._fail(work, Trouble.ROW, str(error))
            return
        for other in self.works:
            if other.session is not None and (both := session.conflicts(other.session)):
                if self._strict:
                    raise Mistake(f"{effect.id} and {other.effect.id} are open and both touch {sorted(both)[0]}")
                self._fail(work, Trouble.TRANSIENT, "lock wait timeout")
                return
        work.session = session
        work.stage = Stage.OPEN
        if effect.held:
            work.post(BatchReady(effect.id))

    def _try_commit(self, work: Work) -> None:
        if self._chance.random() < self.faults.transient:
            self._fail(work, Trouble.TRANSIENT, "serialisation failure")
        elif self._chance.random() < self.faults.doubt:
            if self._chance.random() < 0.5:
                self._commit(work)
            self._fail(work, Trouble.IN_DOUBT, "connection lost after COMMIT")
        else:
            self._commit(work)
            self._end(work, BatchCommitted(work.effect.id))

    def _commit(self, work: Work) -> None:
        assert work.session is not None
        effect = work.effect
        before = self.database.copy() if effect.parked else self.database
        work.session.commit()
        self._receipts[effect.id] = effect.covered
        for place in effect.unparked:
            if self.parked.pop(place, None) is None:
                raise Mistake(f"{effect.id} carries out a wish for {place}, which is not parked")
        wishes = {place: self.wished[place] for place in effect.unparked}
        for row in effect.parked:
            self.parked[row.source, row.number, row.ordinal] = (row, "")
        self._checks.committed(effect, wishes, self, before)

    def _carry_out(self, entry: tuple[int, SaveCheckpoint | ApplyDdl | RollbackBatch, Post]) -> None:
        self._orders.remove(entry)
        _, effect, post = entry
        if isinstance(effect, RollbackBatch):
            post(BatchRolledBack(effect.id))
        elif isinstance(effect, ApplyDdl):
            if effect.id.epoch != self._epoch:
                post(DdlFailed(effect.id, Failure(Trouble.FENCED, "a newer owner has the feed")))
            elif self._chance.random() < self.faults.transient:
                post(DdlFailed(effect.id, Failure(Trouble.TRANSIENT, "lock wait timeout")))
            else:
                self._change_schema(effect)
                post(DdlApplied(effect.id, self.database.specs))
        elif effect.id.epoch != self._epoch:
            post(CheckpointFailed(effect.id, Failure(Trouble.FENCED, "a newer owner has the feed")))
        elif self._chance.random() < self.faults.checkpoint:
            trouble = self._chance.choice((Trouble.TRANSIENT, Trouble.IN_DOUBT, Trouble.IN_DOUBT))
            if trouble is Trouble.IN_DOUBT and self._chance.random() < 0.5:
                self._save(effect)
            post(CheckpointFailed(effect.id, Failure(trouble, "connection lost")))
        else:
            self._save(effect)
            post(CheckpointSaved(effect.id))

    def _save(self, effect: SaveCheckpoint) -> None:
        dropped = [self._receipts[id_] for id_ in effect.drop if id_ in self._receipts]
        self._checks.saved(self._checkpoint, effect.position, dropped)
        self._checkpoint = effect.position
        for id_ in effect.drop:
            self._receipts.pop(id_, None)

    def _change_schema(self, effect: ApplyDdl) -> None:
        self._checks.changing_schema(effect.ddl)
        (name,) = effect.ddl.tables
        if effect.ddl.kind is DdlKind.TRUNCATE:
            self.database.truncate(name)
        else:
            self.database.add_column(name, ADDED)

    @property
    def receipts(self) -> int:
        return len(self._receipts)
