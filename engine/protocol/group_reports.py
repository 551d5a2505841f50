"""Reports that the parts of a scaled-out feed give each other through its control topic: plain data, the newest by
key counts.

Reports carry the epoch of the owner that wrote them, and readers ignore those of an owner before one they have seen:
a zombie may still write here, where no fence stops it.
"""

from __future__ import annotations

import msgspec

from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Position, TableName


class Statement(msgspec.Struct, frozen=True, array_like=True):
    """A statement in the log: its identity (`Ddl.source`, `Ddl.number`) and the position after it."""

    source: str
    number: int
    end: Position


class GroupReport(msgspec.Struct, frozen=True):
    """State of one group, by its owner.  Key `group/<n>`.

    `resolved`: everything at or below it is committed.  `checkpoint`: the same, and stored at the target for good.
    `vote`: the statement that the group has drained before, with all that was committed durable; None while rows
    flow.
    `hindrance`: what is tried again and again, and why, in words.
    `log`: number of the log that it reads (`protocol.published_log`); `lacks`: where it stands, if that log has nothing
    that follows there.
    `end_us`: source time of `resolved` (0: unknown).  `at_us`: the worker's clock.  Both microseconds since the epoch.
    """

    group: int
    epoch: int
    worker: str
    state: str
    resolved: Position
    checkpoint: Position
    vote: Statement | None = None
    rows: int = 0
    parked: int = 0
    fenced: int = 0
    end_us: int = 0
    at_us: int = 0
    alarm: Alarm | None = None
    hindrance: str = ""
    log: int = 0
    lacks: Position | None = None


class Vacancy(msgspec.Struct, frozen=True):
    """Why a part of the feed has nobody, by the worker that is to have it.  Key `vacant/<part>`.

    `part`: `feed`, which nobody coordinates, or the number of a group.  `why`: what keeps the worker from it, tried
    again and again; '' once nothing does.  `at_us`: the worker's clock, microseconds since the epoch.
    """

    part: str
    worker: str
    why: str
    at_us: int


class FeedState(msgspec.Struct, frozen=True):
    """State of the whole feed, by its coordinator.  Key `feed`.

    `epoch`: the coordinator's.  `resolved`, `checkpoint`: the least of its groups', never back.  `published`: the end
    of the log.  `passed`: the last statement that has run (or that the operator passed); `emptied`: the tables that it
    emptied.  `refused`: the statement that the target refused, with which votes (group to epoch), and why.
    `prepared`: a transaction that the source has prepared and not decided for long; `prepared_since`: when it did, in
    seconds since the epoch.  `hindrance`: why the source's log is not read on just now, though that is tried again and
    again; `silent_seconds`: for how long nothing has come of it, where something was wanted.
    `tables`: tells the `tables` of the coordinator's file from others.
    """

    epoch: int
    worker: str
    state: str
    plan: int
    resolved: Position
    checkpoint: Position
    published: Position
    passed: Statement | None = None
    emptied: tuple[TableName, ...] = ()
    refused: Statement | None = None
    refused_votes: dict[int, int] = {}
    refusal: str = ""
    at_us: int = 0
    alarm: Alarm | None = None
    prepared: str = ""
    prepared_since: int = 0
    hindrance: str = ""
    silent_seconds: float = 0.0
    tables: str = ""
