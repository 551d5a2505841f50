"""Starts `tidelock` for tests: forked from a process that has imported it, or in an interpreter of its own.

A start of `tidelock run` costs a fifth of a CPU second and more, nearly all of it for imports in two processes, and
tests start some thousand commands.  So in `use_fork_server` commands come from `bench.harness.fork_server`.  They are
processes as others are, with the product's own `main`.  What is asked for with another program, or where variables were
changed that Python reads when it starts, or a signal is ignored, gets an interpreter.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from bench.harness.fork_server import TOLD
from bench.harness.forked import Forked
from tidelock.adapters.spark.session import MARK

COMMAND: Final = (sys.executable, "-m", "tidelock")
# What an interpreter reads when it starts, and those that it loads.
READ_AT_START: Final = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_")
# Who ignores them hands that on to an interpreter.
HANDED_ON: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
END_SECONDS: Final = 10.0

Started = Forked | subprocess.Popen[bytes]


def start(
    arguments: Sequence[str],
    out: IO[bytes],
    error: IO[bytes],
    command: Sequence[str] = COMMAND,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Started:
    """Starts a command that leads a session of its own and reads nothing.  `environment`: beside this process's."""
    whole = {**os.environ, **(environment or {})}
    if _server is not None and tuple(command) == COMMAND and _server.serves(whole):
        return _server.start(arguments, out, error, whole, str(cwd or Path.cwd()))
    return subprocess.Popen(
        [*command, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=error,
        env=whole,
        cwd=cwd,
        start_new_session=True,  # Ctrl-C goes to the owner, who decides how this one ends
    )


class ForkServer:
    """The server, started when first asked for; one for this process."""

    def __init__(self) -> None:
        self._at_start = _read_at_start(os.environ)
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def serves(self, environment: Mapping[str, str]) -> bool:
        """Whether an interpreter would start in this environment, and of this process, as the server's did."""
        ignores = any(signal.getsignal(number) is signal.SIG_IGN for number in HANDED_ON)
        return not ignores and _read_at_start(environment) == self._at_start

    def start(
        self, arguments: Sequence[str], out: IO[bytes], error: IO[bytes], environment: Mapping[str, str], folder: str
    ) -> Forked:
        """Has it fork for `tidelock` with these arguments."""
        request = {"arguments": list(arguments), "environment": dict(environment), "folder": folder}
        read, write = os.pipe()
        try:
            socket.send_fds(self._open(), [json.dumps(request).encode()], [out.fileno(), error.fileno(), write])
        finally:
            os.close(write)
        pid = _told(read)
        return Forked(f"tidelock {' '.join(arguments)}", pid, read, lambda: _told(read))

    def _open(self) -> socket.socket:
        with self._lock:
            if self._channel is None:
                self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "bench.harness.fork_server", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    # Not with the mark of a Spark session that is open here: all that carry it are killed at its end.
                    env={name: value for name, value in os.environ.items() if name != MARK},
                    start_new_session=True,
                )
                theirs.close()
            return self._channel

    def close(self) -> None:
        """Ends the server, which outlives no owner either; commands that still run go on."""
        if self._channel is not None and self._process is not None:
            self._channel.close()
            self._process.wait(END_SECONDS)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


def _told(pipe: int) -> int:
    """The next number that a process or its server tells.  Raises RuntimeError where nobody is left who would."""
    told = os.read(pipe, TOLD.size)
    if not told:
        raise RuntimeError("the fork server has ended: what it said is on stderr")
    return int(TOLD.unpack(told)[0])


_server: ForkServer | None = None


@contextlib.contextmanager
def use_fork_server() -> Iterator[None]:
    """Inside, `start` forks where it can."""
    global _server
    made = ForkServer()
    _server = made
    try:
        yield
    finally:
        _server = None
        made.close()


@contextlib.contextmanager
def interpreters() -> Iterator[None]:
    """Inside, each command has an interpreter of its own, as users' commands have."""
    global _server
    kept, _server = _server, None
    try:
        yield
    finally:
        _server = kept
