"""The simulated target: carries out the apply machine's effects as `engine.protocol.effects` documents them, late and
in any order, and answers, or fails, or leaves in doubt, or forgets.

A batch is QUEUED, then OPEN (its statements are done, its locks held), then committed (`target_batches`).  Checkpoints,
statements and beginnings of copies are orders (`target_orders`).  Both change what is stored (`target_stored`).
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tidelock.engine.model.records import Ddl, Row, TableName
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
from tidelock.engine.protocol.events import Receipt, TakenOver
from tidelock.simulations.checkers import ALL
from tidelock.simulations.faults import Faults
from tidelock.simulations.layout import Token
from tidelock.simulations.ledger import Ledger, Mistake
from tidelock.simulations.model import Database
from tidelock.simulations.target_batches import Batches
from tidelock.simulations.target_orders import Orders
from tidelock.simulations.target_stored import Stored
from tidelock.simulations.target_work import Post, Work


class Target(Stored):
    """What is stored, with batches and orders that are under way."""

    def __init__(self, database: Database, ledger: Ledger, faults: Faults, *, atomic: bool, whole: bool, strict: bool):
        """`strict`: two open batches in conflict are a mistake; else one fails, as after a lock timeout."""
        super().__init__(database, ledger, faults)
        self.image = False  # its rows are compared
        self.tampered: dict[TableName, None] = {}
        self._orders = Orders(self)
        self._batches = Batches(self, self._orders, strict=strict)
        self.checkers = tuple(c(ledger, self, atomic=atomic, whole=whole) for c in ALL)
        self.flush()

    @property
    def works(self) -> list[Work]:
        return self._batches.works

    @property
    def opened(self) -> Counter[EffectId]:
        return self._batches.opened

    # ------------------------------------------------------------------ what machines ask for

    def asked(self, effect: ReadChunk) -> None:
        for checker in self.checkers:
            checker.asked(effect)

    def merge(self, owner: int, effect: MergeChunk, post: Post) -> None:
        self._batches.merge(owner, effect, post)

    def apply(self, owner: int, effect: ApplyBatch, post: Post) -> None:
        self._batches.apply(owner, effect, post)

    def piece(self, owner: int, effect: ApplyPiece, post: Post) -> None:
        self._batches.piece(owner, effect, post)

    def commit(self, owner: int, effect: CommitBatch, post: Post) -> None:
        self._batches.commit(owner, effect, post)

    def roll_back(self, owner: int, effect: RollbackBatch, post: Post) -> None:
        self._batches.roll_back(owner, effect, post)

    def order(self, owner: int, effect: SaveCheckpoint | ApplyDdl | BeginCopy | FindRefused, post: Post) -> None:
        if isinstance(effect, ApplyDdl | BeginCopy) and any(work.owner == owner for work in self.works):
            raise Mistake("a schema change runs beside a batch")
        self._orders.add(owner, effect, post)

    def take_over(self) -> TakenOver:
        """Raise the epoch once older transactions are gone, commit, then read."""
        self.epoch += 1
        self._batches.taken_over()
        self._orders.taken_over()
        self.flush()
        state = self.state
        held = tuple(Receipt(id_, covered) for id_, covered in sorted(state.receipts.items()))
        wishes = tuple(self.wishes(every=True))
        return TakenOver(
            self.epoch, state.checkpoint, held, wishes, self.database.specs, state.ddl_passed, chunks=self.ledger.told()
        )

    def chunk_merge(self, id_: EffectId) -> tuple[MergeChunk, list[Row]]:
        """The merge that was sent under this id, and what is staged for it."""
        effect = self._batches.chunk_merge(id_)
        return effect, self.staged.get(effect.staged, [])

    # ------------------------------------------------------------------ others write at the target

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

    def pass_statement(self, ddl: Ddl) -> None:
        """The operator changes the target by hand, if it needs that, and says `tidelock ddl done`."""
        self._orders.pass_statement(ddl)

    # ------------------------------------------------------------------ what happens by itself

    def go_on(self, chance: Random) -> None:
        """Something that is under way goes on, if it can."""
        at = int(chance.random() * (len(self._orders) + len(self.works)))
        if at < len(self._orders):
            self._orders.carry_out(at)
        elif self.works:
            self._batches.work_on(self.works[at - len(self._orders)])

    def forget(self) -> None:
        """Crash and come back with what was on the disk: commits that were reported are gone, connections too."""
        self.go_back()
        self._batches.lost()
        self._orders.lost()
