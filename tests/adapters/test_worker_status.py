"""Workers and `tidelock status` say what is true: halts, totals, one checkpoint, and no line a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import NotEnoughReplicasError

from bench.harness.rig import Rig
from bench.harness.servers import Postgres, Server
from bench.harness.servers.kafka import Kafka
from bench.harness.workers import Workers
from bench.harness.workload.churn import Churn
from bench.harness.workload.family import Family
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several
from tidelock.adapters.kafka.topics import changes_topic
from tidelock.adapters.ports.capture_messages import Failed
from tidelock.adapters.ports.source_errors import Unreachable
from tidelock.adapters.runtime.progress import Hindered, Sample
from tidelock.adapters.workers.group import of_kafka
from tidelock.adapters.workers.producing import explained
from tidelock.engine.model.records import Position

GROUPS = 3
RATE = 300


def lines(workers: Workers, name: str, behind: int = 0) -> list[str]:
    """The progress that a worker has printed, behind a place of its output."""
    return [line.partition(": ")[2] for line in workers.places[name].said()[behind:].splitlines() if " rows/s" in line]


def test_kafka_s_refusals_are_not_said_of_the_source() -> None:
    """Both who publishes the log and a group that reads it tell."""
    assert explained(NotEnoughReplicasError()).at == "log in Kafka"
    assert Failed.of(Unreachable("lost", "wait")).at == "source"
    seen = of_kafka(Sample(hindrances=(Hindered("source", 2.0, "no answer"), Hindered("target", 3.0, "full"))))
    assert [one.place for one in seen.hindrances] == ["log in Kafka", "target"]
    assert str(seen.hindrances[0]) == "waits for the log in Kafka for 2 s: no answer"


async def spoil(kafka: Kafka, feed: str, partition: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
    await producer.start()
    try:
        await producer.send_and_wait(changes_topic(feed), b"\x63hello", partition=partition)
    finally:
        await producer.stop()


@pytest.mark.proof
def test_a_group_that_has_halted_is_not_running(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka
) -> None:
    rig = make_rig(mariadb, postgres, "ailing", lanes=2, log=kafka.url())
    rig.load(rig.make(Several(Mix(), Churn(), Family())), 300)
    with Workers(rig, ["w1"]) as workers:
        workers.start()
        workers.until_caught_up()
        asyncio.run(spoil(kafka, rig.name, 1))
        workers.until(lambda: lines(workers, "w1")[-1].startswith("halted, "), "the worker says that it has halted")
        assert "group 1: " in lines(workers, "w1")[-1] and "version 99" in lines(workers, "w1")[-1]
        said = rig.command("status", "@", "--json")
        assert said.code == 4 and said.json["activity"] == "halted"
        states = {group["group"]: group["state"] for group in said.json["scale_out"]["groups"]}
        assert states == {0: "running", 1: "halted", 2: "running"}, states


@pytest.mark.proof
def test_totals_do_not_fall_and_there_is_one_checkpoint(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka
) -> None:
    """While a worker dies, another takes its groups, and the first comes back."""
    rig = make_rig(mariadb, postgres, "totals", lanes=2, log=kafka.url(), batch_rows=100)
    workload = rig.make(Several(Mix(), Churn(), Family()))
    most = dict.fromkeys(range(GROUPS), 0)

    def looked() -> bool:
        seen = rig.command("status", "@", "--json").json
        groups = seen["scale_out"]["groups"] if seen["scale_out"] is not None else []
        if not groups or not all(group["checkpoint"] for group in groups):
            return False  # not every group has begun
        places = [msgspec.convert(group["checkpoint"], Position) for group in groups]
        assert seen["checkpoint"] == seen["scale_out"]["checkpoint"]
        assert msgspec.convert(seen["checkpoint"], Position).order == min(place.order for place in places)
        for group in groups:
            assert group["rows"] >= most[group["group"]], (group, most)
            most[group["group"]] = group["rows"]
        return set(workers.owners.values()) == owners

    with Workers(rig, ["w1", "w2"]) as workers:
        workers.start()
        work = rig.work(workload, 1_000_000, 5, RATE)
        try:
            owners = {"w1", "w2"}
            workers.until(looked, "both have groups")
            workers.until_flowing()
            gone = workers.coordinator
            workers.kill(gone, back_after=None)
            owners = {"w1", "w2"} - {gone}
            workers.until(looked, "one has all groups")
            workers.until_flowing()
            workers.start(gone)
            owners = {"w1", "w2"}
            workers.until(looked, "both have groups again")
            workers.until_flowing()
        finally:
            work.stop()
        workers.until_caught_up()
        (stayed,) = {"w1", "w2"} - {gone}
        shown = [int(line.split(", ")[1].split(" ")[0].replace(",", "")) for line in lines(workers, stayed)]
        assert shown == sorted(shown), shown
        workers.assert_exact()


@pytest.mark.proof
def test_a_database_that_is_away_is_not_told_each_second(
    make_rig: Callable[..., Rig], make_postgres: Callable[..., Postgres], mariadb: Server, kafka: Kafka
) -> None:
    """Workers that begin while their target is away, and go on trying."""
    target = make_postgres()
    rig = make_rig(mariadb, target, "quiet", lanes=2, log=kafka.url())
    rig.load(rig.make(Several(Mix(), Churn(), Family())), 300)
    with Workers(rig, ["w1"]) as workers:
        workers.start()
        workers.until_caught_up()
        assert workers.stop() == [0]
        before = len(workers.places["w1"].said())
        target.stop()
        workers.start()
        workers.until(lambda: len(lines(workers, "w1", before)) > 6, "progress over half a minute")
        said = workers.places["w1"].said()[before:]
        assert said.count("has no coordinator") == 1, said
        assert said.count("cannot be taken over") <= GROUPS, said
        target.start()
        rig.at_source(f"DELETE FROM {rig.tables[0]} LIMIT 1")
        workers.until_caught_up()
        assert rig.differences().total == 0
