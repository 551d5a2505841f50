"""Batches at the simulated target: each waits, runs, is open with its locks held, then commits, fails or is in doubt.

Two open batches that touch the same thing mean that the lock table let through what it must not: `Mistake`.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from tidelock.engine.log import receipts
from tidelock.engine.model.errors import DIFFERS, ErrorKind, Failure
from tidelock.engine.protocol.effects import (
    ApplyBatch,
    ApplyDdl,
    ApplyPiece,
    BeginCopy,
    CommitBatch,
    EffectId,
    MergeChunk,
    RollbackBatch,
)
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchCommitted,
    BatchFailed,
    BatchReady,
    BatchRolledBack,
)
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.merging import MERGING, merge
from tidelock.simulations.model import Violation
from tidelock.simulations.target_commits import commit
from tidelock.simulations.target_orders import Orders
from tidelock.simulations.target_stored import Stored
from tidelock.simulations.target_work import LOST, Post, Stage, Work, refusal_code

_PIECE_FAULTS = (
    ("deadlock", ErrorKind.TRANSIENT, "deadlock"),
    ("broken", ErrorKind.TARGET, "disk full"),
)


class Batches:
    """The batches that lanes of all owners work on, each on a connection of its own."""

    def __init__(self, stored: Stored, orders: Orders, *, strict: bool) -> None:
        """`strict`: two open batches in conflict are a mistake; else one fails, as after a lock timeout."""
        self.works: list[Work] = []
        self.opened: Counter[EffectId] = Counter()  # how often a batch was held
        self._stored = stored
        self._orders = orders
        self._faults = stored.faults
        self._strict = strict
        self._lanes: dict[EffectId, int] = {}
        self._behind: dict[EffectId, EffectId] = {}  # held up by a later batch (a gap lock, say), however often retried
        self._cut: dict[EffectId, None] = {}  # held batches whose connection is gone; told when they are to commit
        self._merges: dict[EffectId, tuple[MergeChunk, ApplyBatch]] = {}

    # ------------------------------------------------------------------ what machines ask for

    def merge(self, owner: int, effect: MergeChunk, post: Post) -> None:
        """A batch of its own kind, on a lane of its own."""
        known, batch = self._merges.setdefault(
            effect.id,
            (
                effect,
                ApplyBatch(effect.id, MERGING, effect.steps, receipts.NOTHING, 0, effect.parked, effect.unparked),
            ),
        )
        if known is not effect:
            raise Mistake(f"{effect.id} was sent with another content")
        self.apply(owner, batch, post, effect)

    def apply(self, owner: int, effect: ApplyBatch, post: Post, merge: MergeChunk | None = None) -> None:
        for work in self.works:
            if work.owner == owner and work.effect.lane == effect.lane:
                raise Mistake(f"{effect.id} sent to lane {effect.lane}, which is busy with {work.effect.id}")
        for order in self._orders.of(owner):
            if isinstance(order, ApplyDdl | BeginCopy):
                raise Mistake(f"{effect.id} sent while a schema change runs")
            if isinstance(order, RollbackBatch) and self._lanes[order.id] == effect.lane:
                raise Mistake(f"{effect.id} sent to lane {effect.lane}, which still rolls {order.id} back")
        self._lanes[effect.id] = effect.lane
        self._cut.pop(effect.id, None)
        for checker in self._stored.checkers:
            checker.sent(effect)
        self.works.append(Work(owner, effect, post, merge))

    def piece(self, owner: int, effect: ApplyPiece, post: Post) -> None:
        work = self._work(owner, effect.batch)
        if effect.batch in self._cut:
            post(BatchFailed(effect.id, LOST))
            return
        if work is None or work.stage is not Stage.OPEN or work.piece is not None:
            raise Mistake(f"{effect.id} is a piece of {effect.batch}, which is not open for it")
        if any(isinstance(order, ApplyDdl | BeginCopy) for order in self._orders.of(owner)):
            raise Mistake(f"{effect.id} sent while a schema change runs")
        for checker in self._stored.checkers:
            checker.sent_piece(effect)
        work.piece = effect

    def commit(self, owner: int, effect: CommitBatch, post: Post) -> None:
        work = self._work(owner, effect.id)
        if effect.id in self._cut:
            post(BatchFailed(effect.id, LOST))
            return
        if work is None or work.stage is not Stage.OPEN or work.piece is not None:
            raise Mistake(f"told to commit {effect.id}, which is not held")
        work.stage = Stage.COMMITTING

    def roll_back(self, owner: int, effect: RollbackBatch, post: Post) -> None:
        work = self._work(owner, effect.id)
        if work is None:
            self._orders.add(owner, effect, post)
            return
        if work.stage is Stage.COMMITTING:
            raise Mistake(f"told to roll {effect.id} back while it commits")
        work.stage = Stage.ROLLING

    def _work(self, owner: int, id_: EffectId) -> Work | None:
        return next((w for w in self.works if w.owner == owner and w.effect.id == id_), None)

    def chunk_merge(self, id_: EffectId) -> MergeChunk:
        """Returns the merge that was sent under this id."""
        return self._merges[id_][0]

    # ------------------------------------------------------------------ connections end

    def taken_over(self) -> None:
        """Ends what older owners have under way; what waits comes too late, and the fence stops it."""
        for work in list(self.works):
            self._faults.seen(f"taken over with a batch {work.stage.value}")
            if work.stage is Stage.QUEUED:
                continue
            self.works.remove(work)
            under_way = work.stage is Stage.COMMITTING or (work.stage is Stage.OPEN and not work.effect.held)
            if under_way and self._faults.chance.random() < 0.5:
                commit(self._stored, work)
                self._report(work)
            else:
                self._cut_off(work, Failure(ErrorKind.FENCED, "killed by a newer owner"))

    def lost(self) -> None:
        """Ends all connections, as in a crash of the target."""
        for work in self.works:
            trouble = ErrorKind.IN_DOUBT if work.stage is Stage.COMMITTING else ErrorKind.TRANSIENT
            self._cut_off(work, Failure(trouble, "connection lost"))
        self.works.clear()

    def _cut_off(self, work: Work, failure: Failure) -> None:
        """Its connection is gone: whoever waits for an answer is told; whoever does not will ask."""
        if work.piece is not None:
            self._faults.seen("streamed: cut off amid a piece")
            work.post(BatchFailed(work.piece.id, LOST))
            self._cut[work.effect.id] = None
        elif work.stage is Stage.ROLLING:
            work.post(BatchRolledBack(work.effect.id))
        elif work.stage is Stage.OPEN and work.effect.held:
            self._cut[work.effect.id] = None
        else:
            work.post(BatchFailed(work.effect.id, failure))

    # ------------------------------------------------------------------ what happens by itself

    def work_on(self, work: Work) -> None:
        match work.stage:
            case Stage.QUEUED if self._held_up(work):
                self._time_out(work)
            case Stage.QUEUED:
                self._execute(work)
            case Stage.ROLLING:
                self._end(work, BatchRolledBack(work.effect.id))
            case Stage.COMMITTING:
                self._try_commit(work)
            case Stage.OPEN if not work.effect.held:
                self._try_commit(work)
            case Stage.OPEN if work.piece is not None:
                self._execute_piece(work, work.piece)
            case Stage.OPEN:
                pass  # until it is told to commit

    def _held_up(self, work: Work) -> bool:
        other = self._behind.get(work.effect.id)
        return other is not None and any(w.effect.id == other and w.stage is not Stage.QUEUED for w in self.works)

    def _time_out(self, work: Work) -> None:
        if self._faults.chance.random() < 0.2:
            self._fail(work, ErrorKind.TRANSIENT, "lock wait timeout")

    def _execute(self, work: Work) -> None:
        effect, faults = work.effect, self._faults
        if faults.may("crossing") and effect.id not in self._behind:
            later = [w for w in self.works if w.stage is Stage.OPEN and w.effect.held and w.effect.id > effect.id]
            if later and faults.strikes("crossing"):
                self._behind[effect.id] = faults.chance.choice(later).effect.id
                return
        if faults.strikes("deadlock"):
            self._fail(work, ErrorKind.TRANSIENT, "deadlock")
        elif faults.strikes("broken"):
            self._fail(work, ErrorKind.TARGET, "disk full")
        elif refusal := self._stored.fenced(work.owner, effect.id.epoch):
            self._fail(work, refusal.kind, refusal.message)
        elif effect.id in self._stored.state.receipts:
            faults.seen("receipt answers a batch that was in doubt")
            self._report(work, end=True)
        else:
            self._run(work)

    def _run(self, work: Work) -> None:
        effect = work.effect
        session = self._stored.database.begin(watched=True)
        if work.merge is not None and len(self._stored.staged.get(work.merge.staged, ())) != work.merge.rows:
            self._faults.seen("copy: what was staged is lost")
            self._fail(work, ErrorKind.COMMITS_LOST, "staged rows are lost")
            return
        try:
            if work.merge is None:
                session.run(effect.steps)
            else:
                session = merge(self._stored.database, work.merge, self._stored.staged[work.merge.staged])
        except Violation as error:
            if DIFFERS in str(error):
                self._faults.seen("image: a row is not as before")
            for checker in self._stored.checkers:
                checker.refused(effect, str(error))
            self._fail(work, ErrorKind.ROW, str(error), refusal_code(error))
            return
        for other in self.works:
            if other.session is not None and (both := session.conflicts(other.session)):
                if self._strict:
                    shown = min(both, key=repr)
                    raise Mistake(f"{effect.id} and {other.effect.id} are open and both touch {shown}")
                self._fail(work, ErrorKind.TRANSIENT, "lock wait timeout")
                return
        work.session = session
        work.stage = Stage.OPEN
        if effect.held:
            self.opened[effect.id] += 1
            work.post(BatchReady(effect.id))

    def _execute_piece(self, work: Work, piece: ApplyPiece) -> None:
        work.piece = None
        session, faults = work.session, self._faults
        assert session is not None
        for fault, trouble, words in _PIECE_FAULTS:
            if faults.strikes(fault):
                self.works.remove(work)
                work.post(BatchFailed(piece.id, Failure(trouble, words)))
                return
        before = session.savepoint()
        try:
            session.run(piece.steps)
        except Violation as error:
            session.back_to(before)
            for checker in self._stored.checkers:
                checker.refused_piece(piece, str(error))
            work.post(BatchFailed(piece.id, Failure(ErrorKind.ROW, str(error), refusal_code(error))))
            return
        effect = work.effect
        work.effect = msgspec.structs.replace(
            effect,
            steps=[*effect.steps, *piece.steps],
            parked=(*effect.parked, *piece.parked),
            covered=effect.covered if piece.covered is None else piece.covered,
        )
        for other in self.works:
            if other is not work and other.session is not None and (both := session.conflicts(other.session)):
                raise Mistake(f"{effect.id} runs alone, and {other.effect.id} touches {min(both, key=repr)} too")
        work.post(BatchReady(piece.id))

    def _try_commit(self, work: Work) -> None:
        faults = self._faults
        if faults.may("stall") and faults.chance.random() < 0.5 and faults.strikes("stall"):
            return
        if faults.strikes("deadlock"):
            self._fail(work, ErrorKind.TRANSIENT, "serialisation failure")
        elif faults.strikes("doubt"):
            if faults.chance.random() < 0.5:
                commit(self._stored, work)
                faults.seen("committed without an answer")
            else:
                faults.seen("not committed, without an answer")
            self._fail(work, ErrorKind.IN_DOUBT, "connection lost after COMMIT")
        else:
            commit(self._stored, work)
            self._report(work, end=True)

    def _report(self, work: Work, *, end: bool = False) -> None:
        id_ = work.effect.id
        self._stored.reported(work.owner, id_)
        if end:
            self.works.remove(work)
        work.post(BatchCommitted(id_))

    def _end(self, work: Work, answer: ApplyEvent) -> None:
        if isinstance(answer, BatchRolledBack) and work.effect.steps and work.effect.covered == receipts.NOTHING:
            self._faults.seen("streamed: rolled back as its end does not come")
        self.works.remove(work)
        work.post(answer)

    def _fail(self, work: Work, trouble: ErrorKind, message: str, code: str = "") -> None:
        if work.merge is not None:
            self._faults.seen(f"copy: merge failed, {trouble}")
        self._end(work, BatchFailed(work.effect.id, Failure(trouble, message, code)))
