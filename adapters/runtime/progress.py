"""Shows a running feed to people: one `Sample`, on a terminal, as plain lines or as JSON lines."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Final, Literal, Protocol, TextIO, TypeAlias

import msgspec

from tidelock.adapters.config.former_words import share
from tidelock.adapters.ports.capture_messages import LOG, prepared_for
from tidelock.adapters.ports.slot_state import SlotState
from tidelock.adapters.runtime.table_copy import TableCopy, bars, summary

if TYPE_CHECKING:
    from rich.console import RenderableType

RunState: TypeAlias = Literal["starting", "running", "caught up", "paused", "held", "draining", "halted", "reserve"]
STATES: Final[tuple[RunState, ...]] = (
    *("starting", "running", "caught up", "paused", "held", "draining", "halted", "reserve"),
)
PLAIN_SECONDS = 5.0
LIVE_SECONDS = 0.1
BAR_WIDTH = 40


class Hindered(msgspec.Struct, frozen=True):
    """Work that is tried again and again at the source, the target or a log in Kafka: for how many seconds, and the
    last failure's words.
    """

    at: Literal["source", "target", "log"]
    seconds: float
    message: str

    def __str__(self) -> str:
        return f"waits for the {self.place} for {self.seconds:.0f} s: {self.message}"

    @property
    def place(self) -> str:
        """Returns the place in words."""
        return LOG if self.at == "log" else self.at


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A feed at one moment.

    - `state`: `reserve` is a worker that is ready and has no group, because there are more workers than groups.
    - `rows_total`, `batches_total`, `lock_waits_total`, `retries_total`, `replaced_total`, `restarts`: since this
      process started.
    - `conflicts`: with other sites, that were decided since this process started: type, outcome, how many.
    - `fenced_total`: writes of a worker that a newer owner's fence rejected.
    - `lag_seconds`: source commit time of what is committed, behind the source's clock; None: nothing seen yet.
    - `lanes`: rows queued and running, per lane.
    - `locks_held`: locks that are held or waited for.
    - `failed_rows`: row changes that are set aside now; `parked_rows` is the former name.
    - `position`: the checkpoint.
    - `alarm`: why it halted.
    - `prepared`: a transaction that the source has prepared and not decided for `prepared_seconds`, which is long; its
      rows come when it is committed.
    - `copies`: of tables that are being copied, or have been since this process started.
    - `source_silent_seconds`, `target_silent_seconds`: how long they have not answered.
    - `unreachable`: which of them has not answered for longer than the feed's `ready_seconds`, in words; '' where both
      have.
    - `hindrances`: work that is tried again, from its second second on.
    - `held`: why a feed with a permit or a throttle applies nothing just now; '' while it does, or without one.
    - `slot`: of a source that keeps its log for this feed alone; None: there is none, or it was not asked yet.
    """

    state: RunState = "starting"
    rows_total: int = 0
    rows_per_second: float = 0.0
    lag_seconds: float | None = None
    lanes: tuple[int, ...] = ()
    lock_waits_total: int = 0
    locks_held: int = 0
    failed_rows: int = 0
    batches_total: int = 0
    position: str = ""
    alarm: str | None = None
    retries_total: int = 0
    replaced_total: int = 0
    conflicts: tuple[tuple[str, str, int], ...] = ()
    restarts: int = 0
    fenced_total: int = 0
    copies: tuple[TableCopy, ...] = ()
    prepared: str = ""
    prepared_seconds: float = 0.0
    source_silent_seconds: float = 0.0
    target_silent_seconds: float = 0.0
    unreachable: str = ""
    hindrances: tuple[Hindered, ...] = ()
    slot: SlotState | None = None
    parked_rows: int = 0
    held: str = ""

    def __post_init__(self) -> None:
        share(self, failed_rows="parked_rows")


class Progress(Protocol):
    """A receiver of samples.  `update` may be called as often as the caller likes; the receiver decides what is shown.
    """

    def update(self, sample: Sample) -> None:
        """Takes the newest sample."""

    def message(self, text: str) -> None:
        """Shows a message."""

    def error(self, text: str) -> None:
        """Shows, on stderr, why the run ends."""

    def close(self) -> None:
        """Shows the last sample, and ends."""


def progress_on(stream: TextIO, name: str, json: bool = False) -> Progress:
    """Returns the receiver that suits `stream`: JSON lines on request, a live view on a terminal, else plain lines."""
    if json:
        return JsonLines(stream)
    return LiveView(name) if stream.isatty() and stream is sys.stdout else PlainLines(stream, name)


class Paced:
    """Lets a sample through when enough time has passed or the state changed; keeps the last one held back."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.held: Sample | None = None
        self._state = ""
        self._due = 0.0

    def due(self, sample: Sample) -> bool:
        """Returns whether to show this sample now."""
        now = time.monotonic()
        if sample.state == self._state and now < self._due:
            self.held = sample
            return False
        self.held, self._state, self._due = None, sample.state, now + self.seconds
        return True


def print_on(stream: TextIO, line: str) -> None:
    """Prints a line.  A reader that is gone ends the telling and not the run."""
    with contextlib.suppress(BrokenPipeError):
        print(line, file=stream, flush=True)


def print_error(line: str) -> None:
    """Prints a line on stderr, if that still has a reader."""
    print_on(sys.stderr, line)


class JsonLines:
    """Prints one JSON object a line: `{"sample": …}` or `{"message": …}`."""

    def __init__(self, stream: TextIO, seconds: float = 1.0) -> None:
        self._stream = stream
        self._paced = Paced(seconds)

    def update(self, sample: Sample) -> None:
        """Prints the sample, if it is due."""
        if self._paced.due(sample):
            self._write({"sample": sample})

    def message(self, text: str) -> None:
        """Prints a message."""
        self._write({"message": text})

    def error(self, text: str) -> None:
        """Prints an error."""
        print_error(msgspec.json.encode({"error": text}).decode())

    def close(self) -> None:
        """Prints the last sample."""
        if self._paced.held:
            self._write({"sample": self._paced.held})
            self._paced.held = None

    def _write(self, line: dict[str, Sample | str]) -> None:
        print_on(self._stream, msgspec.json.encode(line).decode())


class PlainLines:
    """Prints a line every few seconds, for logs."""

    def __init__(self, stream: TextIO, name: str, seconds: float = PLAIN_SECONDS) -> None:
        self._stream = stream
        self._name = name
        self._paced = Paced(seconds)

    def update(self, sample: Sample) -> None:
        """Prints the sample, if it is due."""
        if self._paced.due(sample):
            self.message(one_line(sample))

    def message(self, text: str) -> None:
        """Prints a message."""
        print_on(self._stream, f"{self._name}: {text}")

    def error(self, text: str) -> None:
        """Prints an error."""
        print_error(f"{self._name}: {text}")

    def close(self) -> None:
        """Prints the last sample."""
        if self._paced.held:
            self.message(one_line(self._paced.held))
            self._paced.held = None


class LiveView:
    """Draws a view in place: the totals, and a bar of waiting rows per lane."""

    def __init__(self, name: str) -> None:
        # Here and not at the top: rich costs more than the rest of a start, and only terminals need it.
        from rich.live import Live

        self._name = name
        self._paced = Paced(LIVE_SECONDS)
        self._live = Live(auto_refresh=False, transient=False)
        self._fullest = 1
        self._live.start()

    def update(self, sample: Sample) -> None:
        """Draws the sample, if it is due."""
        if self._paced.due(sample):
            self._draw(sample)

    def message(self, text: str) -> None:
        """Prints a message above the view."""
        self._live.console.print(f"{self._name}: {text}", markup=False, highlight=False)

    def error(self, text: str) -> None:
        """Prints an error: above the view, where stderr is the same terminal."""
        if sys.stderr.isatty():
            self.message(text)
        else:
            print_error(f"{self._name}: {text}")

    def close(self) -> None:
        """Draws the last sample, and leaves it on the terminal."""
        if self._paced.held:
            self._draw(self._paced.held)
            self._paced.held = None
        self._live.stop()

    def _draw(self, sample: Sample) -> None:
        self._fullest = max(self._fullest, *sample.lanes, 1)
        self._live.update(live_view(self._name, sample, self._fullest), refresh=True)


def one_line(sample: Sample) -> str:
    """Returns the sample in words, without counters that are zero and only matter otherwise."""
    parts = [
        sample.state,
        _rows(sample),
        f"{_rate(sample):,.0f} rows/s",
        f"lag {_lag(sample)}",
    ]
    parts += [f"{sum(sample.lanes):,} rows in {len(sample.lanes)} lanes"] if any(sample.lanes) else []
    parts += [f"{sample.failed_rows:,} failed rows"] if sample.failed_rows else []
    parts += [f"{sample.retries_total:,} retries"] if sample.retries_total else []
    parts += [f"{sample.restarts:,} restarts"] if sample.restarts else []
    parts += [f"at {sample.position}"] if sample.position else []
    parts += [text] if (text := summary(sample.copies)) else []
    parts += [_prepared(sample)] if sample.prepared else []
    parts += [f"holds: {sample.held}"] if sample.held else []
    parts += map(str, sample.hindrances)
    parts += [text] if (text := _slot_warning(sample)) else []
    parts += [sample.alarm] if sample.alarm else []
    return ", ".join(parts)


def live_view(name: str, sample: Sample, fullest: int) -> RenderableType:
    """Returns the view.  `fullest`: the longest lane seen so far, in rows, which fills a whole bar."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    colours = {"halted": "red", "starting": "cyan", "reserve": "cyan"}
    colours |= dict.fromkeys(("paused", "held", "draining"), "yellow")
    colour = colours.get(sample.state, "green")
    title = Text.assemble((name, "bold"), "  ", (sample.state, colour), f"  {sample.position}")
    totals = Text(
        f"{_rows(sample)}   {_rate(sample):,.0f} rows/s   lag {_lag(sample)}   "
        f"{sample.batches_total:,} batches   {sample.locks_held:,} locks   {sample.lock_waits_total:,} waits"
    )
    trouble = Text(
        f"{sample.failed_rows:,} failed rows   {sample.retries_total:,} retries   {sample.restarts:,} restarts",
        style="yellow" if sample.failed_rows else "dim",
    )
    lanes = Table.grid(padding=(0, 1))
    for number, rows in enumerate(sample.lanes):
        length = -(-rows * BAR_WIDTH // fullest)
        lanes.add_row(Text(f"lane {number:>2}", style="dim"), Text("━" * length, style=colour), Text(f"{rows:,}"))
    slot = [Text(f"slot {sample.slot}", style="yellow" if sample.slot.warning else "dim")] if sample.slot else []
    alarm = [Text(_prepared(sample), style="yellow")] if sample.prepared else []
    alarm += [Text(f"holds: {sample.held}", style="yellow")] if sample.held else []
    alarm += [Text(str(one), style="yellow") for one in sample.hindrances]
    alarm += [Text(sample.alarm, style="red")] if sample.alarm else []
    copies = [bars(sample.copies)] if any(not copy.done for copy in sample.copies) else []
    return Group(title, totals, trouble, *slot, lanes, *copies, *alarm)


def _rows(sample: Sample) -> str:
    """Returns the rows since the process started, copied ones too."""
    copied = sum(copy.rows for copy in sample.copies)
    return f"{sample.rows_total + copied:,} rows" + (f" ({copied:,} of them copied)" if copied else "")


def _rate(sample: Sample) -> float:
    return sample.rows_per_second + sum(copy.rows_per_second for copy in sample.copies if not copy.done)


def _prepared(sample: Sample) -> str:
    return prepared_for(sample.prepared, sample.prepared_seconds)


def _slot_warning(sample: Sample) -> str:
    return sample.slot.warning if sample.slot is not None else ""


def _lag(sample: Sample) -> str:
    return "unknown" if sample.lag_seconds is None else f"{sample.lag_seconds:.1f} s"
