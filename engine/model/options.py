"""The settings of an apply machine.

Journals hold them by their stored names (`_STORED`), so that each version reads what older ones recorded.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tidelock.engine.model.conflict_options import CommitClock, Direction, TableWords
from tidelock.engine.model.records import TableName
from tidelock.engine.model.stamp_columns import StampColumns

_STORED: Final = {
    "min_rows_per_lane": "fill_rows",
    "max_in_flight_rows": "room_rows",
    "max_in_flight_bytes": "room_bytes",
    "coalesce_rows": "gather_rows",
    "linger_us": "gather_us",
}


class Options(msgspec.Struct, frozen=True, rename=_STORED):
    """Settings of an apply machine: how much it takes, plans and sends at once, and how long it waits.

    Rows and bytes that are taken and not committed:
    `window_rows`: rows that are planned at once.
    `max_in_flight_rows`: rows taken from the log and not yet committed.
    `max_in_flight_bytes`: about what all of them, and those that wait for more of their tables, take in memory.  In
    atomic mode a transaction that does not fit is applied as it comes (`apply.streaming`).

    Lanes and batches:
    `lanes`: batches that are at the target at once.  `batch_rows`: rows of a batch.
    `min_rows_per_lane`: rows of a window that a lane gets before another takes part; 0: all lanes take part.
    `atomic`: with `consistency: transaction`.  `weights`: observed rows by table; 1 where there are none.

    Tables that wait for more of their changes, while the log is behind (`log.coalescer`):
    `coalesce_rows`: a table waits until it has so many changes; 0: none waits.
    `linger_us`: microseconds that it waits at most (Kafka's producers have `linger.ms`).

    Microseconds:
    `checkpoint_us`: from one checkpoint to the next while rows flow.  `idle_checkpoint_us`: the same without rows,
    unless so many bytes of the log have passed (`idle_checkpoint_bytes`; 0: however many).
    `commit_bound_us`: how long the head of the commit order may wait before all later open transactions are rolled
    back.
    `stream_idle_us`: how long a transaction that is applied as it comes stays open at the target while nothing more
    of it arrives.

    Copies:
    `copy_reads`: chunks that are read or wait for their merge at once.  `copy_touched`: rows remembered for them.

    Rows that somebody else writes at the target (`batch.checked_steps`):
    `verify`: what a change is compared with there before it is written.  `versions`: by table, the column that
    `version` goes by.  `replace`: a row that holds a unique value which another row is to have is deleted.
    `left_behind`: tables whose target may hold rows of which the feed has not been told since, as it takes fewer.

    Conflicts of two sites (`two_way`):
    `direction`: of a feed that has an arbiter.  `policies`: by table; a feed that goes down takes the groups of columns
    from them.  `clock`: of a feed that goes up, whose commits may be compared.  `stamp`: columns that decide where
    there is no arbiter.

    `locking`: off only in the test that shows what the locks are for.
    """

    lanes: int = 8
    batch_rows: int = 1000
    min_rows_per_lane: int = 0
    atomic: bool = False
    window_rows: int = 4000
    max_in_flight_rows: int = 8000
    max_in_flight_bytes: int = 32 << 20
    coalesce_rows: int = 0
    linger_us: int = 4_000_000
    checkpoint_us: int = 500_000
    idle_checkpoint_us: int = 10_000_000
    idle_checkpoint_bytes: int = 0
    commit_bound_us: int = 1_000_000
    stream_idle_us: int = 30_000_000
    weights: dict[TableName, int] = {}
    verify: Literal["off", "image", "version"] = "off"
    versions: dict[TableName, str] = {}
    replace: bool = False
    left_behind: tuple[TableName, ...] = ()
    direction: Direction = "none"
    policies: dict[TableName, TableWords] = {}
    stamp: StampColumns | None = None
    clock: CommitClock | None = None
    locking: bool = True
    copy_reads: int = 4
    copy_touched: int = 200_000

    @property
    def whole_lanes(self) -> int:
        """Number of lanes that share the tables that stay whole in a window of many: as many as two windows fill,
        since two are under way at least while the log is behind."""
        if not self.min_rows_per_lane:
            return self.lanes
        return min(self.lanes, 2 * -(-self.window_rows // self.min_rows_per_lane))

    @property
    def coalesce_limit(self) -> int:
        """Number of rows that may wait for more of their tables, before those that waited longest leave."""
        return 12 * self.max_in_flight_rows
