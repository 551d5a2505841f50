"""Resources that processes use: resident memory and processor time, read from /proc.

It is read at once, and then after pauses that grow from a hundredth to a fifth of a second, so that a run is seen
several times whether it takes a minute or a tenth of a second.

A watched process leads a group of its own (`bench.harness.tidelock.Process`, a server); its children are watched with
it, ours under their own names, by what they run.  Memory that two processes share counts for both.  What a process used
between its last sample and its end is not seen; of one that goes on, all is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

FIRST_PAUSE_SECONDS: Final = 0.01
SAMPLE_SECONDS: Final = 0.2
LENGTHENED: Final = 1.25
CHILDREN: Final = {
    "tidelock.adapters.workers.publisher_process": "publisher",
    "tidelock.adapters.mysql.binlog.capture_process": "capture",
    "tidelock.adapters.postgres.logical.capture_process": "capture",
}
_TICK_SECONDS: Final = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """`at`: seconds since the watching began.  `cpu_seconds`: of the process so far, user and system.

    `own_bytes`: what is resident without pages of files: those the kernel takes from a process that does not touch
    them, and gives back at a touch, so they come and go without the process.
    """

    at: float
    name: str
    pid: int
    resident_bytes: int
    own_bytes: int
    cpu_seconds: float


class Usage:
    """Context manager: samples are taken inside.  `leaders`: name → pid of the group's leader, asked for each time.
    `every`: the longest pause, in seconds."""

    def __init__(self, leaders: Callable[[], Mapping[str, int]], every: float = SAMPLE_SECONDS) -> None:
        self._every = every
        self.samples: list[Sample] = []
        self.peaks: dict[tuple[str, int], int] = {}
        self._leaders = leaders
        self._before: dict[int, float] = {}
        self._begun = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)

    def __enter__(self) -> Self:
        for pid, _ in _members(dict.fromkeys(self._leaders().values(), "")):
            with contextlib.suppress(OSError):
                self._before[pid] = _cpu_seconds(pid)
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()

    def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._stop.wait(pause):
            self._sample()
            pause = min(self._every, pause * LENGTHENED)

    def _sample(self) -> None:
        at = time.monotonic() - self._begun
        groups = {pid: name for name, pid in self._leaders().items()}
        for pid, leader in _members(groups):
            with contextlib.suppress(OSError, KeyError, ValueError, IndexError):  # it has ended meanwhile
                status = _status(pid)
                name = _name(pid, groups[leader], pid == leader)
                self.samples.append(Sample(at, name, pid, status["VmRSS"], status["RssAnon"], _cpu_seconds(pid)))
                self.peaks[name, pid] = status["VmHWM"]

    # ------------------------------------------------------------------ what was seen

    @property
    def peak_bytes(self) -> dict[str, int]:
        """The most that any process of a name ever held, as the kernel kept it."""
        peaks: dict[str, int] = {}
        for (name, _), held in self.peaks.items():
            peaks[name] = max(held, peaks.get(name, 0))
        return peaks

    @property
    def cpu_seconds(self) -> dict[str, float]:
        """Processor time of all processes of a name together, since the watching began."""
        last = {(sample.name, sample.pid): sample.cpu_seconds for sample in self.samples}
        used: dict[str, float] = {}
        for (name, pid), seconds in last.items():
            used[name] = round(used.get(name, 0.0) + seconds - self._before.get(pid, 0.0), 2)
        return used

    def used_between(self, begin: float, end: float) -> dict[str, float]:
        """Processor time of all processes of a name together between two moments, in seconds since the watching began.

        It is read off the samples: at each moment, the last one before it counts.
        """
        used: dict[tuple[str, int], list[float]] = {}
        for sample in self.samples:
            before, last = used.setdefault((sample.name, sample.pid), [self._before.get(sample.pid, 0.0)] * 2)
            if sample.at <= begin:
                before = sample.cpu_seconds
            if sample.at <= end:
                last = sample.cpu_seconds
            used[sample.name, sample.pid] = [before, max(before, last)]
        total: dict[str, float] = {}
        for (name, _), (before, last) in used.items():
            total[name] = round(total.get(name, 0.0) + last - before, 2)
        return total

    def curve(self, name: str) -> list[tuple[float, float]]:
        """(seconds, resident MB) of a name; where several of them ran at once, the largest."""
        points: dict[float, float] = {}
        for sample in self.samples:
            if sample.name == name:
                points[sample.at] = max(points.get(sample.at, 0.0), sample.resident_bytes / 1e6)
        return sorted(points.items())


def group(leader: int) -> list[int]:
    """The living processes of a group, and the leader's children in groups of their own."""
    return [pid for pid, _ in _members({leader: ""})]


def _members(groups: Mapping[int, str]) -> Iterator[tuple[int, int]]:
    """(process, leader) of every living process in one of `groups`, or a child of its leader (as PostgreSQL's are)."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            state, *kin = _stat(int(entry.name))[:3]
            leader = next((int(pid) for pid in reversed(kin) if int(pid) in groups), 0)
            if leader and state != "Z":
                yield int(entry.name), leader


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the command's name: state, parent, group, …"""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _cpu_seconds(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) * _TICK_SECONDS


def _status(pid: int) -> dict[str, int]:
    """The sizes of /proc/PID/status, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith(" kB")}


def _name(pid: int, leader: str, leads: bool) -> str:
    if leads:
        return leader
    command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return next((name for module, name in CHILDREN.items() if module in command), leader)
