"""A process that was forked, waited for and ended as `subprocess.Popen` does with one that was executed."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable


class Forked:
    """One process.  `over`: a file descriptor that can be read once it has ended, closed when nobody looks any more:
    closed before, its number might be another's for a thread that is about to wait for it.  `code`: its exit code then,
    or minus the signal that ended it; called once.
    """

    def __init__(self, name: str, pid: int, over: int, code: Callable[[], int]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._name = name
        self._over = over
        self._code = code
        self._lock = threading.Lock()

    def __del__(self) -> None:
        os.close(self._over)

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code once it has ended.  Raises subprocess.TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self._name, timeout or 0.0)
        return code

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _look(self, seconds: float | None) -> int | None:
        """Threads may look at the same time: one of them takes the code."""
        if self.returncode is None and self._readable(seconds):
            with self._lock:
                if self.returncode is None:
                    self.returncode = self._code()
        return self.returncode

    def _readable(self, seconds: float | None) -> bool:
        waiting = select.poll()
        waiting.register(self._over, select.POLLIN)
        return bool(waiting.poll(None if seconds is None else seconds * 1000.0))

    def _signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
