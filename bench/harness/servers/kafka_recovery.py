"""After a crash: the controller alone declares the broker's old session dead, before the broker comes back.

A lone node that crashed finds in its own metadata that it leads every partition, so it loads its transactions and
begins to end them.  Seconds later its old session expires, and for a moment no partition has a leader.  A transaction
that the coordinator is ending in that moment is noted as complete *without* its marker in the partition ("likely
deleted already"), and readers of committed records wait there for ever (seen in about half of the kills right after
a commit, Kafka 4.3.1).  Where other brokers take over the partitions of a dead one, this moment does not exist.
"""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from bench.harness.servers.guard import guard
from bench.harness.servers.place import environment, run_as

SETTINGS = """\
process.roles=controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@{address}
listeners=CONTROLLER://{address}
log.dirs={data}
broker.session.timeout.ms=100
"""
ACTIVE = "Activated periodic tasks"
FENCED = "Fencing broker 1 at epoch"
POLL_SECONDS = 0.02


def crashed(data: Path) -> bool:
    """Tell whether a broker ran on `data` and did not end in order."""
    return data.exists() and not (data / ".kafka_cleanshutdown").exists()


def fence(java: list[str], data: Path, address: str, account: str | None, seconds: float) -> str:
    """Run the controller on `data` until no session of a broker is left.  Returns its log if it did not get there.

    `java`: program and options that run `kafka.Kafka` with the class's messages at level info; `address`: the
    controller's host:port.
    """
    settings, log = data.parent / "fencing.properties", data.parent / "fencing.log"
    settings.write_text(SETTINGS.format(address=address, data=data))
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*java, str(settings)],
            env=environment(data.parent),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **run_as(account),
        )
    guard.process(process.pid, signal.SIGKILL)
    try:
        return "" if _fenced(process, log, time.monotonic() + seconds) else log.read_text(errors="replace")
    finally:
        process.terminate()
        process.wait()
        guard.ended(process.pid)


def _fenced(process: subprocess.Popen[bytes], log: Path, deadline: float) -> bool:
    """A broker that had no session is not fenced: the active controller has nothing to do for twenty sessions' time."""
    idle = deadline
    while process.poll() is None and time.monotonic() < deadline:
        said = log.read_text(errors="replace")
        if FENCED in said or time.monotonic() > idle:
            return True
        if ACTIVE in said:
            idle = min(idle, time.monotonic() + 2.0)
        time.sleep(POLL_SECONDS)
    return False
