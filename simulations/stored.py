"""The store of the simulated target, and the part of it that a crash leaves."""

from __future__ import annotations

from typing import Any

import msgspec

from tidelock.engine.model.records import Position, Row, TableName
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.steps import ParkedRow
from tidelock.simulations.checkers.checker import Checker
from tidelock.simulations.faults import Faults
from tidelock.simulations.ledger import Ledger
from tidelock.simulations.log_entry import Place
from tidelock.simulations.model import Database


class State(msgspec.Struct):
    """Database and bookkeeping.  `wished`: an operator does not change his mind here, so what was done can be told."""

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
    """State of a target, whose changes the checkers see.

    `staged`: rows of chunks, by attempt.  `wanted`: keys of rows that an operator wants repaired.
    """

    def __init__(self, database: Database, ledger: Ledger, faults: Faults) -> None:
        self.state = State(database, ledger.history.start, {}, {}, {})
        self.ledger = ledger
        self.checkers: tuple[Checker, ...] = ()
        self.staged: dict[EffectId, list[Row]] = {}
        self.wanted: dict[TableName, dict[Row, None]] = {}
        self._faults = faults
        self._disk: tuple[State, Any, list[Any]] | None = None  # what would survive a crash of the target

    @property
    def database(self) -> Database:
        """Rows of the target."""
        return self.state.database

    @property
    def durable(self) -> Position:
        """The checkpoint that a crash of the target leaves."""
        return self._disk[0].checkpoint if self._disk is not None else self.state.checkpoint

    def told(self, what: str) -> None:
        """Count what happened here."""
        self._faults.seen(what)

    def advance(self, position: Position, drop: tuple[EffectId, ...]) -> None:
        """Store a checkpoint and drop receipts that it covers."""
        state = self.state
        dropped = {id_: state.receipts[id_] for id_ in drop if id_ in state.receipts}
        for checker in self.checkers:
            checker.saved(state.checkpoint, position, dropped)
        state.checkpoint = position
        for id_ in drop:
            state.receipts.pop(id_, None)

    def empty(self, name: TableName) -> None:
        """Drop what is parked for a table, as its rows go."""
        parked = self.state.parked
        for place in [p for p, (row, _) in parked.items() if (row.schema, row.table) == (name.schema, name.table)]:
            del parked[place]
            self.ledger.emptied[place] = None

    # ------------------------------------------------------------------ the disk

    def begin_at(self, place: Position) -> None:
        """Store the place where the log begins, with what proves it."""
        self.state.checkpoint = place
        self.flush()

    def flush(self) -> None:
        """All that is committed reaches the disk."""
        if "forgotten" in self._faults.weights:
            self._disk = (self.state.copy(), self.ledger.freeze(), [checker.freeze() for checker in self.checkers])

    def flush_by_chance(self) -> None:
        """All that is committed reaches the disk, or not yet."""
        if self._disk is not None and self._faults.chance.random() < 0.1:
            self.flush()

    def crash(self) -> None:
        """Come back with what was on the disk: commits that were reported are gone."""
        assert self._disk is not None
        state, ledger, memories = self._disk
        lost = len(self.state.receipts) - len(state.receipts)
        self._faults.seen("target forgot commits" if lost > 0 else "target restarted")
        self._faults.forgot = True
        self.state = state.copy()
        self.ledger.thaw(ledger)
        for checker, memory in zip(self.checkers, memories, strict=True):
            checker.thaw(memory)

    def lose_staged(self) -> None:
        """Some tables of staged rows are short of a row, as they are not written to the log of the database."""
        for attempt in [attempt for attempt in self.staged if self._faults.chance.random() < 0.5]:
            self.staged[attempt] = self.staged[attempt][1:]
