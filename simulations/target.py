"""The simulated target: carries out the apply machine's effects as `engine.protocol.effects` documents them, late and
in any order, and answers, or fails, or leaves in doubt, or forgets.

A batch is QUEUED, then OPEN (its statements are done, its locks held), then committed.  Two open batches that touch the
same thing mean that the lock table let through what it must not: `Mistake`.
"""

from __future__ import annotations

import contextlib
import enum
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

import msgspec

from tidelock.engine.batch.parked_rows import decode_change
from tidelock.engine.log import receipts
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.emptying import children_first
from tidelock.engine.model.errors import DIFFERS, ErrorKind, Failure
from tidelock.engine.model.records import Ddl, DdlKind, Position, Row, TableName
from tidelock.engine.protocol.effects import (
    ApplyBatch,
    ApplyDdl,
    ApplyPiece,
    BeginCopy,
    CommitBatch,
    EffectId,
    FindRefused,
    MergeChunk,
    ReadChunk,
    RollbackBatch,
    SaveCheckpoint,
)
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchCommitted,
    BatchFailed,
    BatchReady,
    BatchRolledBack,
    CheckpointFailed,
    CheckpointSaved,
    CopyBegun,
    CopyFailed,
    DdlApplied,
    DdlFailed,
    ParkedKey,
    Receipt,
    RefusedFound,
    RefusedRow,
    TakenOver,
)
from tidelock.engine.protocol.steps import ParkedRow
from tidelock.simulations.checkers import ALL
from tidelock.simulations.checkers.checker import Checker, Commit
from tidelock.simulations.faults import Faults
from tidelock.simulations.history import ADDED, Entry, Place
from tidelock.simulations.layout import Token
from tidelock.simulations.ledger import Ledger, Mistake
from tidelock.simulations.merging import MERGING, merge, refused_rows
from tidelock.simulations.model import Database, Violation
from tidelock.simulations.session import Session

Post: TypeAlias = Callable[[ApplyEvent], None]
Order: TypeAlias = SaveCheckpoint | ApplyDdl | BeginCopy | RollbackBatch | FindRefused

_FAILED: dict[type[Order], Callable[[EffectId, Failure], ApplyEvent]] = {
    SaveCheckpoint: CheckpointFailed, ApplyDdl: DdlFailed, BeginCopy: CopyFailed,
    FindRefused: BatchFailed,
}  # fmt: skip


_PIECE_FAULTS = (
    ("deadlock", ErrorKind.TRANSIENT, "deadlock"),
    ("broken", ErrorKind.TARGET, "disk full"),
)

LACKS_PARENT = "23503"
"""SQLSTATE of a row that refers to one that is not there."""

UNTOLD = 0.2
"""How often a target cannot tell which staged rows it refuses."""


def _code(why: Violation) -> str:
    return LACKS_PARENT if why.lacks_parent else ""


class Stage(enum.Enum):
    QUEUED = "queued"
    OPEN = "open"
    COMMITTING = "committing"
    ROLLING = "rolling"


class Work:
    """One lane's batch. `owner`: number of the machine that sent it.  `merge`: the chunk that it merges.  `piece`: what
    comes next of a transaction that is applied as it comes."""

    __slots__ = ("effect", "merge", "owner", "piece", "post", "session", "stage")

    def __init__(self, owner: int, effect: ApplyBatch, post: Post, merge: MergeChunk | None = None) -> None:
        self.owner = owner
        self.effect = effect
        self.merge = merge
        self.post = post
        self.stage = Stage.QUEUED
        self.piece: ApplyPiece | None = None
        self.session: Session | None = None


class State(msgspec.Struct):
    """State that is stored.  `wished`: an operator does not change his mind here, so what was done can be told."""

    database: Database
    checkpoint: Position
    receipts: dict[EffectId, bytes]
    parked: dict[Place, tuple[ParkedRow, str]]
    wished: dict[Place, str]
    ddl_passed: tuple[str, int] | None = None

    def copy(self) -> State:
        return State(
            self.database.copy(), self.checkpoint, self.receipts.copy(), self.parked.copy(), self.wished.copy(),
            self.ddl_passed,
        )  # fmt: skip


class Target:
    def __init__(self, database: Database, ledger: Ledger, faults: Faults, *, atomic: bool, whole: bool, strict: bool):
        """`strict`: two open batches in conflict are a mistake; else one fails, as after a lock timeout."""
        self.state = State(database, ledger.history.start, {}, {}, {})
        self.works: list[Work] = []
        self.image = False  # its rows are compared
        self.ledger = ledger
        self.checkers: tuple[Checker, ...] = tuple(c(ledger, self, atomic=atomic, whole=whole) for c in ALL)
        self.epoch = 0
        self._orders: list[tuple[int, Order, Post]] = []
        self._lanes: dict[EffectId, int] = {}
        self._behind: dict[EffectId, EffectId] = {}  # held up by a later batch (a gap lock, say), however often retried
        self._cut: dict[EffectId, None] = {}  # held batches whose connection is gone; told when they are to commit
        self._faults = faults
        self._strict = strict
        self.opened: Counter[EffectId] = Counter()  # how often a batch was held
        self.staged: dict[EffectId, list[Row]] = {}  # by attempt
        self.tampered: dict[TableName, None] = {}
        self.wanted: dict[TableName, dict[Row, None]] = {}  # keys of rows that an operator wants repaired
        self._merges: dict[EffectId, tuple[MergeChunk, ApplyBatch]] = {}
        self._disk: tuple[State, Any, list[Any]] | None = None  # what would survive a crash of the target
        self._reported: dict[int, dict[EffectId, None]] = {}  # by owner: commits it was told of since it last saved
        self.flush()

    def begin_at(self, place: Position) -> None:
        """Store the place where the log begins, with what proves it."""
        self.state.checkpoint = place
        self.flush()

    @property
    def durable(self) -> Position:
        """The checkpoint that a crash of the target leaves."""
        return self._disk[0].checkpoint if self._disk is not None else self.state.checkpoint

    @property
    def database(self) -> Database:
        return self.state.database

    @property
    def parked(self) -> dict[Place, tuple[ParkedRow, str]]:
        return self.state.parked

    @property
    def checkpoint(self) -> Position:
        return self.state.checkpoint

    # ------------------------------------------------------------------ what machines ask for

    def asked(self, effect: ReadChunk) -> None:
        for checker in self.checkers:
            checker.asked(effect)

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
        for number, order, _ in self._orders:
            if number == owner and isinstance(order, ApplyDdl | BeginCopy):
                raise Mistake(f"{effect.id} sent while a schema change runs")
            if number == owner and isinstance(order, RollbackBatch) and self._lanes[order.id] == effect.lane:
                raise Mistake(f"{effect.id} sent to lane {effect.lane}, which still rolls {order.id} back")
        self._lanes[effect.id] = effect.lane
        self._cut.pop(effect.id, None)
        for checker in self.checkers:
            checker.sent(effect)
        self.works.append(Work(owner, effect, post, merge))

    def piece(self, owner: int, effect: ApplyPiece, post: Post) -> None:
        work = self._work(owner, effect.batch)
        if effect.batch in self._cut:
            post(BatchFailed(effect.id, Failure(ErrorKind.TRANSIENT, "connection lost")))
            return
        if work is None or work.stage is not Stage.OPEN or work.piece is not None:
            raise Mistake(f"{effect.id} is a piece of {effect.batch}, which is not open for it")
        if any(number == owner and isinstance(order, ApplyDdl | BeginCopy) for number, order, _ in self._orders):
            raise Mistake(f"{effect.id} sent while a schema change runs")
        for checker in self.checkers:
            checker.sent_piece(effect)
        work.piece = effect

    def commit(self, owner: int, effect: CommitBatch, post: Post) -> None:
        work = self._work(owner, effect.id)
        if effect.id in self._cut:
            post(BatchFailed(effect.id, Failure(ErrorKind.TRANSIENT, "connection lost")))
            return
        if work is None or work.stage is not Stage.OPEN or work.piece is not None:
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

    def order(self, owner: int, effect: SaveCheckpoint | ApplyDdl | BeginCopy | FindRefused, post: Post) -> None:
        if isinstance(effect, ApplyDdl | BeginCopy) and any(work.owner == owner for work in self.works):
            raise Mistake("a schema change runs beside a batch")
        self._orders.append((owner, effect, post))

    def _work(self, owner: int, id_: EffectId) -> Work | None:
        return next((w for w in self.works if w.owner == owner and w.effect.id == id_), None)

    def take_over(self) -> TakenOver:
        """Raise the epoch once older transactions are gone, commit, then read."""
        self.epoch += 1
        for work in list(self.works):
            self._faults.seen(f"taken over with a batch {work.stage.value}")
            if work.stage is Stage.QUEUED:
                continue  # it comes too late, and the fence stops it
            self.works.remove(work)
            under_way = work.stage is Stage.COMMITTING or (work.stage is Stage.OPEN and not work.effect.held)
            if under_way and self._faults.chance.random() < 0.5:
                self._commit(work)
                self._report(work)
            else:
                self._cut_off(work, Failure(ErrorKind.FENCED, "killed by a newer owner"))
        for _, order, _ in self._orders:
            self._faults.seen(f"taken over during {type(order).__name__}")
        self._orders = [entry for entry in self._orders if isinstance(entry[1], SaveCheckpoint)]
        self.flush()
        state = self.state
        held = tuple(Receipt(id_, covered) for id_, covered in sorted(state.receipts.items()))
        wishes = tuple(self.wishes(every=True))
        return TakenOver(
            self.epoch, state.checkpoint, held, wishes, self.database.specs, state.ddl_passed, chunks=self.ledger.told()
        )

    def writes_to(self, name: TableName) -> bool:
        """Tells whether a transaction is open that has written to the table."""
        return any(work.session is not None and name in work.session.touched for work in self.works)

    def write_own(self, name: TableName, slot: Token, row: Row) -> None:
        """Somebody at the target fills in a column that only the target has."""
        self.database.tables[name].put(slot, row)
        for checker in self.checkers:
            checker.written(name, slot, row)

    def tamper(self, name: TableName, slot: Token, row: Row | None) -> None:
        """Somebody at the target changes a row, takes it away or puts one there."""
        table = self.database.tables[name]
        self.tampered[name] = None
        table.drop(slot)
        if row is not None:
            table.put(slot, row)
        for checker in self.checkers:
            checker.tampered(name, slot, row)

    def chunk_merge(self, id_: EffectId) -> tuple[MergeChunk, list[Row]]:
        """The merge that was sent under this id, and what is staged for it."""
        effect, _ = self._merges[id_]
        return effect, self.staged.get(effect.staged, [])

    def wishes(self, *, every: bool = False) -> list[ParkedKey]:
        return [
            ParkedKey(*place, TableName(row.schema, row.table), row.change, wish)
            for place, (row, wish) in reversed(self.parked.items())  # in no order that means anything
            if wish or every
        ]

    def _cut_off(self, work: Work, failure: Failure) -> None:
        """Its connection is gone: whoever waits for an answer is told; whoever does not will ask."""
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

    # ------------------------------------------------------------------ what happens by itself

    def go_on(self, chance: Random) -> None:
        """Something that is under way goes on, if it can."""
        at = int(chance.random() * (len(self._orders) + len(self.works)))
        if at < len(self._orders):
            self._carry_out(*self._orders[at])
        elif self.works:
            self._work_on(self.works[at - len(self._orders)])

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
        elif refusal := self._fenced(work.owner, effect.id.epoch):
            self._fail(work, refusal.kind, refusal.message)
        elif effect.id in self.state.receipts:
            faults.seen("receipt answers a batch that was in doubt")
            self._report(work, end=True)
        else:
            self._run(work)

    def _fenced(self, owner: int, epoch: int) -> Failure | None:
        """May this owner still write, and is all there that it was told of?"""
        if epoch != self.epoch:
            self._faults.seen("zombie rejected")
            return Failure(ErrorKind.FENCED, "a newer owner has the feed")
        if self._faults.forgot and any(id_ not in self.state.receipts for id_ in self._reported.get(owner, ())):
            self._faults.seen("owner of a target that forgot is told so")
            return Failure(ErrorKind.COMMITS_LOST, "the target has forgotten commits that it had reported")
        return None

    def _run(self, work: Work) -> None:
        effect = work.effect
        session = self.database.begin(watched=True)
        if work.merge is not None and len(self.staged.get(work.merge.staged, ())) != work.merge.rows:
            self._faults.seen("copy: what was staged is lost")
            self._fail(work, ErrorKind.COMMITS_LOST, "staged rows are lost")
            return
        try:
            if work.merge is None:
                self._run_steps(session, effect)
            else:
                session = merge(self.database, work.merge, self.staged[work.merge.staged])
        except Violation as error:
            if DIFFERS in str(error):
                self._faults.seen("image: a row is not as before")
            for checker in self.checkers:
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
        return _code(error)

    def _run_steps(self, session: Session, effect: ApplyBatch) -> None:
        """Raises Violation."""
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
            for checker in self.checkers:
                checker.refused_piece(piece, str(error))
            code = LACKS_PARENT if error.lacks_parent else ""
            work.post(BatchFailed(piece.id, Failure(ErrorKind.ROW, str(error), code)))
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
                self._commit(work)
                faults.seen("committed without an answer")
            else:
                faults.seen("not committed, without an answer")
            self._fail(work, ErrorKind.IN_DOUBT, "connection lost after COMMIT")
        else:
            self._commit(work)
            self._report(work, end=True)

    def _report(self, work: Work, *, end: bool = False) -> None:
        id_ = work.effect.id
        self._reported.setdefault(work.owner, {})[id_] = None
        if end:
            self.works.remove(work)
        work.post(self._answer(id_))

    def _answer(self, id_: EffectId) -> BatchCommitted:
        return BatchCommitted(id_)

    def _commit(self, work: Work) -> None:
        assert work.session is not None
        effect, state, ledger = work.effect, self.state, self.ledger
        before = self.database.copy() if effect.parked else None
        work.session.commit()
        state.receipts[effect.id] = effect.covered
        if work.merge is not None:
            self._merged(work.merge)
        for place in effect.unparked:
            if state.parked.pop(place, None) is None:
                raise Mistake(f"{effect.id} carries out a wish for {place}, which is not parked")
        wished = {place: state.wished.get(place, "retry") for place in effect.unparked if work.merge is None}
        retried = [place for place, wish in wished.items() if wish == "retry"]
        skipped = [place for place, wish in wished.items() if wish == "skip"]
        parked = [(row.source, row.number, row.ordinal) for row in effect.parked]
        if len({*parked}) < len(parked):
            raise Mistake(f"{effect.id} parks two rows in one place: {parked}")
        for place, row in zip(parked, effect.parked, strict=True):
            state.parked[place] = (row, "")
        places = receipts.decode(effect.covered)
        aside = dict.fromkeys(parked)
        ledger.covered.update(dict.fromkeys(places, effect.id))
        unknown = any(place not in ledger.index for place in places)  # a checker will say so
        applied = [] if unknown else ledger.in_log_order([*(p for p in places if p not in aside), *retried])
        ledger.applied.update(dict.fromkeys(applied))
        ledger.skipped.update(dict.fromkeys(skipped))
        images = [ledger.images(place, self.database) for place in applied]
        done = Commit(effect, places, applied, images, retried, skipped, parked, before, work.session.touched)
        for checker in self.checkers:
            checker.committed(done)
        if self._disk is not None and self._faults.chance.random() < 0.1:
            self.flush()

    # ------------------------------------------------------------------ copies

    def _merged(self, effect: MergeChunk) -> None:
        """In the transaction that puts the rows in place."""
        progress = self.ledger.progress(effect.split)
        if progress.split != effect.split or effect.chunk in progress.merged:
            raise Mistake(f"chunk {effect.chunk} of {effect.split.table} is merged again, or was never planned")
        at = progress.merged[effect.chunk] = self.ledger.history.index(effect.position)
        for row in effect.parked:
            self.ledger.stray((row.source, row.number, row.ordinal), decode_change(row.change), at)
        self.ledger.emptied.update(dict.fromkeys(effect.unparked))
        for checker in self.checkers:
            checker.merged(effect)
        self._advance(effect.position, effect.drop)

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

    def _try_find(self, effect: FindRefused, post: Post) -> None:
        if self._faults.strikes("checkpoint"):
            post(BatchFailed(effect.id, Failure(ErrorKind.TRANSIENT, "connection lost")))
            return
        staged = self.staged.get(effect.merge.staged, [])
        if len(staged) != effect.merge.rows:
            post(BatchFailed(effect.id, Failure(ErrorKind.COMMITS_LOST, "staged rows are lost")))
            return
        found = refused_rows(self.database, effect.merge, staged)
        if found and self._faults.chance.random() < UNTOLD:
            self._faults.seen("copy: rows that a merge is refused for cannot be told")
            post(BatchFailed(effect.id, Failure(ErrorKind.ROW, "too many rows")))
            return
        if found:
            self._faults.seen("copy: rows that a merge is refused for are found")
        name, view = effect.merge.split.table, self.ledger.view
        rows = (RefusedRow(view.shape(name, row), row, str(why), _code(why)) for row, why in found)
        post(RefusedFound(effect.id, tuple(rows)))

    def _begin(self, effect: BeginCopy) -> None:
        begun = self.ledger.history.index(effect.position)
        for split in effect.splits:
            if not split.keeps_target_rows:
                self.database.truncate(split.table)
                self._empty(split.table)
            wanted = self.wanted.get(split.table, {})
            for key in split.keys if split.by is By.KEYS else list(wanted):
                wanted.pop(key, None)
            self.ledger.begin(split, begun)
        for checker in self.checkers:
            checker.copy_begun(effect)
        self._advance(effect.position, effect.drop)
        self.flush()

    # ------------------------------------------------------------------ checkpoints and statements

    def _carry_out(self, owner: int, effect: Order, post: Post) -> None:
        self._orders = [entry for entry in self._orders if entry[1] is not effect]
        if isinstance(effect, RollbackBatch):
            post(BatchRolledBack(effect.id))
        elif refusal := self._fenced(owner, effect.id.epoch):
            post(_FAILED[type(effect)](effect.id, refusal))
        elif isinstance(effect, ApplyDdl):
            self._try_statement(effect, post)
        elif isinstance(effect, BeginCopy):
            self._try_begin(effect, post)
        elif isinstance(effect, FindRefused):
            self._try_find(effect, post)
        else:
            self._try_save(owner, effect, post)

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
        post(DdlApplied(effect.id, self.database.specs, emptied))

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
        self._advance(effect.position, effect.drop)
        self._reported.pop(owner, None)
        self.flush()

    def _advance(self, position: Position, drop: tuple[EffectId, ...]) -> None:
        state = self.state
        dropped = {id_: state.receipts[id_] for id_ in drop if id_ in state.receipts}
        for checker in self.checkers:
            checker.saved(state.checkpoint, position, dropped)
        state.checkpoint = position
        for id_ in drop:
            state.receipts.pop(id_, None)

    def _change_schema(self, effect: ApplyDdl) -> None:
        entry = self._statement(effect.ddl)
        for checker in self.checkers:
            checker.statement(entry)
        name, *_ = effect.ddl.tables
        match effect.ddl.kind:
            case DdlKind.TRUNCATE:
                for emptied in children_first(effect.ddl.tables, self.database.specs):
                    self.database.delete_all(emptied)
                    self._empty(emptied)
            case DdlKind.CREATE_TABLE:
                self.database.create(self.ledger.history.tables[name])
            case DdlKind.ALTERED:
                self._alter_keys(entry, name)
            case _:
                self.database.add_column(name, ADDED)
        for checker in self.checkers:
            checker.statement_done(entry)
        self.flush()

    def _alter_keys(self, entry: Entry, name: TableName) -> None:
        assert entry.keys is not None
        with contextlib.suppress(Violation):  # rows that are parked or given up may be missing here
            self.database.alter(entry.keys.of(self.database.tables[name].spec))

    def _empty(self, name: TableName) -> None:
        """Drop what is parked for a table, as its rows go."""
        for place in [p for p, (row, _) in self.parked.items() if (row.schema, row.table) == (name.schema, name.table)]:
            del self.parked[place]
            self.ledger.emptied[place] = None

    def _statement(self, ddl: Ddl) -> Entry:
        return next(e for e in self.ledger.history.entries if e.ddl is not None and e.number == ddl.number)

    def pass_statement(self, ddl: Ddl) -> None:
        """The operator changes the target by hand, if it needs that, and says `tidelock ddl done`."""
        entry = self._statement(ddl)
        for checker in self.checkers:
            checker.statement(entry)
        if entry.keys is not None:
            self._alter_keys(entry, *ddl.tables)
        for checker in self.checkers:
            checker.statement_done(entry)
        self.state.ddl_passed = (ddl.source, ddl.number)
        self.flush()

    # ------------------------------------------------------------------ a target that forgets

    def flush(self) -> None:
        """All that is committed reaches the disk."""
        if "forgotten" in self._faults.weights:
            self._disk = (self.state.copy(), self.ledger.freeze(), [checker.freeze() for checker in self.checkers])

    def forget(self) -> None:
        """Crash and come back with what was on the disk: commits that were reported are gone, connections too."""
        assert self._disk is not None
        state, ledger, memories = self._disk
        lost = len(self.state.receipts) - len(state.receipts)
        self._faults.seen("target forgot commits" if lost > 0 else "target restarted")
        self._faults.forgot = True
        self.state = state.copy()
        self.ledger.thaw(ledger)
        for checker, memory in zip(self.checkers, memories, strict=True):
            checker.thaw(memory)
        self._drop_works()
        for attempt in [attempt for attempt in self.staged if self._faults.chance.random() < 0.5]:
            self.staged[attempt] = self.staged[attempt][1:]
        self._drop_orders()

    def lose_connections(self) -> None:
        """All that is under way is rolled back, and nobody is told so for certain."""
        self._drop_works()
        self._drop_orders()

    def _drop_works(self) -> None:
        for work in self.works:
            trouble = ErrorKind.IN_DOUBT if work.stage is Stage.COMMITTING else ErrorKind.TRANSIENT
            self._cut_off(work, Failure(trouble, "connection lost"))
        self.works.clear()

    def _drop_orders(self) -> None:
        orders, self._orders = self._orders, []
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
