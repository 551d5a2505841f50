"""Takeovers have a deadline: rows flow again soon after whoever coordinates was killed, and at once after a farewell.

The deadlines are what users are promised (docs/how-to/scale-out.md), so they are in the tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from bench.harness.rig import Rig
from bench.harness.servers import Server
from bench.harness.servers.kafka import Kafka
from bench.harness.workers import Workers
from bench.harness.workload.churn import Churn
from bench.harness.workload.family import Family
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several
from tidelock.adapters.kafka.membership import consumer_group

GROUPS = 3
RATE = 400
TAKEOVER_SECONDS = 12.0  # as promised
LONGEST_SECONDS = 120.0  # on a machine full of other tests: whoever hangs takes longer
FAREWELL_SECONDS = 2.0
KILLS = 2
MANY_KILLS = 10


@pytest.mark.proof
@pytest.mark.parametrize(
    ("kills", "within"),
    [(KILLS, LONGEST_SECONDS), pytest.param(MANY_KILLS, TAKEOVER_SECONDS, marks=pytest.mark.proof)],
)
def test_every_takeover_in_a_series_of_kills_is_soon(
    kills: int, within: float, make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka
) -> None:
    """Whoever coordinates is killed, and comes back when another has taken over, just before that one is killed."""
    rig = make_rig(mariadb, postgres, "series", log=kafka.url(), lanes=2, batch_rows=200)
    workload = rig.make(Several(Mix(), Churn(), Family()))
    took: list[str] = []
    with Workers(rig, ["w1", "w2", "w3"]) as workers:
        workers.start()
        work = rig.work(workload, 1_000_000, 5, RATE)
        try:
            workers.until_owned(GROUPS)
            workers.until_flowing()
            for _ in range(kills):
                gone = workers.coordinator
                workers.kill(gone, back_after=None)
                seconds = workers.until_flowing(within)
                took.append(f"{gone}: {seconds:.1f} s")
                workers.start(gone)
            print(f"rows flowed again after {', '.join(took)}")
            workers.until_flowing()
        finally:
            work.stop()
        workers.until_caught_up()
        workers.assert_exact()
        assert not workers.restarts_of_their_own, workers.said()
        said = "".join(place.said() for place in workers.places.values())
        assert "nothing from Kafka" not in said, "nobody published, so nothing was owed"


@pytest.mark.proof
@pytest.mark.parametrize("within", [LONGEST_SECONDS, FAREWELL_SECONDS])
def test_a_worker_that_is_stopped_hands_its_groups_over_at_once(
    within: float, make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka
) -> None:
    """Under load, by the one that coordinates, which has a name and so a place that a crash would keep.

    It has given the place back when it ends, so nobody waits for its session to expire.
    """
    rig = make_rig(mariadb, postgres, "farewell", log=kafka.url(), lanes=2, batch_rows=200)
    workload = rig.make(Several(Mix(), Churn(), Family()))
    with Workers(rig, ["w1", "w2"]) as workers:
        workers.start()
        work = rig.work(workload, 1_000_000, 5, RATE)
        try:
            workers.until(lambda: set(workers.owners.values()) == {"w1", "w2"}, "both have groups")
            workers.until_flowing()
            leaving = workers.coordinator
            (heir,) = {"w1", "w2"} - {leaving}
            asked = time.monotonic()
            process = workers.terminate(leaving)
            assert process.code(LONGEST_SECONDS) == 0, workers.said()
            left = kafka.members(consumer_group(rig.name))
            assert not [member for member in left if member.startswith(leaving)], left
            rest = within - (time.monotonic() - asked)
            workers.until(lambda: set(workers.owners.values()) == {heir}, "another owner of every group", rest)
            workers.until(lambda: workers.coordinator == heir, "another coordinator")
            workers.until_flowing(LONGEST_SECONDS)
        finally:
            work.stop()
        workers.until_caught_up()
        workers.assert_exact()
