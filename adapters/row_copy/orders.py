"""Messages between the process that reads for a copy and its parent: msgpack in frames over a socket pair.

The first frame is a `Begin` with the feed, which holds passwords: it travels over that socket only.  Every order but
`StopOrder` has one answer with its `number`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ports.sink import Wanted
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.protocol.effects import EffectId, ReadChunk
from tidelock.engine.protocol.events import ChunkStaged

ANSWER = 0x41


class Begin(msgspec.Struct, frozen=True):
    """The first message."""

    feed: Feed


class PlanOrder(msgspec.Struct, frozen=True, tag=True):
    """Asks how to split what is queued.  `tables`: those of the target that exist.  Answers: Planned or Unplanned.

    `group`, here and below: the feed's table group, for the names of staging tables; attempts count in each anew.
    """

    group: int
    number: int
    wanted: tuple[Wanted, ...]
    tables: tuple[TargetTable, ...]


class ReadOrder(msgspec.Struct, frozen=True, tag=True):
    """Asks to read and stage a chunk of `table`.  Answers: ReadDone or Unread."""

    group: int
    number: int
    effect: ReadChunk
    table: TargetTable


class StopOrder(msgspec.Struct, frozen=True, tag=True):
    """Tells that this attempt is over: given up, or merged."""

    group: int
    attempt: EffectId


class Planned(msgspec.Struct, frozen=True, tag=True):
    """Answers a Plan with the splits."""

    number: int
    splits: tuple[ChunkSplit, ...]


class Unplanned(msgspec.Struct, frozen=True, tag=True):
    """Answers a Plan that cannot be had, with the reason."""

    number: int
    alarm: Alarm


class ReadDone(msgspec.Struct, frozen=True, tag=True):
    """Answers a Read whose rows are staged."""

    number: int
    event: ChunkStaged


class Unread(msgspec.Struct, frozen=True, tag=True):
    """Answers a Read that failed.  `why`: for the operator; '' where the attempt was stopped."""

    number: int
    why: str


CopyOrder: TypeAlias = PlanOrder | ReadOrder | StopOrder
CopyAnswer: TypeAlias = Planned | Unplanned | ReadDone | Unread
