"""Load at an even pace: transactions of ten row changes, each begun when it is due, in a process of its own.

`bench.harness.workload` sends paced load in 20 packets a second, which is a burst every 50 ms: a latency measured under
it is that of the burst.  Here every transaction is one round trip at its own moment.  The statements are made
beforehand, so that the pace is the server's and the clock's.  A transaction that is late because the one before it took
long is sent at once; how far behind the pace fell is kept.

The order comes as JSON on stdin; the answer is JSON on stdout.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from typing import Final

from bench.harness.session import connect
from bench.harness.workload.mix import Mix
from bench.harness.workload.workload import render_mysql

TRANSACTION_CHANGES: Final = 10
SECONDS_BEFORE_THE_FIRST: Final = 0.2


@dataclasses.dataclass(frozen=True)
class Order:
    """`url`: of the source, with the database.  `rate`: changes a second, for `seconds`."""

    url: str
    rate: float
    seconds: float
    seed: int = 1


@dataclasses.dataclass(frozen=True)
class Paced:
    """`commits`: of each transaction the last version that it wrote, and when its COMMIT returned (epoch seconds).

    `late_ms`: how long after its due moment the latest transaction was begun.
    """

    begun: float
    ended: float
    changes: int
    late_ms: float
    commits: list[tuple[int, float]]

    @property
    def kept_rate(self) -> float:
        """Changes a second, as they were committed."""
        return self.changes / (self.ended - self.begun)


class Pacer:
    """The process.  `wait()` returns what it did."""

    def __init__(self, order: Order) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.latency.pacer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._order = order

    def wait(self) -> Paced:
        """Raises RuntimeError if the process fails; what it said is on stderr."""
        answer, _ = self._process.communicate(json.dumps(dataclasses.asdict(self._order)))
        if self._process.returncode:
            raise RuntimeError(f"the pacer ended with exit code {self._process.returncode}")
        return Paced(**json.loads(answer))


def workload() -> Mix:
    """With the version column, which says of a row at the target which change wrote it."""
    return Mix()


def pace(order: Order) -> Paced:
    mix = workload()
    mix.seed(order.seed)
    packets: list[tuple[int, str]] = []
    for _ in range(max(1, round(order.rate * order.seconds / TRANSACTION_CHANGES))):
        transaction = mix.transaction(TRANSACTION_CHANGES)
        packets.append((mix.version, render_mysql([transaction])))
    session, commits, late = connect(order.url), [], 0.0
    try:
        begun = time.time() + SECONDS_BEFORE_THE_FIRST
        for number, (version, sql) in enumerate(packets):
            due = begun + number * TRANSACTION_CHANGES / order.rate
            if (wait := due - time.time()) > 0:
                time.sleep(wait)
            else:
                late = max(late, -wait)
            session.send(sql)
            commits.append((version, time.time()))
    finally:
        session.close()
    return Paced(begun, time.time(), len(packets) * TRANSACTION_CHANGES, round(late * 1000, 1), commits)


def main() -> None:
    json.dump(dataclasses.asdict(pace(Order(**json.load(sys.stdin)))), sys.stdout)


if __name__ == "__main__":
    main()
