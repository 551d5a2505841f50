"""A small process that outlives its owner and removes what the owner left behind.

The owner holds the write end of a pipe.  When it ends, however it ends (SIGKILL included), the pipe closes and the
guard kills the process groups and removes the folders it still knows of.  Signal handlers in the owner lost: they
clash with those of pytest and asyncio, and SIGKILL runs none.

Lines on the pipe are JSON: `["process", pid, signal]`, `["ended", pid]`, `["folder", path]`, `["removed", path]`,
`["mounted", path]`, `["unmounted", path]`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

GRACE_SECONDS = 10.0
_DETACH = 2


class Guard:
    """The owner's end; one process a guard, started with the first thing to watch."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def process(self, pid: int, stop: signal.Signals) -> None:
        """Group leader `pid` gets `stop`, and SIGKILL if it is not gone in time."""
        self._tell("process", pid, int(stop))

    def ended(self, pid: int) -> None:
        self._tell("ended", pid)

    def folder(self, path: str) -> None:
        self._tell("folder", path)

    def removed(self, path: str) -> None:
        self._tell("removed", path)

    def mounted(self, path: str) -> None:
        """A file system of ours, which is taken away before any folder."""
        self._tell("mounted", path)

    def unmounted(self, path: str) -> None:
        self._tell("unmounted", path)

    def _tell(self, *words: object) -> None:
        with self._lock:
            if self._process is None or self._owner != os.getpid():  # a forked child has its own servers
                self._owner = os.getpid()
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
                atexit.register(self._close)
            pipe = self._process.stdin
            assert pipe is not None
            pipe.write(json.dumps(words).encode() + b"\n")
            pipe.flush()

    def _close(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            self._process.communicate()
            self._process = None


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def alive(pid: int) -> bool:
    """Tells whether the process runs; a zombie that nobody has reaped yet does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _watch() -> None:
    processes: dict[int, int] = {}
    folders: dict[str, None] = {}
    mounts: dict[str, None] = {}
    for line in sys.stdin:
        match json.loads(line):
            case ["process", pid, number]:
                processes[pid] = number
            case ["ended", pid]:
                processes.pop(pid, None)
            case ["folder", path]:
                folders[path] = None
            case ["removed", path]:
                folders.pop(path, None)
            case ["mounted", path]:
                mounts[path] = None
            case ["unmounted", path]:
                mounts.pop(path, None)
    for pid, number in processes.items():
        _signal_group(pid, number)
    deadline = time.monotonic() + GRACE_SECONDS
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in processes:
        _signal_group(pid, signal.SIGKILL)
    for path in mounts:
        ctypes.CDLL(None).umount2(os.fsencode(path), _DETACH)
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)


guard = Guard()

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _watch()
