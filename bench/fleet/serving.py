"""`tidelock serve` of the bench, which is killed now and then, and all the processes that it has begun."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from bench.harness.forking import interpreters
from bench.harness.rig import until
from bench.harness.served import Served
from bench.harness.usage import CHILDREN

UP_SECONDS: Final = 60.0
ENDED_SECONDS: Final = 60.0
SAID_CHARACTERS: Final = 600
BEGUN: Final = 19
"""Place of the time at which a process began, among the fields behind its command."""


@dataclasses.dataclass(frozen=True)
class Child:
    """A process below `serve`.  `name`: run, capture or command.  `feed`: of a run, its file's name; else ''."""

    pid: int
    begun: str
    name: str
    feed: str = ""


class Serving:
    """The one `serve`.  `killed`: how often we killed it; `seen`: all processes that it has begun, as far as known."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.killed = 0
        self.seen: dict[tuple[int, str], Child] = {}
        self.up = threading.Event()
        self.generation = 0

    def start(self) -> None:
        """Starts it; returns when the API answers."""
        self.served.start()
        until(lambda: self.served.api().ask("/feeds")[0] == 200, "the API", UP_SECONDS)
        self.generation += 1
        self.up.set()

    def look(self) -> str:
        """Starts it again where it has ended by itself; returns what it said last, '' where it runs."""
        if self.pid:
            return ""
        self.up.clear()
        self.generation += 1
        said = self.served.said()[-SAID_CHARACTERS:]
        with interpreters():
            self.start()
        return said

    def kill(self) -> None:
        """SIGKILL to it alone; all of its children must end by that."""
        process = self.served.process
        assert process is not None
        children = self.children()
        self.up.clear()
        self.killed += 1
        self.generation += 1
        os.kill(process.pid, signal.SIGKILL)
        process.code(UP_SECONDS)
        until(lambda: not _alive(children), "the end of all feeds with serve", ENDED_SECONDS)

    def stop(self) -> int:
        """SIGTERM to it alone.  Returns its exit code."""
        process = self.served.process
        assert process is not None
        self.up.clear()
        self.generation += 1
        os.kill(process.pid, signal.SIGTERM)
        return process.code(UP_SECONDS)

    @property
    def pid(self) -> int:
        """Its pid; 0 while it does not run."""
        process = self.served.process
        return process.pid if process is not None and process.running else 0

    def children(self) -> list[Child]:
        """Returns the processes below it now."""
        found = list(below(self.pid)) if self.pid else []
        self.seen |= {(child.pid, child.begun): child for child in found}
        return found

    def left(self) -> list[Child]:
        """Returns those that are alive of all that it ever began."""
        return _alive(self.seen.values())


def below(pid: int) -> Iterator[Child]:
    """Yields the living processes below one, and those below them."""
    kin: dict[int, list[int]] = {}
    begun: dict[int, str] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = _stat(int(entry.name))
                if fields[0] != "Z":
                    kin.setdefault(int(fields[1]), []).append(int(entry.name))
                    begun[int(entry.name)] = fields[BEGUN]
    waiting = list(kin.get(pid, ()))
    while waiting:
        one = waiting.pop()
        waiting += kin.get(one, ())
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{one}/cmdline").read_bytes().decode(errors="replace").split("\0")
            yield _child(one, begun[one], words)


def _child(pid: int, begun: str, words: list[str]) -> Child:
    if name := next((name for module, name in CHILDREN.items() if module in words), ""):
        return Child(pid, begun, name)
    if "tidelock" in words and (at := words.index("tidelock")) and words[at + 1 : at + 2] == ["run"]:
        return Child(pid, begun, "run", Path(words[at + 2]).stem)
    return Child(pid, begun, "command")


def _alive(children: Iterable[Child]) -> list[Child]:
    return [child for child in children if _begun(child.pid) == child.begun]


def _begun(pid: int) -> str:
    """Returns when a living process was begun; '' where there is none."""
    with contextlib.suppress(OSError):
        fields = _stat(pid)
        return fields[BEGUN] if fields[0] != "Z" else ""
    return ""


def _stat(pid: int) -> list[str]:
    """Returns the fields of /proc/PID/stat behind the command's name: state, parent, …"""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
