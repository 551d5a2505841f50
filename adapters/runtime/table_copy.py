"""Shows the progress of one table's copy: as a line, as a bar, as figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from rich.table import Table

BAR_WIDTH: Final = 30


class TableCopy(msgspec.Struct, frozen=True):
    """The progress of a copy by its chunks: `merged` of all `chunks` are at the target for good, `reading` and `staged`
    ones on the way there.

    `rows`: merged in `seconds`, from the first read that was seen to the last merge.  `found`, `before`: chunks and
    rows that were merged when looking began.
    """

    table: str
    chunks: int
    merged: int = 0
    reading: int = 0
    staged: int = 0
    rows: int = 0
    seconds: float = 0.0
    found: int = 0
    before: int = 0

    @property
    def done(self) -> bool:
        """Tells whether all chunks are merged."""
        return self.merged == self.chunks

    @property
    def rows_per_second(self) -> float:
        """Rows merged per second, as far as it was seen."""
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the copy is done at the present rate; None while nothing was merged."""
        seen = self.merged - self.found
        return (self.chunks - self.merged) * self.seconds / seen if seen else None

    def __str__(self) -> str:
        parts = [f"{self.merged:,} of {self.chunks:,} chunks", f"{self.before + self.rows:,} rows"]
        parts += [f"{self.rows_per_second:,.0f} rows/s"] if self.rows else []
        parts += [f"{_clock(self.seconds_left)} left"] if self.seconds_left is not None and not self.done else []
        return f"{self.table} {', '.join(parts)}"


def summary(copies: Sequence[TableCopy]) -> str:
    """Returns a few words on copies under way; '' where there is none."""
    under_way = [copy for copy in copies if not copy.done]
    if len(under_way) < 2:
        return "".join(f"copying {copy}" for copy in under_way)
    merged, chunks = (sum(getattr(copy, name) for copy in under_way) for name in ("merged", "chunks"))
    rows = sum(copy.before + copy.rows for copy in under_way)
    return f"copying {len(under_way)} tables, {merged:,} of {chunks:,} chunks, {rows:,} rows"


def bars(copies: Sequence[TableCopy]) -> Table:
    """Returns a bar for each table; its lighter part is on the way."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for copy in copies:
        full = BAR_WIDTH * copy.merged // copy.chunks
        coming = -(-BAR_WIDTH * (copy.merged + copy.reading + copy.staged) // copy.chunks) - full
        bar = Text.assemble(("━" * full, "green"), ("━" * coming, "yellow"), ("━" * (BAR_WIDTH - full - coming), "dim"))
        left = copy.seconds_left
        said = "copied" if copy.done else "" if left is None else f"{_clock(left)} left"
        rate = f"{copy.rows_per_second:,.0f} rows/s" if copy.rows else ""
        rows = f"{copy.before + copy.rows:,} rows"
        grid.add_row(copy.table, bar, f"{copy.merged:,}/{copy.chunks:,} chunks", rows, rate, said)
    return grid


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
