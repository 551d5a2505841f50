"""Events and effects of a feed's coordinator, as data.

The rest of its vocabulary is shared: `GroupReport` (engine.protocol.group_reports) is an event, a statement's answer
is `DdlApplied` or `DdlFailed`, the publisher's end is `SourceFailed`; `Halt` and `StepDown` mean what they mean to an
apply machine.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.schema_change import Ddl
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.effects import EffectId, Halt, StepDown
from tidelock.engine.protocol.events import DdlApplied, DdlFailed, SourceFailed, Tick
from tidelock.engine.protocol.group_reports import FeedState, GroupReport


class FeedTaken(msgspec.Struct, frozen=True):
    """Event: the feed is ours, with what was read after our epoch was committed and older coordinators were shut out
    of the topic.

    `start`: where the log begins if there is no plan yet.  `partitions`: how many the feed asks for; 0: one for each
    group of tables, at most eight.  `tables`: of the target, as they are now.  `ddl_passed`: (source, number) of the
    last statement that has passed.  `feed`: what the coordinator before us announced last.
    """

    epoch: int
    worker: str
    start: Position
    tables: dict[TableName, TargetTable]
    partitions: int = 0
    ddl_passed: tuple[str, int] | None = None
    plan: TablePartitioning | None = None
    feed: FeedState | None = None
    reports: tuple[GroupReport, ...] = ()


class LogGrew(msgspec.Struct, frozen=True):
    """The log ends at `end`, committed; `rows`: how many of each table came with it."""

    end: Position
    rows: dict[TableName, int] = {}


class StatementReached(msgspec.Struct, frozen=True):
    """The log ends with this statement at `end`, and the publisher waits."""

    ddl: Ddl
    end: Position


class PlanStored(msgspec.Struct, frozen=True):
    """Event: the plan of this version is in the control topic and cannot be lost."""

    version: int


class StorePlan(msgspec.Struct, frozen=True):
    """Write the plan to the control topic.  Answer: PlanStored, once it cannot be lost."""

    plan: TablePartitioning


class StartPublisher(msgspec.Struct, frozen=True):
    """Start the publisher anew, in the place of any before; it goes on where the log ends, or at `start` where that
    holds nothing any more.

    `hold`: it says where that is (LogGrew) and waits; at a statement it always waits (StatementReached).
    """

    plan: TablePartitioning
    start: Position
    hold: bool = False


class GoOn(msgspec.Struct, frozen=True):
    """The waiting publisher goes on, with this plan."""

    plan: TablePartitioning


class RunStatement(msgspec.Struct, frozen=True):
    """Run the statement at the target, in a transaction that finds every group at the epoch of its vote: `votes`, group
    to epoch.  Answers: DdlApplied, or DdlFailed (TRANSIENT also where a vote no longer holds)."""

    id: EffectId
    ddl: Ddl
    end: Position
    votes: dict[int, int]


class PassStatement(msgspec.Struct, frozen=True):
    """The statement has passed already: note it and read the tables.  Answers: DdlApplied or DdlFailed."""

    id: EffectId
    ddl: Ddl
    end: Position


class Announce(msgspec.Struct, frozen=True):
    """Tell everyone.  The shell fills in the time, and how the source is."""

    feed: FeedState


CoordinatorEvent: TypeAlias = (
    FeedTaken | GroupReport | LogGrew | StatementReached | PlanStored | DdlApplied | DdlFailed | SourceFailed | Tick
)
CoordinatorEffect: TypeAlias = (
    StorePlan | StartPublisher | GoOn | RunStatement | PassStatement | Announce | Halt | StepDown
)
