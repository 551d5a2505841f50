"""Workers of a feed over Kafka, each in a process of its own, under a supervisor that starts them anew.

A worker has a place: its name and its log stay, its processes come and go.  The supervisor does what a service manager
would (`Restart=always`, `RestartSec=1`): a process that ended is started again, one that was killed here when it is
due, one that was stopped here not at all.  Signals go to the worker and its children, unless said otherwise.
"""

from __future__ import annotations

import dataclasses
import operator
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import Postgres
from bench.harness.session import connect
from bench.harness.tidelock import Process
from bench.harness.watching import Watch
from tidelock.adapters.config.loader import load
from tidelock.engine.model.records import Position
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.group_reports import FeedState, GroupReport, Statement

POLL_SECONDS: Final = 0.05
RESTART_SECONDS: Final = 1.0
STOP_SECONDS: Final = 30.0
CATCH_UP_SECONDS: Final = 120.0
COPY_SECONDS: Final = 180.0
LOG_TAIL_CHARACTERS: Final = 6000


@dataclasses.dataclass
class Place:
    """`due`: when its process is to run (again), by the monotonic clock; None: it is not to run.

    `ends`: exit codes of the processes that ended, whoever ended them.
    """

    name: str
    output: Path
    process: Process | None = None
    due: float | None = None
    ends: list[int] = dataclasses.field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.running

    def said(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""


class Workers:
    """Context manager: inside, every worker that was started is kept running."""

    def __init__(self, rig: Rig, names: Sequence[str] = ("w1", "w2", "w3")) -> None:
        self.rig = rig
        self.places = {name: Place(name, rig.folder / f"{rig.name}-{name}.log") for name in names}
        self.watch = Watch(load(rig.feed))
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    def __enter__(self) -> Self:
        self.watch.__enter__()
        self._supervisor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._supervisor.join()
        self.watch.__exit__(kind, error, trace)
        for place in self.places.values():
            if place.process is not None and place.running:
                place.process.kill()

    def _supervise(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            with self._lock:
                for place in self.places.values():
                    self._look(place)

    def _look(self, place: Place) -> None:
        if place.process is not None and not place.running:
            place.ends.append(place.process.code(1.0))
            place.process = None
            place.due = place.due and max(place.due, time.monotonic() + RESTART_SECONDS)
        if place.process is None and place.due is not None and time.monotonic() >= place.due:
            place.process = Process(["worker", str(self.rig.feed), "--name", place.name], place.output)

    # ------------------------------------------------------------------ what is done to them

    def start(self, *names: str) -> None:
        """Start those of `names`, or all; they are kept running from now on."""
        with self._lock:
            for name in names or self.places:
                self.places[name].due = time.monotonic()
                self._look(self.places[name])

    def stop(self, *names: str) -> list[int]:
        """SIGTERM to each of `names` (or all that run) and to no child; they stay down.  Returns their exit codes."""
        ended = [self._release(name) for name in names or self.places]
        processes = [process for process in ended if process is not None]
        for process in processes:
            os.kill(process.pid, signal.SIGTERM)
        return [process.code(STOP_SECONDS) for process in processes]

    def _release(self, name: str) -> Process | None:
        with self._lock:
            place = self.places[name]
            process, place.process, place.due = place.process, None, None
            return process if process is not None and process.running else None

    def end(self, name: str, *, back_after: float) -> None:
        """SIGTERM to `name` and to no child, and no wait for its end; started again after `back_after` seconds."""
        with self._lock:
            place = self.places[name]
            place.due = time.monotonic() + back_after
            if place.process is not None and place.running:
                os.kill(place.process.pid, signal.SIGTERM)

    def second(self, name: str) -> Process:
        """Start another worker with the name of one that runs."""
        return Process(["worker", str(self.rig.feed), "--name", name], self.rig.folder / f"second-{name}.log")

    def terminate(self, name: str) -> Process:
        """SIGTERM as `stop` sends it, without waiting for the end; it stays down."""
        process = self._release(name)
        assert process is not None, f"{name} does not run\n{self.said()}"
        os.kill(process.pid, signal.SIGTERM)
        return process

    def restart(self, name: str) -> None:
        """In order, one at a time: what an upgrade does."""
        self.stop(name)
        self.start(name)

    def kill(self, name: str, *, back_after: float | None = 0.0, alone: bool = False) -> None:
        """SIGKILL; started again after `back_after` seconds, or not at all.  `alone`: its children must notice."""
        with self._lock:
            place = self.places[name]
            place.due = None if back_after is None else time.monotonic() + back_after
            process = place.process
            if process is None or not process.running:
                return
            os.kill(process.pid, signal.SIGKILL) if alone else process.kill()
            place.ends.append(process.code(5.0))
            place.process = None

    def freeze(self, name: str) -> None:
        """SIGSTOP, also to its children."""
        self._process(name).signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self._process(name).signal(signal.SIGCONT)

    def _process(self, name: str) -> Process:
        process = self.places[name].process
        assert process is not None, f"{name} does not run\n{self.said()}"
        return process

    def work_off(self, seconds: float = CATCH_UP_SECONDS) -> float:
        """One worker beside them, until the feed has caught up; how long that took.  Raises TidelockFailed."""
        begun = time.perf_counter()
        process = Process(["worker", str(self.rig.feed), "--until-caught-up"], self.rig.output)
        try:
            process.wait(seconds)
        finally:
            if process.running:
                process.kill()
        return time.perf_counter() - begun

    def copy_anew(self) -> None:
        """End all, and do what `adapters.process.way_out.COPY_ANEW` says, to the letter; workers may go on from there,
        in a `Workers` of their own.  Raises TidelockFailed, and AssertionError where the copy is not exact."""
        self.stop()
        said = tidelock("resync", str(self.rig.feed), "--yes", seconds=COPY_SECONDS)
        assert said.code == 0, said
        self.work_off(COPY_SECONDS)
        self.rig.assert_exact()

    # ------------------------------------------------------------------ what they say

    @property
    def pids(self) -> dict[str, int]:
        """Of those that run, by name."""
        with self._lock:
            return {name: place.process.pid for name, place in self.places.items() if place.process is not None}

    @property
    def state(self) -> FeedState | None:
        return self.watch.seen.state

    @property
    def reports(self) -> dict[int, GroupReport]:
        """The newest of each group."""
        return dict(self.watch.seen.groups)

    @property
    def owners(self) -> dict[int, str]:
        """Group → the worker that owns it."""
        return {number: report.worker for number, report in self.reports.items()}

    @property
    def coordinator(self) -> str:
        return self.state.worker if self.state is not None else ""

    @property
    def plan(self) -> TablePartitioning | None:
        return self.watch.seen.plan

    @property
    def passed(self) -> Statement | None:
        """The last statement that has run."""
        return self.state.passed if self.state is not None else None

    @property
    def restarts_of_their_own(self) -> dict[str, list[int]]:
        """Exit codes of workers that ended and were not killed, by name."""
        ends = {name: [code for code in place.ends if code >= 0] for name, place in self.places.items()}
        return {name: codes for name, codes in ends.items() if codes}

    @property
    def fenced(self) -> int:
        """Writes that a newer owner's fence rejected, as the workers' own logs tell them."""
        return sum(place.said().count("a write was rejected") for place in self.places.values())

    def said(self) -> str:
        """The end of every worker's log."""
        return "\n".join(
            f"--- {place.name} (ended {place.ends})\n{place.said()[-LOG_TAIL_CHARACTERS:]}"
            for place in self.places.values()
        )

    # ------------------------------------------------------------------ until

    def checkpoint_reached(self, goal: Position) -> bool:
        """Tells whether the feed's checkpoint is at or past `goal`."""
        state = self.state
        return state is not None and state.checkpoint.order >= goal.order

    def until(self, true: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        """Raises AssertionError, with the workers' logs, if `true` stays false."""
        try:
            until(true, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.watch.seen}\n{self.said()}") from None

    def until_caught_up(self, seconds: float = CATCH_UP_SECONDS) -> None:
        """Until the feed's checkpoint has passed what the source has now."""
        goal = self.rig.place()
        if isinstance(self.rig.source, Postgres):
            self.until(lambda: self._resolved(goal), f"all up to {goal} committed", seconds)
            return
        self.until(lambda: self.checkpoint_reached(goal), f"the checkpoint past {goal}", seconds)

    def _resolved(self, goal: Position) -> bool:
        """Tells whether everything at or below `goal` is committed.  PostgreSQL's places are stored rarely where
        nothing happened.
        """
        state = self.state
        return state is not None and state.resolved.order >= goal.order

    def until_owned(self, groups: int) -> None:
        """Until all groups have reported."""
        self.until(lambda: len(self.reports) >= groups, f"reports of {groups} groups")

    def until_flowing(self, seconds: float = 60.0, meanwhile: Callable[[], None] = lambda: None) -> float:
        """Until every table's rows that are committed at the source from now on show at the target; how long it took.

        The tables have a `version` that grows (`bench.harness.workload`), and changes go on at the source.  `meanwhile`
        is called again and again.
        """
        begun = time.monotonic()
        marks = self._newest(self.rig.source_place)

        def flowing() -> bool:
            meanwhile()
            return all(map(operator.gt, self._newest(self.rig.target.url()), marks))

        self.until(flowing, "rows of every group", seconds)
        return time.monotonic() - begun

    def _newest(self, url: str) -> list[int]:
        """The largest version in each table."""
        session = connect(url)
        try:
            query = f"SELECT CONCAT(COALESCE(MAX(version), 0), '') FROM {self.rig.schema}."
            return [int(session.rows(query + table)[0][0]) for table in self.rig.tables]
        finally:
            session.close()

    def assert_exact(self) -> None:
        try:
            self.rig.assert_exact()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said()}") from None
