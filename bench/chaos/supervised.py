"""`tidelock run` under a supervisor that starts it anew, as systemd does with `Restart=always`, `RestartSec=1`.

What ended it is kept apart: we did, or it did so itself, which no blow should bring it to.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.harness.rig import Rig
from bench.harness.tidelock import Process
from bench.harness.usage import CHILDREN, group

POLL_SECONDS: Final = 0.05
RESTART_SECONDS: Final = 1.0
STOP_SECONDS: Final = 30.0
TAIL_CHARACTERS: Final = 6000
SAID_CHARACTERS: Final = 400
CAPTURE: Final = "tidelock.adapters.mysql.binlog.capture_process"
assert CAPTURE in CHILDREN


@dataclasses.dataclass(frozen=True)
class End:
    """`at`: seconds since the start.  `said`: the last line of its log."""

    at: float
    code: int
    said: str


class Supervised:
    """Context manager: inside it is kept running.  `unasked`: ends that nobody here brought about."""

    def __init__(self, rig: Rig) -> None:
        self.unasked: list[End] = []
        self.starts = 0
        self._rig = rig
        self._begun = time.monotonic()
        self._process: Process | None = None
        self._due: float | None = None
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    def __enter__(self) -> Self:
        self._due = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._process is not None and self._process.running:
            self._process.kill()

    def _supervise(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            with self._lock:
                if self._process is not None and not self._process.running:
                    code = self._process.code(1.0)
                    said = self.said(1)[:SAID_CHARACTERS]
                    self.unasked.append(End(round(time.monotonic() - self._begun, 1), code, said))
                    self._restart_in(RESTART_SECONDS)
                if self._due is not None and time.monotonic() >= self._due:
                    self._process, self._due = Process(["run", str(self._rig.feed)], self._rig.output), None
                    self.starts += 1

    def _restart_in(self, seconds: float) -> None:
        self._process, self._due = None, time.monotonic() + seconds

    @property
    def pids(self) -> dict[str, int]:
        with self._lock:
            return {"run": self._process.pid} if self._process is not None else {}

    def said(self, lines: int = 0) -> str:
        """The end of its log."""
        text = self._rig.said()[-TAIL_CHARACTERS:].rstrip()
        return "\n".join(text.splitlines()[-lines:])

    # ------------------------------------------------------------------ what is done to it

    def kill(self, *, alone: bool) -> None:
        """SIGKILL.  `alone`: its capture child must notice."""
        with self._lock:
            process = self._process
            if process is None or not process.running:
                return
            os.kill(process.pid, signal.SIGKILL) if alone else process.kill()
            process.code(5.0)
            self._restart_in(RESTART_SECONDS)

    def kill_capture(self) -> None:
        """SIGKILL to the child that reads the log, where there is one at this moment."""
        for pid in group(self.pids.get("run", 0)):
            if CAPTURE in _command(pid):
                os.kill(pid, signal.SIGKILL)

    def stop(self, *, again: bool) -> int:
        """SIGTERM to it alone (`KillMode=mixed`), and `again` a start.  Returns its exit code; 0 where none ran."""
        with self._lock:
            process, self._process, self._due = self._process, None, None
            code = 0
            if process is not None and process.running:
                os.kill(process.pid, signal.SIGTERM)
                code = process.code(STOP_SECONDS)
            if again:
                self._restart_in(0.0)
            return code


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
