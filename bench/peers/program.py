"""A peer's own program: what fetches or builds it, and what runs for a turn and no longer."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.harness.servers.guard import guard
from bench.harness.servers.place import run_as
from bench.peers.peer import PeerMissing

STOP_SECONDS: Final = 10.0
SAID_CHARACTERS: Final = 1500


def prepare(what: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Run a tool that fetches or builds `what`.  Raises PeerMissing with the line that says what went wrong."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C.UTF-8", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        lines = done.stdout.strip().splitlines() or [f"exit code {done.returncode}"]
        wrong = next((line for line in lines if "error" in line.lower()), lines[-1])
        raise PeerMissing(f"{what} could not be made ready: {wrong.strip()}")


class Program:
    """Context manager: the program runs inside and is gone behind it, with its children.

    `output`: the file that takes what it says.  `environment`: None for ours.  `user`: None for ourselves.
    """

    def __init__(
        self,
        command: Sequence[str],
        output: Path,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        self._command, self._output = command, output
        self._environment, self._user = environment, user
        self._process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        with self._output.open("wb") as stream:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._output.parent,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **run_as(self._user),
            )
        guard.process(self._process.pid, signal.SIGKILL)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        guard.ended(self._process.pid)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def failure(self) -> str:
        """Empty while it runs, and when it ended well; else its exit code and its last words."""
        code = self._process.poll()
        if not code:
            return ""
        return f"it ended with exit code {code}: {self.said()}"

    def said(self) -> str:
        """The end of what it said."""
        return self._output.read_text(encoding="utf-8", errors="replace").strip()[-SAID_CHARACTERS:]
