"""Messages between the publisher process and its parent: frames of `adapters.process.frames`, over one socket pair.

To the process: its `PublishOrder` first, then a `PublishOn` for each `AtStatement`, and `Stored`
(`adapters.ports.capture_messages`) for a checkpoint that every group has stored or passed, and a `FormsKept` for each
`Learned`, without which it does not go on.  From it: `Published` and
`AtStatement`, in between `Unanswered` and `Learned`, and last of all a `Failed`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.capture_messages import CaptureOrder
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema_change import Ddl
from tidelock.engine.model.table_partitioning import TablePartitioning

PUBLISHED: Final = 0x50
AT_STATEMENT: Final = 0x53
SHORT: Final = "Short"
"""The kind of a `Failed` whose message is the log's end, which is before a place that all groups have reached."""


class PublishOrder(msgspec.Struct, frozen=True):
    """The order.

    `capture`: how to read the source.  Its `start` holds only while no record was ever committed (normally
    `plan.position`, or the feed's checkpoint if retention has emptied the log); else the log's end does, which is not
    before it, nor before the place `reached` by all groups (`SHORT`).  `log`: where
    Kafka is; holds a password, so it travels over the socket pair only.  `topic`: the changes topic, which has at least
    `plan.partitions` partitions.  `transactional_id`: the same for all publishers of the feed: it fences.
    `skipped`: records that an operator passed over (partition, offset).  `bases`: by partition, where the log begins.
    `flush_bytes`, `flush_ms`: a transaction holds at most so much, and waits at most so long for more while busy.
    """

    capture: CaptureOrder
    log: Endpoint
    topic: str
    transactional_id: str
    plan: TablePartitioning
    flush_bytes: int = 8 << 20
    flush_ms: int = 50
    skipped: tuple[tuple[int, int], ...] = ()
    bases: tuple[int, ...] = ()
    reached: Position | None = None


class PublishOn(msgspec.Struct, frozen=True, tag=True):
    """Tells that the statement has passed everywhere: publish on, under this plan."""

    plan: TablePartitioning


class FormsKept(msgspec.Struct, frozen=True, tag=True):
    """Tells that the forms of the last `Learned` are kept."""


class Published(msgspec.Struct, frozen=True):
    """Tells that every partition of the log now ends at `position`, committed.  Sent a few times a second, and first of
    all at the start, with where the log ended.

    `rows`: rows published since the last report, by target table.  `end_us`: source time of `position` in microseconds
    (0: unknown).
    """

    position: Position
    rows: dict[TableName, int]
    end_us: int = 0


class AtStatement(msgspec.Struct, frozen=True):
    """Tells that `ddl` is committed as the last record of every partition, which end at `position`.  Nothing is
    published until `PublishOn`.  Sent again by each new process until something was published behind it.
    """

    position: Position
    ddl: Ddl
