"""Resources of `serve` and its feeds: memory, descriptors and threads, every few seconds, and whether it grows.

Memory is judged as in `bench.chaos.memory`.  Descriptors and threads are judged of `serve` alone, which lives long: of
its last life, what it held least in each of the last minutes against what it held least in each of the first, once it
was warm.  What comes and goes (a listener, a command) is in no least; what stays is in all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.chaos.memory import FLOOR_SECONDS, WARM_SECONDS, Memory, measured
from bench.fleet.serving import Serving
from bench.harness.polling import Polling
from bench.harness.usage import Sample

EVERY_SECONDS: Final = 3.0
SERVE: Final = "serve"
NAMES: Final = (SERVE, "run", "capture")
MOST_MORE: Final = 3
"""Descriptors, or threads, that a life may hold more of at its end."""


@dataclasses.dataclass(frozen=True)
class Handles:
    """Resources of one process at one moment.  `at`: seconds since the watching began."""

    at: float
    pid: int
    descriptors: int
    threads: int


@dataclasses.dataclass(frozen=True)
class Held:
    """Resources that `serve` held in its last life: at first, once it was warm, in the end, and at most."""

    what: str
    first: int
    last: int
    most: int

    @property
    def grows(self) -> bool:
        return self.last > self.first + MOST_MORE

    def __str__(self) -> str:
        return f"{self.what}: {self.first} at first, {self.last} in the end, at most {self.most}"


class Watch(Polling):
    """Context manager: samples are taken inside."""

    def __init__(self, serving: Serving) -> None:
        super().__init__("what is held", EVERY_SECONDS)
        self.samples: list[Sample] = []
        self.handles: list[Handles] = []
        self._serving = serving
        self._begun = time.monotonic()

    def look(self) -> None:
        """Takes one look at all processes."""
        at, pid = time.monotonic() - self._begun, self._serving.pid
        if not pid:
            return
        for name, one in ((SERVE, pid), *((child.name, child.pid) for child in self._serving.children())):
            if name in NAMES:
                with contextlib.suppress(OSError, KeyError, ValueError, IndexError):  # it has ended meanwhile
                    held = _status(one)
                    self.samples.append(Sample(at, name, one, held["VmRSS"] * 1024, held["RssAnon"] * 1024, 0.0))
                    if name == SERVE:
                        self.handles.append(Handles(at, one, len(os.listdir(f"/proc/{one}/fd")), held["Threads"]))

    @property
    def memory(self) -> list[Memory]:
        """Returns the words about the memory of each name."""
        named = {name: [one for one in self.samples if one.name == name] for name in NAMES}
        return [measured(name, some, max(one.resident_bytes for one in some)) for name, some in named.items() if some]

    @property
    def held(self) -> list[Held]:
        """Returns the words about `serve`'s last life; empty where that was short."""
        return judged([one for one in self.handles if one.pid == self.handles[-1].pid]) if self.handles else []


def judged(life: Sequence[Handles]) -> list[Held]:
    """Compares the least of the last two minutes with the least of two minutes once it was warm."""
    begun = life[0].at
    warm = [one for one in life if one.at >= begun + WARM_SECONDS]
    if not warm or warm[-1].at - warm[0].at < 4 * FLOOR_SECONDS:
        return []
    first = [one for one in warm if one.at < warm[0].at + 2 * FLOOR_SECONDS]
    last = [one for one in warm if one.at > warm[-1].at - 2 * FLOOR_SECONDS]
    return [
        Held(what, min(getattr(one, what) for one in first), min(getattr(one, what) for one in last),
             max(getattr(one, what) for one in warm))
        for what in ("descriptors", "threads")
    ]  # fmt: skip


def _status(pid: int) -> dict[str, int]:
    """Returns the numbers of /proc/PID/status; sizes in kB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    words = (line.split() for line in lines)
    return {word[0].rstrip(":"): int(word[1]) for word in words if len(word) > 1 and word[1].isdigit()}
