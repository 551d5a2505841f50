"""Shows a fleet: a table in place on a terminal, else lines under the names of the feeds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TextIO

from tidelock.adapters.fleet.member import Member
from tidelock.adapters.runtime.progress import PlainLines, Sample, print_on

if TYPE_CHECKING:
    from rich.console import RenderableType


class Screen(Protocol):
    """Shows a fleet."""

    def show(self, members: Iterable[Member]) -> None:
        """Shows all feeds as they are now."""

    def say(self, name: str, text: str) -> None:
        """Shows a line; `name`: '' for what is about all feeds."""

    def close(self) -> None:
        """Ends the showing."""


def screen_on(stream: TextIO) -> Screen:
    """Returns the screen that suits the stream."""
    return TableScreen() if stream.isatty() else LineScreen(stream)


class LineScreen:
    """Lines for logs: what feeds say, and every few seconds how each is."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: dict[str, PlainLines] = {}

    def show(self, members: Iterable[Member]) -> None:
        """Prints the feeds that are due."""
        for one in members:
            if one.sample is not None:
                self._lines.setdefault(one.name, PlainLines(self._stream, one.name)).update(one.sample)

    def say(self, name: str, text: str) -> None:
        """Prints a line."""
        print_on(self._stream, f"{name}: {text}" if name else text)

    def close(self) -> None:
        """Ends."""


class TableScreen:
    """A table of all feeds, drawn in place, with what they say above it."""

    def __init__(self) -> None:
        from rich.live import Live

        self._live = Live(auto_refresh=False, transient=False)
        self._live.start()

    def show(self, members: Iterable[Member]) -> None:
        """Draws the table."""
        self._live.update(table(members), refresh=True)

    def say(self, name: str, text: str) -> None:
        """Prints a line above the table."""
        self._live.console.print(f"{name}: {text}" if name else text, markup=False, highlight=False)

    def close(self) -> None:
        """Leaves the table on the terminal."""
        self._live.stop()


def table(members: Iterable[Member]) -> RenderableType:
    """Returns the table: one line a feed."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for name in ("feed", "state", "lag", "rows/s", "rows", "failed", "starts", ""):
        shown.add_column(name, justify="left" if name in ("feed", "state", "") else "right", overflow="fold")
    for one in members:
        state, colour = _state(one)
        cells = ("", "", "", "") if one.sample is None else _figures(one.sample)
        said = _trouble(one)
        shown.add_row(one.name, Text(state, style=colour), *cells, str(one.starts), Text(said, style=colour))
    return shown


def _state(one: Member) -> tuple[str, str]:
    if one.state != "runs":
        return one.state, "yellow" if one.state in ("ends", "waits", "stopped") else "red"
    state = one.sample.state if one.sample is not None else "starting"
    return state, {"running": "green", "caught up": "green", "halted": "red"}.get(state, "yellow")


def _figures(sample: Sample) -> tuple[str, ...]:
    lag = "unknown" if sample.lag_seconds is None else f"{sample.lag_seconds:.1f} s"
    failed = f"{sample.failed_rows:,}" if sample.failed_rows else ""
    return lag, f"{sample.rows_per_second:,.0f}", f"{sample.rows_total:,}", failed


def _trouble(one: Member) -> str:
    """Returns the few words that an operator should read of a feed; '' where all is well."""
    if one.sample is None:
        return "" if one.state == "runs" else one.words
    sample = one.sample
    parts = [*map(str, sample.hindrances), *([sample.unreachable] if sample.unreachable else [])]
    parts += [f"holds: {sample.held}"] if sample.held else []
    return "; ".join(parts)
