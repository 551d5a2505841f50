"""Status of the apply machine, for progress, metrics and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from tidelock.engine.model.errors import Hindrance
from tidelock.engine.model.records import Position


class ApplyStatus(msgspec.Struct, frozen=True):
    """`position`: everything up to there is committed; `saved`: the checkpoint at the target.  `end_us`: when the last
    transaction that is committed was, at the source, in microseconds since the epoch; 0: not known.

    `lanes`: rows under way, by lane.  `rows`, `batches`, `retries`, `lock_waits`, `replaced` (rows of the target that
    made room for others), `conflicts` (decided, by type and outcome): since the takeover.  `parked`: rows that wait for
    an operator.  `hindrances`: what is tried again, by the end that hinders.
    """

    position: Position
    saved: Position
    end_us: int
    paused: bool
    lanes: tuple[int, ...]
    rows: int
    batches: int
    retries: int
    locks: int
    lock_waits: int
    parked: int
    hindrances: Mapping[Literal["source", "target"], Hindrance]
    replaced: int = 0
    conflicts: Mapping[tuple[str, str], int] = {}
