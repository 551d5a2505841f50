"""Back-pressure: a long backlog, and a target that stands still for a while, then dies and comes back.

The feed flows; the target's processes are stopped (SIGSTOP: connections stay, nothing answers); they go on; the target
is killed and started again on its data; the feed catches up, to the last row.  All the while the resident memory of
each of tidelock's processes is sampled, and the lag that the feed's metrics page tells.  What should be seen: memory
flat, also while nothing moves; a lag that grows by a second a second while nothing moves; no spike afterwards.

A marker row, committed last at the source, tells when the end is near: its lane may be ahead of the others by a window.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from bench.growth.ground import MARIADB, MEMORY_LIMIT_MB, OURS, Ground, highest, of_source, thinned, tree
from bench.growth.narrow import LEDGER, NOTE_BYTES, Narrow
from bench.harness.polling import Polling
from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.place import free_port
from bench.harness.tidelock import Process, metrics
from bench.harness.usage import Usage, group
from bench.outcome import Outcome

STILL_SECONDS: Final = 10.0
CATCH_UP_SECONDS: Final = 1800.0
POLL_SECONDS: Final = 0.25
STOP_AT: Final = 0.2
KILL_AT: Final = 0.5
LAG_TOLERANCE: Final = 0.2
MARKER_ID: Final = -1
STOPPED: Final = "stopped"
Span: TypeAlias = tuple[str, float, float, int]  # a phase's name, beginning and end in seconds, rows at its end


@dataclasses.dataclass(frozen=True)
class Phase:
    """`rows`: committed at its end, as told.  `lag`: seconds as told at its beginning and end; `lag_grew`: seconds a
    second between.  None where unknown."""

    name: str
    begun: float
    ended: float
    rows: int
    tree_mb: float
    peak_mb: dict[str, float]
    lag: tuple[float | None, float | None]
    lag_grew: float | None

    @property
    def seconds(self) -> float:
        return self.ended - self.begun


@dataclasses.dataclass(frozen=True)
class Passed:
    changes: int
    lanes: int
    differences: int
    tree_mb: float
    phases: list[Phase]
    curves: dict[str, list[tuple[float, float]]] = dataclasses.field(repr=False)
    lag: list[tuple[float, float | None]] = dataclasses.field(repr=False)


class Watch(Polling):
    """Context manager: the lag and the rows that the metrics page at `address` tells, with seconds since the start."""

    def __init__(self, address: str) -> None:
        super().__init__("watch", POLL_SECONDS)
        self.lag: list[tuple[float, float | None]] = []
        self.rows = 0.0
        self._address = address
        self._begun = time.monotonic()

    @property
    def now(self) -> float:
        return time.monotonic() - self._begun

    def look(self) -> None:
        """Reads the page, where it answers."""
        if page := metrics(self._address):
            self.rows = page["tidelock_rows_total"]
            self.lag.append((self.now, page.get("tidelock_lag_seconds")))

    def between(self, begun: float, ended: float) -> list[tuple[float, float]]:
        """(seconds, lag), without the samples where it was unknown."""
        return [(at, lag) for at, lag in self.lag if lag is not None and begun <= at <= ended]


class Trial:
    """One feed under a stopped and a killed target.  `still_seconds`: how long each of the two lasts."""

    def __init__(self, ground: Ground, still_seconds: float) -> None:
        self._target, self._still_seconds = ground.target, still_seconds
        self._changes = ground.changes
        self._rig: Rig = ground.fresh()
        self._rig.options["http"] = f"127.0.0.1:{free_port()}"
        self.spans: list[Span] = []

    def run(self) -> tuple[Usage, Watch]:
        """Raises TidelockFailed where the feed ends before it should, AssertionError where it does not get on."""
        rig = self._rig
        process = rig.run()
        with Usage(lambda: {"run": process.pid}) as usage, Watch(rig.options["http"]) as watch:
            with self._span("flowing", watch):
                self._until_rows(process, watch, STOP_AT)
            with self._span(STOPPED, watch), _stopped(self._target):
                self._still(process)
            with self._span("flowing again", watch):
                self._until_rows(process, watch, KILL_AT)
            with self._span("killed", watch):
                self._target.kill()
                self._still(process)
                self._target.start()
            with self._span("catching up", watch):
                self._until(process, self._marked, "the last row at the target")
        process.stop()
        return usage, watch

    @contextlib.contextmanager
    def _span(self, name: str, watch: Watch) -> Iterator[None]:
        begun = watch.now
        yield
        self.spans.append((name, begun, watch.now, int(watch.rows)))
        print(f"{name}: {watch.now - begun:.1f} s, {watch.rows:,.0f} rows", flush=True)

    def _until_rows(self, process: Process, watch: Watch, share: float) -> None:
        self._until(process, lambda: watch.rows >= share * self._changes, f"{share:.0%} of the rows")

    def _until(self, process: Process, reached: Callable[[], bool], what: str) -> None:
        def true() -> bool:
            process.check()
            return reached()

        until(true, what, CATCH_UP_SECONDS)

    def _still(self, process: Process) -> None:
        """The feed must outlive it."""
        deadline = time.monotonic() + self._still_seconds
        while time.monotonic() < deadline:
            process.check()
            time.sleep(POLL_SECONDS)

    def _marked(self) -> bool:
        return bool(self._target.execute(f"SELECT 1 FROM {self._rig.schema}.{LEDGER} WHERE id = {MARKER_ID}"))


@contextlib.contextmanager
def _stopped(server: Server) -> Iterator[None]:
    """None of its processes runs meanwhile."""
    pids = group(server.pid)

    def tell(number: signal.Signals) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # a worker of its own that has ended
                os.kill(pid, number)

    tell(signal.SIGSTOP)
    try:
        yield
    finally:
        tell(signal.SIGCONT)


def passed(
    changes: int,
    still_seconds: float = STILL_SECONDS,
    lanes: int = 8,
    note_bytes: int = NOTE_BYTES,
    source: str = MARIADB,
) -> tuple[Passed, Outcome]:
    """One trial; the feed then catches up for good, and both ends are compared."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-pressure-")))
        ground = Ground("pressure", changes, Narrow(note_bytes), changes, folder, source=source, lanes=lanes)
        stack.enter_context(ground)
        outcome = Outcome(of_source("growth-pressure", source), ground.servers)
        ground.rig.at_source(f"INSERT INTO {LEDGER} VALUES ({MARKER_ID}, 0, 'the last')")
        print(f"{changes:,} changes loaded", flush=True)
        trial = Trial(ground, still_seconds)
        usage, watch = trial.run()
        ground.rig.reconnect()
        ground.rig.options.pop("http")
        ground.rig.catch_up()
        curves = {**{name: usage.curve(name) for name in OURS}, "tree": tree(usage)}
        result = Passed(
            changes=changes,
            lanes=lanes,
            differences=ground.differences(),
            tree_mb=round(highest(curves["tree"]), 1),
            phases=[_phase(span, curves, watch) for span in trial.spans],
            curves={name: thinned(points) for name, points in curves.items()},
            lag=[(round(at, 1), lag) for at, lag in watch.lag[::4]],
        )
    return result, outcome


def _phase(span: Span, curves: dict[str, list[tuple[float, float]]], watch: Watch) -> Phase:
    name, begun, ended, rows = span
    held = {of: round(highest([p for p in points if begun <= p[0] <= ended]), 1) for of, points in curves.items()}
    lag = watch.between(begun, ended)
    return Phase(
        name=name,
        begun=round(begun, 1),
        ended=round(ended, 1),
        rows=rows,
        tree_mb=held.pop("tree"),
        peak_mb=held,
        lag=(lag[0][1], lag[-1][1]) if lag else (None, None),
        lag_grew=round((lag[-1][1] - lag[0][1]) / (lag[-1][0] - lag[0][0]), 2) if len(lag) > 1 else None,
    )


def missed(found: Passed) -> list[str]:
    """List what should have been seen and was not."""
    lines = []
    if found.differences:
        lines.append(f"{found.differences} rows differ")
    if found.tree_mb > MEMORY_LIMIT_MB:
        lines.append(f"the process tree held {found.tree_mb:.0f} MB, {MEMORY_LIMIT_MB:.0f} may be")
    grew = next(phase.lag_grew for phase in found.phases if phase.name == STOPPED)
    if grew is not None and abs(grew - 1.0) > LAG_TOLERANCE:
        lines.append(f"the lag grew by {grew} seconds a second while the target stood still")
    return lines
