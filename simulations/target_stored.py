"""What the simulated target stores: its rows, receipts, checkpoint and failed rows; what of it a crash leaves.

What is committed is there at once.  It survives a crash of the target only once it was flushed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import Position, Row, TableName
from tidelock.engine.protocol.effects import EffectId, ParkedRow
from tidelock.engine.protocol.events import ParkedKey
from tidelock.simulations.checkers.checker import Checker
from tidelock.simulations.faults import Faults
from tidelock.simulations.history import Place
from tidelock.simulations.ledger import Ledger
from tidelock.simulations.model import Database


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


class Stored:
    """The state of now and the one on the disk, with the epoch that fences owners out."""

    def __init__(self, database: Database, ledger: Ledger, faults: Faults) -> None:
        self.state = State(database, ledger.history.start, {}, {}, {})
        self.ledger = ledger
        self.faults = faults
        self.checkers: tuple[Checker, ...] = ()
        self.epoch = 0
        self.staged: dict[EffectId, list[Row]] = {}  # by attempt
        self.wanted: dict[TableName, dict[Row, None]] = {}  # keys of rows that an operator wants repaired
        self._disk: tuple[State, Any, list[Any]] | None = None  # what would survive a crash of the target
        self._reported: dict[int, dict[EffectId, None]] = {}  # by owner: commits it was told of since it last saved

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

    def wishes(self, *, every: bool = False) -> list[ParkedKey]:
        return [
            ParkedKey(*place, TableName(row.schema, row.table), row.change, wish)
            for place, (row, wish) in reversed(self.parked.items())  # in no order that means anything
            if wish or every
        ]

    # ------------------------------------------------------------------ owners and what they know

    def fenced(self, owner: int, epoch: int) -> Failure | None:
        """Returns why this owner may not write: it was taken over, or something is lost that it was told of."""
        if epoch != self.epoch:
            self.faults.seen("zombie rejected")
            return Failure(ErrorKind.FENCED, "a newer owner has the feed")
        if self.faults.forgot and any(id_ not in self.state.receipts for id_ in self._reported.get(owner, ())):
            self.faults.seen("owner of a target that forgot is told so")
            return Failure(ErrorKind.COMMITS_LOST, "the target has forgotten commits that it had reported")
        return None

    def reported(self, owner: int, id_: EffectId) -> None:
        """Notes that an owner hears of a commit."""
        self._reported.setdefault(owner, {})[id_] = None

    # ------------------------------------------------------------------ what is stored by an order

    def save(self, owner: int, position: Position, drop: tuple[EffectId, ...]) -> None:
        self.advance(position, drop)
        self._reported.pop(owner, None)
        self.flush()

    def advance(self, position: Position, drop: tuple[EffectId, ...]) -> None:
        state = self.state
        dropped = {id_: state.receipts[id_] for id_ in drop if id_ in state.receipts}
        for checker in self.checkers:
            checker.saved(state.checkpoint, position, dropped)
        state.checkpoint = position
        for id_ in drop:
            state.receipts.pop(id_, None)

    def empty(self, name: TableName) -> None:
        """Drop what is parked for a table, as its rows go."""
        for place in [p for p, (row, _) in self.parked.items() if (row.schema, row.table) == (name.schema, name.table)]:
            del self.parked[place]
            self.ledger.emptied[place] = None

    # ------------------------------------------------------------------ a target that forgets

    def flush(self) -> None:
        """All that is committed reaches the disk."""
        if "forgotten" in self.faults.weights:
            self._disk = (self.state.copy(), self.ledger.freeze(), [checker.freeze() for checker in self.checkers])

    def go_back(self) -> None:
        """Takes what was on the disk for the state of now; the rest is gone."""
        assert self._disk is not None
        state, ledger, memories = self._disk
        lost = len(self.state.receipts) - len(state.receipts)
        self.faults.seen("target forgot commits" if lost > 0 else "target restarted")
        self.faults.forgot = True
        self.state = state.copy()
        self.ledger.thaw(ledger)
        for checker, memory in zip(self.checkers, memories, strict=True):
            checker.thaw(memory)
        for attempt in [attempt for attempt in self.staged if self.faults.chance.random() < 0.5]:
            self.staged[attempt] = self.staged[attempt][1:]

    def flush_by_chance(self) -> None:
        if self._disk is not None and self.faults.chance.random() < 0.1:
            self.flush()
