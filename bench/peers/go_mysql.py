"""go-mysql's binlog reader with an applier of our own behind it (`go/`), as a careful author would write one.

It merges the changes of a batch of whole transactions row by row, deletes the rows that change and copies in what they
became, in the log's order over one connection, and stores its position in the same transaction.  The clock runs from
the start of the process until the end of the backlog is visible.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.harness.servers.place import SEARCH, cache
from bench.peers.backlog import BinlogBacklog
from bench.peers.peer import PeerMissing, until, verify
from bench.peers.program import Program, prepare
from bench.peers.target import Target

SOURCES: Final = Path(__file__).with_name("go")
BATCH_ROWS: Final = 2000


class GoMySql:
    """From `backlog` of a MariaDB to `target`, a PostgreSQL.  Entering raises PeerMissing, ServerMissing."""

    def __init__(self, backlog: BinlogBacklog, target: Target, folder: Path) -> None:
        self.changes = backlog.changes
        self._backlog, self._target, self._folder = backlog, target, folder
        self._program = Path()

    def __enter__(self) -> Self:
        self._program = built()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Its process ends with its turn."""

    def catch_up(self) -> float:
        backlog, target = self._backlog, self._target
        target.empty(backlog.workload)
        words = {
            "source": f"{backlog.server.host}:{backlog.server.port}",
            "start": backlog.start,
            "until": backlog.end,
            "target": target.url,
            "batch": BATCH_ROWS,
        }
        command = [str(self._program), *(f"-{name}={value}" for name, value in words.items())]
        begun = time.perf_counter()
        with Program(command, self._folder / "go-mysql.log") as running:
            return until(target.ended, running.failure, begun)

    def verify(self) -> None:
        verify(self._backlog.url, self._target.url, self._backlog.tables)


def go_mysql_version() -> str:
    """The locked version."""
    words = (SOURCES / "go.mod").read_text().split()
    return words[words.index("github.com/go-mysql-org/go-mysql") + 1]


def place() -> Path:
    """Returns the path where the program of these sources is, or would be."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))).hexdigest()[:12]
    return cache() / "peers" / f"go-mysql-{digest}"


def built() -> Path:
    """The program, compiled now if its sources have changed; its modules are those that go.sum has locked.

    Raises PeerMissing without Go, where it is too old, or its modules cannot be had.
    """
    path = place()
    if not path.exists():
        go = _go()
        print("peers: building the go-mysql applier …", flush=True)
        peers = path.parent
        peers.mkdir(parents=True, exist_ok=True)
        places = {"GOPATH": str(peers / "go"), "GOCACHE": str(peers / "go-build")}
        beside = path.with_suffix(".new")
        # Writable modules, so that `make clean` can remove them.
        command = [go, "build", "-mod=readonly", "-modcacherw", "-o", str(beside), "."]
        prepare("the go-mysql applier", command, SOURCES, {**places, "GOTOOLCHAIN": "local", "GOFLAGS": ""})
        beside.rename(path)
    return path


def _go() -> str:
    """The toolchain's own place is looked at too: its installer leaves PATH alone."""
    found = shutil.which("go") or shutil.which("go", path=os.pathsep.join((*SEARCH, "/usr/local/go/bin")))
    if found is None:
        raise PeerMissing("Go is not installed: it needs 1.24.2 or newer (golang-go of Debian 13)")
    return found
