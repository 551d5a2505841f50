"""States of a feed's coordinator.

                 ┌──── statement refused, or tried again ────┐
    Flowing ─▶ AtBarrier ─▶ Running ─▶ [Unparking] ─▶ [Storing] ─▶ Sealing ─▶ Flowing       a statement of the log
    Flowing ─▶ Draining ─────────────▶ [Unparking] ─▶ [Storing] ─▶ Flowing                  a new plan without one

The states in brackets are passed through where they have something to do.  `told` is the word that the feed's state is
announced with (`FeedState.state`), which others read.
"""

from __future__ import annotations

import enum
from typing import ClassVar, TypeAlias

import msgspec

from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import Ddl
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.coordinator_messages import PassStatement, RunStatement
from tidelock.engine.protocol.group_reports import Statement


class Refusal(msgspec.Struct, frozen=True):
    """The target refused the statement.  `votes`: with which it was run (group to epoch)."""

    statement: Statement
    votes: dict[int, int]
    message: str


class Barrier(msgspec.Struct, frozen=True):
    """The statement that the log ends with.  `emptied`: tables that it emptied, once it has run."""

    ddl: Ddl
    statement: Statement
    emptied: tuple[TableName, ...] = ()

    @property
    def end(self) -> Position:
        """The place in the log behind the statement."""
        return self.statement.end


class Starting(msgspec.Struct, frozen=True):
    """The feed is not taken over yet."""

    told: ClassVar[str] = "starting"


class Flowing(msgspec.Struct, frozen=True):
    """Rows flow."""

    told: ClassVar[str] = "running"


class Draining(msgspec.Struct, frozen=True):
    """The publisher waits at its start; every checkpoint must come to the log's end, for a new plan."""

    told: ClassVar[str] = "draining for a new plan"


class AtBarrier(msgspec.Struct, frozen=True):
    """The log ends with a statement: every group must drain before it and vote for it.

    `refusal`: of the last run; the statement runs again once a group has voted anew.  `run_after`: it runs no earlier
    than this, in microseconds.
    """

    told: ClassVar[str] = "draining before a statement"
    barrier: Barrier
    refusal: Refusal | None = None
    run_after: int = 0


class Running(msgspec.Struct, frozen=True):
    """The statement runs, or is passed, at the target: `effect`."""

    told: ClassVar[str] = "running a statement"
    barrier: Barrier
    effect: RunStatement | PassStatement
    refusal: Refusal | None = None


class Storing(msgspec.Struct, frozen=True):
    """The plan is on its way to the control topic.  `barrier`: the statement that has run, if there was one."""

    told: ClassVar[str] = "storing the plan"
    plan: TablePartitioning
    barrier: Barrier | None = None


class Sealing(msgspec.Struct, frozen=True):
    """The statement has passed; every group's checkpoint must come to be at or past it."""

    told: ClassVar[str] = "passing a statement"
    barrier: Barrier


class Unparking(msgspec.Struct, frozen=True):
    """A table would leave a group that has parked rows: an operator must retry or skip them before."""

    told: ClassVar[str] = "waiting for parked rows of a table that moves to another group"
    barrier: Barrier | None = None


class Halted(msgspec.Struct, frozen=True):
    """An operator is needed."""

    told: ClassVar[str] = "halted"
    alarm: Alarm
    refusal: Refusal | None = None


class Ousted(msgspec.Struct, frozen=True):
    """A newer coordinator has the feed."""

    told: ClassVar[str] = "ousted"


class Publisher(enum.Enum):
    """GOING: it reads the log.  HELD: started to say where the log ends, and to wait there.  WAITING: for `GoOn`."""

    GOING = "going"
    HELD = "held"
    WAITING = "waiting"


CoordinatorState: TypeAlias = (
    Starting | Flowing | Draining | AtBarrier | Running | Storing | Sealing | Unparking | Halted | Ousted
)


def barrier_of(state: CoordinatorState) -> Barrier | None:
    """The statement that the log ends with, if it does."""
    match state:
        case AtBarrier() | Running() | Storing() | Sealing() | Unparking():
            return state.barrier
        case _:
            return None


def refusal_of(state: CoordinatorState) -> Refusal | None:
    """The refusal that is to be announced, if the target refused the statement."""
    return state.refusal if isinstance(state, AtBarrier | Running | Halted) else None
