"""The settings of an apply machine."""

from __future__ import annotations

import msgspec

from tidelock.engine.model.records import TableName


class Options(msgspec.Struct, frozen=True):
    """`window_rows`: how many rows are planned at once.  `room_rows`: rows taken from the log and not yet committed.
    `room_bytes`: about what all of them, and those that wait for more of their tables, take in memory.  In atomic mode
    a transaction that does not fit is applied as it comes (`streaming`).
    `fill_rows`: rows of a window that a lane gets before another takes part; 0: all lanes take part.
    `gather_rows`: while the log is behind, a table waits until it has so many changes, or for `gather_us`, or while no
    more than twelve `room_rows` and half of `room_bytes` do; 0: none waits.
    `commit_bound_us`: how long the head of the commit order may wait before all later open transactions are rolled
    back.
    `stream_idle_us`: how long a transaction that is applied as it comes stays open at the target while nothing more of
    it arrives.
    `copy_reads`: chunks that are read or wait for their merge at once.  `copy_touched`: rows remembered for them.
    `locking`: off only in the test that shows what the locks are for."""

    lanes: int = 8
    batch_rows: int = 1000
    fill_rows: int = 0
    atomic: bool = False
    window_rows: int = 4000
    room_rows: int = 8000
    room_bytes: int = 32 << 20
    gather_rows: int = 0
    gather_us: int = 4_000_000
    checkpoint_us: int = 500_000
    idle_checkpoint_us: int = 10_000_000
    commit_bound_us: int = 1_000_000
    stream_idle_us: int = 30_000_000
    weights: dict[TableName, int] = {}
    locking: bool = True
    copy_reads: int = 4
    copy_touched: int = 200_000

    @property
    def whole_lanes(self) -> int:
        """Tables of many that stay whole in a window share so many lanes: as two windows fill, which are under way at
        least while the log is behind."""
        return min(self.lanes, 2 * -(-self.window_rows // self.fill_rows)) if self.fill_rows else self.lanes

    @property
    def gather_limit(self) -> int:
        """So many rows may wait for more of their tables."""
        return 12 * self.room_rows
