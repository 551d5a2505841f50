"""Base of a checker: it watches commits, checkpoints, statements and machines, and raises `Mistake`.

Each file beside this one holds one property.  A checker knows the source's log, the target and what the target was told
to do; what it knows of the engine, if anything, is its public state.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec

from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.model.records import Position, Row, TableName
from tidelock.engine.protocol.effects import ApplyBatch, ApplyPiece, BeginCopy, EffectId, MergeChunk, ReadChunk
from tidelock.simulations.layout import Token
from tidelock.simulations.ledger import Images, Ledger
from tidelock.simulations.log_entry import Entry, Place
from tidelock.simulations.model import Database

if TYPE_CHECKING:
    from tidelock.simulations.target import Target


class Commit(msgspec.Struct):
    """A batch that the target has just committed.  `places`: what its receipt covers.  `applied`: in log order, what it
    wrote, parked rows that are tried again included; `images`: the same as rows of the target.  `retried`, `skipped`:
    the parked rows it took out; `parked`: those it put in.  `before`: the database before it, only where it parks
    something.  `touched`: tables it wrote to."""

    effect: ApplyBatch
    places: list[Place]
    applied: list[Place]
    images: list[Images]
    retried: list[Place]
    skipped: list[Place]
    parked: list[Place]
    before: Database | None
    touched: tuple[TableName, ...]


class Checker:
    """Does nothing; a checker overrides what it watches.  `whole`: the target must end as the source is."""

    def __init__(self, ledger: Ledger, target: Target, *, atomic: bool, whole: bool) -> None:
        self.ledger = ledger
        self.target = target
        self.atomic = atomic
        self.whole = whole

    def sent(self, effect: ApplyBatch) -> None:
        """A batch reaches the target."""

    def sent_piece(self, effect: ApplyPiece) -> None:
        """A piece of a transaction that is applied as it comes reaches the target."""

    def refused_piece(self, effect: ApplyPiece, error: str) -> None:
        """The target cannot carry it out; what was in the transaction before still is."""

    def refused(self, effect: ApplyBatch, error: str) -> None:
        """The target cannot carry the batch out; nothing has changed."""

    def committed(self, commit: Commit) -> None:
        """The ledger is up to date already."""

    def saved(self, old: Position, new: Position, dropped: dict[EffectId, bytes]) -> None:
        """A checkpoint is stored, and these receipts are gone with it."""

    def asked(self, effect: ReadChunk) -> None:
        """A machine wants a chunk read."""

    def merged(self, effect: MergeChunk) -> None:
        """A chunk's rows are in place; the commit that did it is told next."""

    def copy_begun(self, effect: BeginCopy) -> None:
        """Tables are empty and are copied from their first row on."""

    def statement(self, entry: Entry) -> None:
        """A statement is about to take effect at the target, or an operator declares it done."""

    def statement_done(self, entry: Entry) -> None:
        """It has taken effect."""

    def made_first(self, entry: Entry) -> None:
        """Somebody at the target has made the change of a statement that has not come yet."""

    def written(self, name: TableName, slot: Token, row: Row) -> None:
        """Somebody at the target has written to a column of its own."""

    def tampered(self, name: TableName, slot: Token, row: Row | None) -> None:
        """Somebody at the target has changed a row that is the feed's."""

    def stepped(self, machine: ApplyMachine) -> None:
        """A machine has taken a step."""

    def finished(self, machine: ApplyMachine) -> None:
        """The faults have stopped and the last owner says that it has caught up."""

    def freeze(self) -> dict[str, Any]:
        """Returns a copy of what it remembers, for a target that may forget."""
        return {name: copy.copy(value) for name, value in self.memory().items()}

    def thaw(self, frozen: dict[str, Any]) -> None:
        """The target has forgotten all since `freeze`."""
        for name, value in frozen.items():
            setattr(self, name, copy.copy(value))

    def memory(self) -> dict[str, Any]:
        """Returns what must be forgotten with the target."""
        return {name: value for name, value in vars(self).items() if name.startswith("_seen")}
