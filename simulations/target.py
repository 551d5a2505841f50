"""The simulated target: takes the apply machine's effects as `engine.protocol.effects` documents them, carries them out
late and in any order, and answers, or fails, or leaves in doubt, or forgets.
"""

from __future__ import annotations

from random import Random

from tidelock.engine.log import receipts
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import Position, Row, TableName
from tidelock.engine.model.schema_change import Ddl
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
from tidelock.engine.protocol.events import BatchFailed, ParkedKey, Receipt, TakenOver
from tidelock.engine.protocol.steps import ParkedRow
from tidelock.simulations.altering.reshape import carry_out
from tidelock.simulations.checkers import ALL
from tidelock.simulations.checkers.checker import Checker
from tidelock.simulations.faults import Faults
from tidelock.simulations.lane_work import Post, Stage, Work
from tidelock.simulations.lanes import Lanes
from tidelock.simulations.layout import Token
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.log_entry import Entry, Place
from tidelock.simulations.merging import MERGING
from tidelock.simulations.orders import Orders
from tidelock.simulations.schema_change import pass_statement
from tidelock.simulations.stored import Stored


class Target(Lanes):
    """Target of a feed.  `image`: its rows are compared.  `tampered`: tables whose rows somebody else has changed."""

    def __init__(self, stored: Stored, faults: Faults, *, atomic: bool, whole: bool, strict: bool) -> None:
        super().__init__(stored, faults, strict=strict)
        self.image = False
        self.tampered: dict[TableName, None] = {}
        self._orders = Orders(stored, self.fence, faults)
        self._lanes: dict[EffectId, int] = {}
        self._merges: dict[EffectId, tuple[MergeChunk, ApplyBatch]] = {}
        stored.checkers = tuple(kind(stored.ledger, self, atomic=atomic, whole=whole) for kind in ALL)
        stored.flush()

    @property
    def checkers(self) -> tuple[Checker, ...]:
        """Checkers that see what the target does."""
        return self.stored.checkers

    @property
    def epoch(self) -> int:
        """Epoch of the newest owner."""
        return self.fence.epoch

    @property
    def parked(self) -> dict[Place, tuple[ParkedRow, str]]:
        """Parked rows with their errors, by their places in the log."""
        return self.state.parked

    @property
    def checkpoint(self) -> Position:
        """Checkpoint that is stored."""
        return self.state.checkpoint

    # ------------------------------------------------------------------ what machines ask for

    def asked(self, effect: ReadChunk) -> None:
        """Note that a chunk is to be read."""
        for checker in self.checkers:
            checker.asked(effect)

    def merge(self, owner: int, effect: MergeChunk, post: Post) -> None:
        """Take the merge of a chunk, a batch of its own kind on a lane of its own."""
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
        """Take a batch."""
        for work in self.works:
            if work.owner == owner and work.effect.lane == effect.lane:
                raise Mistake(f"{effect.id} sent to lane {effect.lane}, which is busy with {work.effect.id}")
        if self._orders.changes_tables(owner):
            raise Mistake(f"{effect.id} sent while a schema change runs")
        for order in self._orders.of(owner):
            if isinstance(order, RollbackBatch) and self._lanes[order.id] == effect.lane:
                raise Mistake(f"{effect.id} sent to lane {effect.lane}, which still rolls {order.id} back")
        self._lanes[effect.id] = effect.lane
        self._cut.pop(effect.id, None)
        for checker in self.checkers:
            checker.sent(effect)
        self.works.append(Work(owner, effect, post, merge))

    def piece(self, owner: int, effect: ApplyPiece, post: Post) -> None:
        """Take a piece of a batch that is open."""
        work = self._work(owner, effect.batch)
        if effect.batch in self._cut:
            post(BatchFailed(effect.id, Failure(ErrorKind.TRANSIENT, "connection lost")))
            return
        if work is None or work.stage is not Stage.OPEN or work.piece is not None:
            raise Mistake(f"{effect.id} is a piece of {effect.batch}, which is not open for it")
        if self._orders.changes_tables(owner):
            raise Mistake(f"{effect.id} sent while a schema change runs")
        for checker in self.checkers:
            checker.sent_piece(effect)
        work.piece = effect

    def commit(self, owner: int, effect: CommitBatch, post: Post) -> None:
        """Let a batch commit that is held."""
        work = self._work(owner, effect.id)
        if effect.id in self._cut:
            post(BatchFailed(effect.id, Failure(ErrorKind.TRANSIENT, "connection lost")))
            return
        if work is None or work.stage is not Stage.OPEN or work.piece is not None:
            raise Mistake(f"told to commit {effect.id}, which is not held")
        work.stage = Stage.COMMITTING

    def roll_back(self, owner: int, effect: RollbackBatch, post: Post) -> None:
        """Roll a batch back, also one that is gone."""
        work = self._work(owner, effect.id)
        if work is None:
            self._orders.add(owner, effect, post)
            return
        if work.stage is Stage.COMMITTING:
            raise Mistake(f"told to roll {effect.id} back while it commits")
        work.stage = Stage.ROLLING

    def order(self, owner: int, effect: SaveCheckpoint | ApplyDdl | BeginCopy | FindRefused, post: Post) -> None:
        """Take an order that is no batch."""
        if isinstance(effect, ApplyDdl | BeginCopy) and any(work.owner == owner for work in self.works):
            raise Mistake("a schema change runs beside a batch")
        self._orders.add(owner, effect, post)

    def take_over(self) -> TakenOver:
        """Raise the epoch once older transactions are gone, commit, then read."""
        self.fence.epoch += 1
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
        self._orders.cut_off()
        self.stored.flush()
        state = self.state
        held = tuple(Receipt(id_, covered) for id_, covered in sorted(state.receipts.items()))
        wishes = tuple(self.wishes(every=True))
        return TakenOver(
            self.epoch, state.checkpoint, held, wishes, self.database.specs, state.ddl_passed, chunks=self.ledger.told()
        )

    def wishes(self, *, every: bool = False) -> list[ParkedKey]:
        """Return the parked rows that an operator wishes something for, or every one."""
        return [
            ParkedKey(*place, TableName(row.schema, row.table), row.change, wish)
            for place, (row, wish) in reversed(self.parked.items())  # in no order that means anything
            if wish or every
        ]

    def chunk_merge(self, id_: EffectId) -> tuple[MergeChunk, list[Row]]:
        """Return the merge that was sent under this id, and what is staged for it."""
        effect, _ = self._merges[id_]
        return effect, self.stored.staged.get(effect.staged, [])

    # ------------------------------------------------------------------ what others do at the target

    def writes_to(self, name: TableName) -> bool:
        """Tell whether a transaction is open that has written to the table."""
        return any(work.session is not None and name in work.session.touched for work in self.works)

    def write_own(self, name: TableName, slot: Token, row: Row) -> None:
        """Fill in a column that only the target has, as somebody there does."""
        self.database.tables[name].put(slot, row)
        for checker in self.checkers:
            checker.written(name, slot, row)

    def tamper(self, name: TableName, slot: Token, row: Row | None) -> None:
        """Change a row, take it away or put one there, as somebody at the target does."""
        table = self.database.tables[name]
        self.tampered[name] = None
        table.drop(slot)
        if row is not None:
            table.put(slot, row)
        for checker in self.checkers:
            checker.tampered(name, slot, row)

    def make_first(self, entry: Entry) -> None:
        """Make the change of a statement that has not come yet, as somebody at the target does."""
        assert entry.reshape is not None
        carry_out(self.database, entry.reshape)
        for checker in self.checkers:
            checker.made_first(entry)
        self.stored.flush()

    def pass_statement(self, ddl: Ddl) -> None:
        """Pass a statement that halted the feed, as an operator does."""
        pass_statement(self.stored, ddl)

    # ------------------------------------------------------------------ what happens by itself

    def go_on(self, chance: Random) -> None:
        """Let something that is under way go on, if it can."""
        orders, works = len(self._orders), self.works
        at = int(chance.random() * (orders + len(works)))
        if at < orders:
            self._orders.carry_out(at)
        elif works:
            self._work_on(works[at - orders])

    def forget(self) -> None:
        """Crash, and come back with what was on the disk; connections are gone too."""
        self.stored.crash()
        self._drop_works()
        self.stored.lose_staged()
        self._orders.drop()

    def lose_connections(self) -> None:
        """Roll back all that is under way; nobody is told so for certain."""
        self._drop_works()
        self._orders.drop()
