"""A server process: its folder, its port, its start and end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from bench.harness.servers import sparse
from bench.harness.servers.guard import guard
from bench.harness.servers.place import HOST, account, environment, folder_for_files, free_port, give, run_as

START_SECONDS = 90.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.02
LOG_TAIL_LINES = 30


class ServerFailed(RuntimeError):
    """A server did not start, stop or answer; the text holds the end of its log."""


class Process(ABC):
    """A server of our own on a free loopback port, its files in a folder that goes with it.

    Use it as a context manager.  `extra` are settings for the server program, after ours, so they win.
    """

    scheme: ClassVar[str]
    accounts: ClassVar[tuple[str, ...]]
    """System users it may run as when we are root."""
    stop_signal: ClassVar[signal.Signals]
    """Ends it in order, whoever is still connected."""
    discard_signal: ClassVar[signal.Signals]
    """Ends it at once and leaves nothing behind outside its folder; the data is thrown away."""

    host = HOST

    def __init__(self, extra: Sequence[str] = ()) -> None:
        self.extra = list(extra)
        self.account = account(*self.accounts)
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"tidelock-{self.scheme}-", dir=folder_for_files()))
        guard.folder(str(self.folder))
        self.data = self.folder / "data"
        self.log = self.folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _template(self) -> Path:
        """A data folder to copy, ready to be started."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Program and arguments, `extra` included."""

    @abstractmethod
    def _probe(self) -> None:
        """Ask it something.  Raises whatever it likes while there is no answer."""

    def _disconnect(self) -> None:  # noqa: B027  # not every kind keeps a connection
        """Give up our own connection before the server ends."""

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.scheme} is not running"
        return self._process.pid

    def start(self) -> None:
        """Start on its data and port, return when it answers.  Raises ServerFailed."""
        assert self._process is None, f"{self.scheme} on port {self.port} runs already"
        if not self.data.exists():
            self._prepare()
            give(self.folder, self.account)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self.folder,
                env=environment(self.folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **run_as(self.account),
            )
        guard.process(self._process.pid, self.discard_signal)
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def _prepare(self) -> None:
        """Fill its folder, before the first start."""
        sparse.copy(self._template(), self.data)
        (self.folder / "tmp").mkdir()
        self.log.touch()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            if not self.running:
                raise ServerFailed(f"{self.scheme} on port {self.port} ended while starting.\n{self._log_tail()}")
            try:
                self._probe()
            except Exception as error:  # whatever the driver says while nobody listens
                if time.monotonic() > deadline:
                    raise ServerFailed(
                        f"{self.scheme} on port {self.port} gave no answer in {START_SECONDS:.0f} s: {error}\n"
                        f"{self._log_tail()}"
                    ) from error
                time.sleep(POLL_SECONDS)
            else:
                return

    def stop(self) -> None:
        """Shut down in order and keep the data.  Does nothing when it does not run."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """SIGKILL: as if the machine had taken the process away.  `start()` again recovers on the same data."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """End it and remove its folder; safe to call twice."""
        self._end(self.discard_signal)
        shutil.rmtree(self.folder, ignore_errors=True)
        guard.removed(str(self.folder))

    def _end(self, number: signal.Signals) -> None:
        self._disconnect()
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            raise ServerFailed(
                f"{self.scheme} on port {self.port} did not stop in {STOP_SECONDS:.0f} s and was killed.\n"
                f"{self._log_tail()}"
            ) from None
        finally:
            guard.ended(self._process.pid)
            self._process = None

    def log_text(self) -> str:
        """The server's error log since its data was made."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def _log_tail(self) -> str:
        return "\n".join(self.log_text().splitlines()[-LOG_TAIL_LINES:])

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
