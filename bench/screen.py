"""Screen of the demo, which tells what it does: bars that are drawn again in place, or lines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tidelock.adapters.runtime.table_copy import TableCopy, bars

PLAIN_SECONDS = 5.0


class Screen(Protocol):
    def say(self, text: str) -> None: ...

    def update(self, committed: int, replicated: int, copies: Sequence[TableCopy]) -> None: ...

    def close(self) -> None: ...


class LiveScreen:
    """A bar for each table that is copied, and two for what changes."""

    def __init__(self, changes: int, source: str, target: str) -> None:
        self._changes = changes
        self._progress = Progress(
            TextColumn("{task.description:<23}"),
            BarColumn(),
            TextColumn("{task.completed:>9,.0f} rows"),
            TimeElapsedColumn(),
        )
        self._committed = self._progress.add_task(f"committed in {source}", total=changes)
        self._replicated = self._progress.add_task(f"applied to {target}", total=changes)
        self._live = Live(self._progress, transient=True)
        self._live.start()

    def say(self, text: str) -> None:
        self._live.console.print(text)

    def update(self, committed: int, replicated: int, copies: Sequence[TableCopy]) -> None:
        self._changes = max(self._changes, committed)
        self._progress.update(self._committed, completed=committed, total=self._changes)
        self._progress.update(self._replicated, completed=replicated, total=self._changes)
        self._live.update(Group(bars(copies), self._progress), refresh=True)

    def close(self) -> None:
        self._live.stop()


class PlainScreen:
    """A line every few seconds, for logs and pipes.  `line`: what it says of the two numbers."""

    def __init__(self, source: str, target: str, line: str = "") -> None:
        self._due = 0.0
        self._line = line or f"{{:,}} row changes committed in {source}, {{:,}} applied to {target}"

    def say(self, text: str) -> None:
        print(text, flush=True)

    def update(self, committed: int, replicated: int, copies: Sequence[TableCopy]) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + PLAIN_SECONDS
        self.say(f"  {self._line.format(committed, replicated)}")
        for copy in copies:
            if not copy.done:
                self.say(f"    {copy}")

    def close(self) -> None:
        """Nothing is held back."""
