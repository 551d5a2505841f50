"""A Kafka of several processes: the first that asks starts it, and it ends when nobody holds it any more.

Whoever uses it holds a lock that it shares with the others, which the kernel takes back however the process ends.  A
keeper of its own, `python -m bench.harness.servers.shared_kafka FOLDER`, waits until it has that lock alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.harness.servers.kafka import Kafka
from bench.harness.servers.kafka_broker import Broker
from bench.harness.servers.process import POLL_SECONDS, START_SECONDS, ServerFailed


@contextlib.contextmanager
def shared_kafka(folder: Path) -> Iterator[Broker]:
    """The broker of all that name this folder.  Raises ServerFailed where it does not start."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_SH)  # waits for a keeper that is about to end
        with (folder / "starting").open("a") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            if not _address(folder).exists():
                _start(folder)
        port, internal = json.loads(_address(folder).read_text())
        yield Broker(port, internal)


def _address(folder: Path) -> Path:
    return folder / "address.json"


def _start(folder: Path) -> None:
    """Starts it without `Popen`, which complains where it is forgotten while its process goes on."""
    log = folder / "keeper.log"
    with log.open("ab") as output, open(os.devnull, "rb") as nothing:
        handed = [(os.POSIX_SPAWN_DUP2, file.fileno(), number) for number, file in enumerate((nothing, output, output))]
        command = [sys.executable, "-m", "bench.harness.servers.shared_kafka", str(folder)]
        keeper = os.posix_spawn(sys.executable, command, os.environ, file_actions=handed, setsid=True)
    deadline = time.monotonic() + START_SECONDS
    while not _address(folder).exists():
        if os.waitpid(keeper, os.WNOHANG)[0] or time.monotonic() > deadline:
            raise ServerFailed(f"the shared Kafka did not start.\n{log.read_text(errors='replace')}")
        time.sleep(POLL_SECONDS)


def _keep(folder: Path) -> None:
    """Start it, tell where it is, and end it once nobody holds it."""
    with Kafka() as server, (folder / "users").open("a") as users:
        written = folder / "address.new"
        written.write_text(json.dumps([server.port, server.internal]))
        written.rename(_address(folder))
        fcntl.flock(users, fcntl.LOCK_EX)
        _address(folder).unlink()


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
