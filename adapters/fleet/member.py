"""One feed of a fleet: its process, and what is to become of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.fleet.folder import FeedFile
from tidelock.adapters.fleet.restarts import Restarts
from tidelock.adapters.process.command_process import CommandProcess
from tidelock.adapters.runtime.progress import Sample

MemberState: TypeAlias = Literal["runs", "ends", "waits", "needs an operator", "cannot be read", "stopped"]
STOPPED: Final = "stopped until it is started, its file changes, or serve begins anew"


class _Line(msgspec.Struct):
    """A line of a run with `--json`."""

    sample: Sample | None = None
    message: str = ""
    error: str = ""


_LINE: Final = msgspec.json.Decoder(_Line)


class Member:
    """One feed.  `sample`: what its process said last; None while it has none.  `words`: what it said last besides.

    `starts`: of its process.  `code`: the last exit code; None before the first.  `due`: when it is started again, by
    the monotonic clock.  `held`: an operator has stopped it.  `asked`: when its process was asked to end.
    """

    def __init__(
        self,
        file: FeedFile,
        socket: Path,
        ended: Callable[[Path, int], None],
        heard: Callable[[Path, str], None],
    ) -> None:
        self.file = file
        self.socket = socket
        self.sample: Sample | None = None
        self.words = file.problem
        self.starts = 0
        self.code: int | None = None
        self.due: float | None = None
        self.leaving = self.held = False
        self.asked: float | None = None
        self._ended, self._heard = ended, heard
        self._process: CommandProcess | None = None
        self._restarts = Restarts()
        self._began = 0.0
        self._next: FeedFile | None = None

    @property
    def name(self) -> str:
        """The feed's name."""
        return self.file.name

    @property
    def running(self) -> bool:
        """Tells whether it has a process."""
        return self._process is not None

    @property
    def state(self) -> MemberState:
        """The state in words."""
        if self._process is not None:
            return "ends" if self.leaving or self.held or self._next is not None else "runs"
        if self.file.feed is None:
            return "cannot be read"
        if self.held:
            return "stopped"
        return "waits" if self.due is not None else "needs an operator"

    def start(self) -> None:
        """Starts the process, if the file holds a feed."""
        self.due = None
        if self.file.feed is None or self._process is not None:
            return
        self.starts, self._began = self.starts + 1, time.monotonic()
        path = self.file.path
        self._process = CommandProcess(
            self.name,
            _arguments(self.file.feed, path, self.socket),
            lambda _, line: self._heard(path, line),
            lambda code: self._ended(path, code),
        )
        self._process.start()

    def stop(self) -> None:
        """Asks the process to end for good."""
        self.leaving, self.due, self._next = True, None, None
        self._ask_to_end()

    def hold(self) -> None:
        """Asks the process to end, and starts none until an operator does or the file changes."""
        self.file, self._next = self._next or self.file, None
        self.held, self.due = True, None
        if self._process is None:
            self.words = STOPPED
        self._ask_to_end()

    def begin_anew(self) -> None:
        """Starts the process, or another one once it has ended, as an operator wants it."""
        self.held = False
        self.change(self._next or self.file)

    def take_up(self) -> None:
        """Starts what does not run; what is on its way down is started anew."""
        if self.state != "runs":
            self.begin_anew()

    def kill(self) -> None:
        """Ends the process at once."""
        if self._process is not None:
            self._process.kill()

    def change(self, file: FeedFile) -> None:
        """Takes another file in place of its own: the process ends, and another is started."""
        self.leaving = self.held = False
        if self._process is not None:
            self._next = file
            self._ask_to_end()
            return
        self.file, self.words = file, file.problem
        self._restarts.forget()
        self.start()

    def changing_to(self, file: FeedFile) -> bool:
        """Tells whether it ends already to begin anew with this file."""
        return self._next is not None and self._next.stamp == file.stamp

    def hear(self, line: str) -> str:
        """Takes a line of the process; returns what of it is for people."""
        try:
            told = _LINE.decode(line)
        except msgspec.MsgspecError:
            return line
        if told.sample is not None:
            self.sample = told.sample
            return ""
        self.words = told.error or told.message
        return self.words

    def end(self, code: int) -> str:
        """Takes the end of the process; returns what follows, in words."""
        self._process, self.sample, self.code, self.asked = None, None, code, None
        self.socket.unlink(missing_ok=True)
        if self._next is not None:
            changed = self._next.stamp != self.file.stamp
            file, self._next = self._next, None
            self.change(file)
            return "its file was changed: started anew" if changed else "started anew"
        if self.leaving:
            return "ended"
        if self.held:
            self.words = STOPPED
            return STOPPED
        wait = self._restarts.after(code, time.monotonic() - self._began)
        how = f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        if wait is None:
            return f"{how}: started again once its halt is over or its file changes (`touch {self.file.path}`)"
        self.due = time.monotonic() + wait
        return f"{how}: started again in {wait:.0f} s"

    def _ask_to_end(self) -> None:
        if self._process is not None:
            self.asked = self.asked or time.monotonic()
            self._process.stop()


def _arguments(feed: Feed, path: Path, socket: Path) -> list[str]:
    """Returns the command line of a feed's process: of a feed over Kafka, one worker."""
    if feed.target_url.scheme == "hive":  # which serves no metrics
        return ["run", str(path), "--json"]
    return ["run" if feed.log_url is None else "worker", str(path), "--socket", str(socket), "--json"]
