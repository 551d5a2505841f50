"""A worker ends when it is told to, and when Kafka's records do not reach it any more."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.kafka import Kafka
from bench.harness.tidelock import Process
from bench.harness.workload.churn import Churn

ROOT = Path(__file__).parents[2]
DEAF = """
import sys
from tidelock.adapters.workers.partition import PartitionLog
from tidelock.adapters.workers import worker
worker.LOST_SECONDS = 5.0
PartitionLog.offer = lambda *_: None
from tidelock.adapters.cli import main
sys.argv = ["tidelock", "worker", sys.argv[1]]
main()
"""
SLOW = """
import asyncio, atexit, sys
from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.workers.partition import PartitionLog
find, offer, asked, found = Places.find, PartitionLog.offer, [], []

async def slow(self, partition, position, *, to_come):
    asked.append(position)
    if len(asked) > 1:
        await asyncio.sleep(6)
    found.append(await find(self, partition, position, to_come=to_come))
    return found[-1]

def deaf_at_first(self, *record):
    if len(found) > 1:
        offer(self, *record)

Places.find, PartitionLog.offer = slow, deaf_at_first
atexit.register(lambda: print(f"places looked for: {len(asked)}"))
from tidelock.adapters.cli import main
sys.argv = ["tidelock", "worker", sys.argv[1], "--until-caught-up"]
main()
"""

FAR_FROM_KAFKA = """
import asyncio, sys
from tidelock.adapters.kafka.offset_finder import Places
enter = Places.__aenter__

async def late(self):
    await asyncio.sleep(10)
    return await enter(self)

Places.__aenter__ = late
from tidelock.adapters.cli import main
sys.argv = ["tidelock", "worker", sys.argv[1], "--until-caught-up"]
main()
"""


@pytest.mark.proof
def test_a_worker_joins_once_it_can_find_places(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka
) -> None:
    """Kafka may assign partitions at once, and each of them asks for the end of its log first."""
    rig = make_rig(mariadb, postgres, "far", lanes=2, log=kafka.url())
    rig.load(rig.make(Churn()), 100)
    done = subprocess.run(
        [sys.executable, "-c", FAR_FROM_KAFKA, str(rig.feed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rig.assert_exact()


@pytest.mark.proof
def test_asking_again_leaves_the_answer_its_time(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka
) -> None:
    """The consumer drops what comes first, and finding a place takes longer than the time between two looks.

    The first place, that of the first ask, and where the machine is slow of the second.
    """
    rig = make_rig(mariadb, postgres, "slow", lanes=2, log=kafka.url())
    rig.load(rig.make(Churn()), 100)
    done = subprocess.run(
        [sys.executable, "-c", SLOW, str(rig.feed)], cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing from Kafka" in done.stdout + done.stderr
    looked = int(done.stdout.rpartition("places looked for: ")[2])
    assert 2 <= looked <= 3, done.stdout + done.stderr
    rig.assert_exact()


@pytest.mark.proof
def test_a_worker_that_hears_nothing_says_so_and_ends(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka
) -> None:
    rig = make_rig(mariadb, postgres, "deaf", lanes=2, log=kafka.url())
    rig.load(rig.make(Churn()), 100)
    done = subprocess.run(
        [sys.executable, "-c", DEAF, str(rig.feed)], cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "nothing from Kafka" in done.stderr


def test_a_worker_whose_feed_has_no_plan_yet_stops_at_once(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka
) -> None:
    rig = make_rig(mariadb, postgres, "planless", lanes=2, log=kafka.url())
    rig.make(Churn())
    rig.target_url = "postgresql://postgres@127.0.0.1:1/postgres"
    worker = Process(["worker", str(rig.feed)], rig.output)
    try:
        until(lambda: "has no coordinator" in rig.said(), "a coordinator without its target")
        worker.signal(signal.SIGHUP)
        assert worker.code(90.0) == 0, rig.said()
    finally:
        if worker.running:
            worker.kill()
