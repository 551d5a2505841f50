"""A `tidelock` command in a process of its own, whose lines are told as they come.

The process does not outlive the thread that started it, whatever ends that: the kernel kills it then
(`PR_SET_PDEATHSIG`).  So start it from a thread that lives as long as the command.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

STOP_SECONDS: Final = 20.0
_PDEATHSIG: Final = 1
Tell = Callable[[str, str], None]
"""Takes a feed's name and a line that it says."""


class CommandProcess:
    """The process of one feed.  `arguments`: of `tidelock`.  `ended`: is called, in another thread, with the exit code
    once all is told: minus the signal, where one has killed it.

    `code`: that code; None while it runs.
    """

    def __init__(
        self, name: str, arguments: Sequence[str], tell: Tell, ended: Callable[[int], None] = lambda _: None
    ) -> None:
        self.name = name
        self.code: int | None = None
        self._arguments = arguments
        self._tell, self._ended = tell, ended
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        assert self._process is not None and self._thread is not None
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._thread.join()

    def start(self) -> None:
        """Starts the process."""
        self.code = None
        self._process = subprocess.Popen(
            command_line(self._arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),
            preexec_fn=die_with_parent,
        )
        self._thread = threading.Thread(target=self._carry, args=(self._process,), name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Asks it to end in order."""
        if self._process is not None and self.code is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def kill(self) -> None:
        """Ends it at once."""
        if self._process is not None and self.code is None:
            self._process.kill()

    def _carry(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._tell(self.name, line.decode(errors="replace").rstrip("\n"))
        process.stdout.close()
        self.code = process.wait()
        self._ended(self.code)


def command_line(arguments: Sequence[str]) -> list[str]:
    """Returns what starts a command with this interpreter."""
    return [sys.executable, "-m", "tidelock", *arguments]


def environment() -> dict[str, str]:
    """Returns this process's environment, in which Python finds the modules that it finds here."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def die_with_parent() -> None:
    """Has the kernel kill this process once the thread that started it has ended."""
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
