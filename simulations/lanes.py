"""The lanes of the simulated target: how batches go on, late and in any order, and fail, or are left in doubt.

Two open batches that touch the same thing mean that the lock table let through what it must not: `Mistake`.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from tidelock.engine.log import receipts
from tidelock.engine.model.errors import DIFFERS, ErrorKind, Failure
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.protocol.effects import ApplyBatch, ApplyPiece, EffectId
from tidelock.engine.protocol.events import ApplyEvent, BatchCommitted, BatchFailed, BatchReady, BatchRolledBack
from tidelock.simulations.committing import commit
from tidelock.simulations.faults import Faults
from tidelock.simulations.lane_work import Stage, Work
from tidelock.simulations.ledger import Ledger, Mistake
from tidelock.simulations.merging import merge
from tidelock.simulations.model import Database, Violation
from tidelock.simulations.owner_fence import OwnerFence
from tidelock.simulations.session import Session
from tidelock.simulations.stored import State, Stored

_PIECE_FAULTS = (
    ("deadlock", ErrorKind.TRANSIENT, "deadlock"),
    ("broken", ErrorKind.TARGET, "disk full"),
)


class Lanes:
    """Batches that are under way.  `opened`: how often each was held.

    `strict`: two open batches in conflict are a mistake; else one fails, as after a lock timeout.
    """

    def __init__(self, stored: Stored, faults: Faults, *, strict: bool) -> None:
        self.stored = stored
        self.fence = OwnerFence(stored, faults)
        self.works: list[Work] = []
        self.opened: Counter[EffectId] = Counter()
        self._behind: dict[EffectId, EffectId] = {}  # held up by a later batch (a gap lock, say), however often retried
        self._cut: dict[EffectId, None] = {}  # held batches whose connection is gone; told when they are to commit
        self._faults = faults
        self._strict = strict

    @property
    def state(self) -> State:
        """State that is stored."""
        return self.stored.state

    @property
    def database(self) -> Database:
        """Rows of the target."""
        return self.stored.database

    @property
    def ledger(self) -> Ledger:
        """The part of the log that the target has, by its receipts."""
        return self.stored.ledger

    def _work(self, owner: int, id_: EffectId) -> Work | None:
        return next((w for w in self.works if w.owner == owner and w.effect.id == id_), None)

    def _cut_off(self, work: Work, failure: Failure) -> None:
        """End a batch whose connection is gone: whoever waits for an answer is told; whoever does not will ask."""
        if work.piece is not None:
            self._faults.seen("streamed: cut off amid a piece")
            work.post(BatchFailed(work.piece.id, Failure(ErrorKind.TRANSIENT, "connection lost")))
            self._cut[work.effect.id] = None
        elif work.stage is Stage.ROLLING:
            work.post(BatchRolledBack(work.effect.id))
        elif work.stage is Stage.OPEN and work.effect.held:
            self._cut[work.effect.id] = None
        else:
            work.post(BatchFailed(work.effect.id, failure))

    def _drop_works(self) -> None:
        for work in self.works:
            trouble = ErrorKind.IN_DOUBT if work.stage is Stage.COMMITTING else ErrorKind.TRANSIENT
            self._cut_off(work, Failure(trouble, "connection lost"))
        self.works.clear()

    # ------------------------------------------------------------------ statements

    def _work_on(self, work: Work) -> None:
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

    def _end(self, work: Work, answer: ApplyEvent) -> None:
        if isinstance(answer, BatchRolledBack) and work.effect.steps and work.effect.covered == receipts.NOTHING:
            self._faults.seen("streamed: rolled back as its end does not come")
        self.works.remove(work)
        work.post(answer)

    def _fail(self, work: Work, trouble: ErrorKind, message: str, code: str = "") -> None:
        if work.merge is not None:
            self._faults.seen(f"copy: merge failed, {trouble}")
        self._end(work, BatchFailed(work.effect.id, Failure(trouble, message, code)))

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
        elif refusal := self.fence.refusal(work.owner, effect.id.epoch):
            self._fail(work, refusal.kind, refusal.message)
        elif effect.id in self.state.receipts:
            faults.seen("receipt answers a batch that was in doubt")
            self._report(work, end=True)
        else:
            self._run(work)

    def _run(self, work: Work) -> None:
        effect = work.effect
        session = self.database.begin(watched=True)
        if work.merge is not None and len(self.stored.staged.get(work.merge.staged, ())) != work.merge.rows:
            self._faults.seen("copy: what was staged is lost")
            self._fail(work, ErrorKind.COMMITS_LOST, "staged rows are lost")
            return
        try:
            if work.merge is None:
                self._run_steps(session, effect)
            else:
                session = merge(self.database, work.merge, self.stored.staged[work.merge.staged])
        except Violation as error:
            if DIFFERS in str(error):
                self._faults.seen("image: a row is not as before")
            for checker in self.stored.checkers:
                checker.refused(effect, str(error))
            failure = Failure(ErrorKind.ROW, str(error), self._code(error))
            self._end(work, BatchFailed(effect.id, failure, self._suspects(effect)))
            return
        for other in self.works:
            if other.session is not None and (both := session.conflicts(other.session)):
                if self._strict:
                    shown = min(both, key=repr)
                    raise Mistake(f"{effect.id} and {other.effect.id} are open and both touch {shown}")
                self._fail(work, ErrorKind.TRANSIENT, "lock wait timeout")
                return
        if self._waits(session):
            self._fail(work, ErrorKind.TRANSIENT, "lock wait timeout")
            return
        work.session = session
        work.stage = Stage.OPEN
        if effect.held:
            self.opened[effect.id] += 1
            work.post(BatchReady(effect.id))

    def _code(self, error: Violation) -> str:
        """Returns what the server says of the error besides its words."""
        return error.code

    def _run_steps(self, session: Session, effect: ApplyBatch) -> None:
        """Run the steps of a batch.  Raises Violation."""
        session.run(effect.steps)

    def _suspects(self, effect: ApplyBatch) -> tuple[tuple[TableName, Row], ...]:
        """Returns the rows of a refused batch that it says are in conflict."""
        return ()

    def _waits(self, session: Session) -> bool:
        """Tells whether somebody other than the feed holds a lock that the session needs."""
        return False

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
            for checker in self.stored.checkers:
                checker.refused_piece(piece, str(error))
            work.post(BatchFailed(piece.id, Failure(ErrorKind.ROW, str(error), error.code)))
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

    # ------------------------------------------------------------------ commits

    def _try_commit(self, work: Work) -> None:
        faults = self._faults
        if faults.may("stall") and faults.chance.random() < 0.5 and faults.strikes("stall"):
            return
        if faults.strikes("deadlock"):
            self._fail(work, ErrorKind.TRANSIENT, "serialisation failure")
        elif faults.strikes("doubt"):
            if faults.chance.random() < 0.5:
                self._commit(work)
                faults.seen("committed without an answer")
            else:
                faults.seen("not committed, without an answer")
            self._fail(work, ErrorKind.IN_DOUBT, "connection lost after COMMIT")
        else:
            self._commit(work)
            self._report(work, end=True)

    def _commit(self, work: Work) -> None:
        commit(self.stored, work)

    def _report(self, work: Work, *, end: bool = False) -> None:
        id_ = work.effect.id
        self.fence.report(work.owner, id_)
        if end:
            self.works.remove(work)
        work.post(self._answer(id_))

    def _answer(self, id_: EffectId) -> BatchCommitted:
        return BatchCommitted(id_)
