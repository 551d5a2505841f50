"""Progress of a campaign: two bars on a terminal, else a line every few seconds, or nothing for JSON."""

from __future__ import annotations

import sys
import time
from typing import Protocol

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tidelock.simulations.campaign import Tally
from tidelock.simulations.shrink import Shrinker

PLAIN_SECONDS = 5.0


class Screen(Protocol):
    def ran(self, tally: Tally) -> None: ...

    def shrunk(self, shrinker: Shrinker) -> None: ...

    def close(self) -> None: ...


def screen_for(seeds: int, *, json: bool) -> Screen:
    """The way that suits standard output."""
    if json:
        return Silent()
    return LiveScreen(seeds) if sys.stdout.isatty() else PlainScreen(seeds)


class Silent:
    def ran(self, tally: Tally) -> None:
        """Nobody asked."""

    def shrunk(self, shrinker: Shrinker) -> None:
        """Nobody asked."""

    def close(self) -> None:
        """Nothing is held back."""


class LiveScreen:
    """Redrawn in place, and gone at the end."""

    def __init__(self, seeds: int) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            transient=True,
        )
        self._seeds = self._progress.add_task("seeds", total=seeds, facts="")
        self._progress.start()
        self._seconds = self._progress.add_task("shrinking", total=None, visible=False, facts="")

    def ran(self, tally: Tally) -> None:
        failed = f", [red]{tally.failed:,} failed[/red]" if tally.failed else ""
        self._progress.update(self._seeds, completed=tally.runs, facts=f"{tally.rate:,.0f} a second{failed}")

    def shrunk(self, shrinker: Shrinker) -> None:
        self._progress.update(
            self._seconds,
            completed=min(int(shrinker.spent), int(shrinker.seconds)),
            total=int(shrinker.seconds),
            visible=True,
            facts=_size(shrinker),
        )

    def close(self) -> None:
        self._progress.stop()


class PlainScreen:
    """For logs and pipes."""

    def __init__(self, seeds: int) -> None:
        self._total = seeds
        self._due = time.monotonic() + PLAIN_SECONDS

    def ran(self, tally: Tally) -> None:
        failed = f", {tally.failed:,} failed" if tally.failed else ""
        self._say(f"{tally.runs:,} of {self._total:,} seeds, {tally.rate:,.0f} a second{failed}")

    def shrunk(self, shrinker: Shrinker) -> None:
        self._say(f"shrinking: {_size(shrinker)}")

    def close(self) -> None:
        """Nothing is held back."""

    def _say(self, text: str) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + PLAIN_SECONDS
            print(f"  {text}", flush=True)


def _size(shrinker: Shrinker) -> str:
    best = shrinker.best
    return f"{best.changes:,} row changes in {len(best.transactions):,} transactions ({shrinker.tried:,} runs)"
