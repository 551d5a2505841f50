"""Place in which servers run: the account, the port, the cache of prepared data folders."""

from __future__ import annotations

import os
import pwd
import random
import re
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.harness.servers import sparse
from tidelock.adapters.process.host import SEARCH, cache, program, version
from tidelock.adapters.process.host import Missing as ServerMissing

__all__ = [
    "HOST",
    "SEARCH",
    "ServerMissing",
    "account",
    "cache",
    "environment",
    "files_in_memory",
    "folder_for_files",
    "free_port",
    "give",
    "program",
    "run",
    "run_as",
    "template",
    "version",
]

HOST = "127.0.0.1"
# Below Linux' ephemeral range, so that no outgoing connection takes a port while its server restarts.
PORTS = range(20_000, 32_000)
_given: set[int] = set()
MEMORY = Path("/dev/shm")
LEAST_FREE_BYTES = 6 << 30  # a server of a test has tens of megabytes, some dozen run at once
_in_memory = False


@contextmanager
def files_in_memory() -> Iterator[None]:
    """Have servers that are made within keep their files in memory, as long as there is plenty of it.

    To make a database is to copy hundreds of small files: on a disk that takes a fifth of the processor time of tests.
    """
    global _in_memory
    before, _in_memory = _in_memory, True
    try:
        yield
    finally:
        _in_memory = before


def folder_for_files() -> Path | None:
    """Returns the folder in which a server makes its own; None: the system's for temporary files."""
    return MEMORY if _in_memory and _free_memory() > LEAST_FREE_BYTES else None


def _free_memory() -> int:
    """Returns how many bytes may be put into `MEMORY`; 0 where it is none, or not ours to write."""
    if not (os.path.ismount(MEMORY) and os.access(MEMORY, os.W_OK)):
        return 0
    place = os.statvfs(MEMORY)
    available = re.search(r"^MemAvailable: +([0-9]+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return min(place.f_bavail * place.f_frsize, int(available[1]) << 10 if available else 0)


def account(*names: str) -> str | None:
    """The user a server runs as: database servers refuse root, so the first of `names` there is; None: ourselves."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in (*names, "nobody") if name in known)


def give(path: Path, user: str | None) -> None:
    """Make `user` the owner of everything under `path`; nothing to do where servers run as ourselves."""
    if user is None:
        return
    entry = pwd.getpwnam(user)
    os.chown(path, entry.pw_uid, entry.pw_gid)
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            os.chown(os.path.join(folder, name), entry.pw_uid, entry.pw_gid, follow_symlinks=False)


def run_as(user: str | None) -> dict[str, Any]:
    """Arguments of `subprocess` that run a program as `user`; none for ourselves."""
    return {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": ()}


def environment(home: Path) -> dict[str, str]:
    """Returns the part of our environment that a server sees: nothing that could change its answers.

    Temporary files stay in its own folder: MariaDB and MySQL remove those of others when they start.
    """
    path = os.pathsep.join(SEARCH) + ":/bin:/sbin"
    return {"PATH": path, "LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": str(home), "TMPDIR": str(home)}


def run(command: list[str], user: str | None, home: Path) -> str:
    """Run a server's own tool and return what it printed.  Raises ServerMissing with that text if it fails."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command,
        cwd=home,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        **run_as(user),
    )
    if done.returncode != 0:
        raise ServerMissing(f"{command[0]} failed with status {done.returncode}:\n{done.stdout.strip()}")
    return done.stdout


def free_port() -> int:
    """A loopback port nobody listens on, never given to us before.  Raises ServerMissing if there is none."""
    for port in random.sample([port for port in PORTS if port not in _given], 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise ServerMissing(f"no free port between {PORTS.start} and {PORTS.stop} on {HOST}: stop some servers")


def template(name: str, user: str | None, build: Callable[[Path], None]) -> Path:
    """The data folder `name` in the cache, built once: `build` fills an empty folder that `user` owns.

    It is renamed into place when whole, so an interrupted build leaves nothing that looks finished and of two
    builders at once one wins.
    """
    ready = cache() / "templates" / f"{name}-sparse"
    if ready.exists():
        return ready
    ready.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="tidelock-build-") as scratch,
        tempfile.TemporaryDirectory(prefix=f".{name}-", dir=ready.parent) as beside,
    ):
        give(Path(scratch), user)
        build(Path(scratch) / "data")
        copy = Path(beside) / "data"
        sparse.dig(Path(scratch) / "data", copy)
        try:
            copy.rename(ready)
        except OSError:
            if not ready.exists():
                raise
    return ready
