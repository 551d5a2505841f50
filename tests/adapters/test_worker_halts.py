"""Halts of workers over Kafka: what they say is done, literally, and then no row differs.

Rows came, went and changed before and behind what halts; a feed that reports itself caught up over them is no way out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaProducer

from bench.harness.rig import Rig
from bench.harness.servers import Server
from bench.harness.servers.kafka import Kafka
from bench.harness.workers import Workers
from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.kafka.topics import changes_topic
from tidelock.adapters.kafka.wire import encode
from tidelock.engine.model.log_batch import LogBatch

Write = Callable[[bytes], Awaitable[Any]]


def two_tables(rig: Rig) -> None:
    rig.table("account", "id bigint PRIMARY KEY, v int")
    rig.table("note", "id bigint PRIMARY KEY, v int")
    rig.at_source("INSERT INTO account VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO note VALUES (1, 1), (2, 2)")


def alarm(rig: Rig) -> list[str]:
    """Returns the alarm that `tidelock status` shows; nothing where there is none."""
    said = rig.command("status", "@", "--json")
    assert (said.code == 4) is bool(said.json["halted"])
    return [str(part) for part in said.json["halted"]["alarm"]] if said.json["halted"] else []


async def foreign(places: Places, write: Write) -> None:
    """Something else took the topic for its own."""
    await write(b"\x63hello")


async def uneven(places: Places, write: Write) -> None:
    """One partition has a record more than the others: it is all that shows where a broker lost the others'."""
    end = await places.last(0)
    assert end is not None
    behind = msgspec.structs.replace(end, offset=end.offset + 1)
    await write(encode(LogBatch(end, behind), origin="", plan=1))


async def spoil(kafka: Kafka, feed: str, how: Callable[[Places, Write], Awaitable[None]]) -> None:
    topic, options = changes_topic(feed), {"bootstrap_servers": kafka.bootstrap}
    producer = AIOKafkaProducer(**options)
    await producer.start()
    try:
        async with Places(options, topic) as places:
            await how(places, lambda record: producer.send_and_wait(topic, record, partition=0))
    finally:
        await producer.stop()


CAUSES = {
    "uneven partitions": (uneven, "do not end at the same position"),
}


@pytest.mark.proof
@pytest.mark.parametrize("cause", CAUSES)
def test_the_advice_of_a_halt(
    cause: str, mariadb: Server, postgres: Server, kafka: Kafka, make_rig: Callable[..., Rig]
) -> None:
    """Uneven partitions are found by who begins to coordinate."""
    how, words = CAUSES[cause]
    rig = make_rig(mariadb, postgres, "torn", log=kafka.url())
    two_tables(rig)

    def halted() -> list[str] | None:
        found = rig.command("status", "@", "--json").json["halted"]
        return found and [str(part) for part in found["alarm"]]

    with Workers(rig, ["w1"]) as workers:
        workers.start()
        workers.until_caught_up()
        if how is uneven:
            assert workers.stop() == [0], workers.said()
        rig.at_source("DELETE FROM account WHERE id = 3", "INSERT INTO note VALUES (4, 4)")
        asyncio.run(spoil(kafka, rig.name, how))
        rig.at_source("DELETE FROM account WHERE id = 2", "UPDATE note SET v = 22", "INSERT INTO account VALUES (5, 5)")
        workers.start()
        workers.until(lambda: halted() is not None, "the halt")
        _, message, hint, *_ = halted() or []
        assert words in message and "end all its workers, `tidelock resync FEED`" in hint, (message, hint)
        assert rig.command("resume").code == 0
        workers.until(lambda: halted() is not None, "the halt stays until its advice is followed")
        workers.copy_anew()
    rig.at_source("INSERT INTO account VALUES (6, 6)", "DELETE FROM note WHERE id = 4")
    with Workers(rig, ["w2"]) as workers:
        workers.work_off()
    rig.assert_exact()


@pytest.mark.proof
def test_one_foreign_record_is_passed_over(
    mariadb: Server, postgres: Server, kafka: Kafka, make_rig: Callable[..., Rig]
) -> None:
    """Found while workers run, by the group that has it.  It is passed over for good: others that begin later, to
    apply or to publish, meet it again.
    """
    rig = make_rig(mariadb, postgres, "foreign", log=kafka.url())
    two_tables(rig)
    with Workers(rig, ["w1", "w2"]) as workers:
        workers.start("w1")
        workers.until_caught_up()
        asyncio.run(spoil(kafka, rig.name, foreign))
        rig.at_source("DELETE FROM account WHERE id = 2", "UPDATE note SET v = 22", "INSERT INTO account VALUES (5, 5)")
        workers.until(lambda: bool(alarm(rig)), "the halt")
        _, message, hint, *_ = alarm(rig)
        assert "a record of version 99" in message and "of partition 0" in message
        advised = hint.partition("`tidelock ")[2].partition("`")[0].replace("FEED", "@").split()
        assert advised[:2] == ["log", "skip"], hint
        refused = rig.command(*advised[:-1], "0")
        assert refused.code == 1 and "the publisher wrote it" in refused.err, refused
        said = rig.command(*advised, "--json")
        assert said.code == 0, said
        assert bytes.fromhex(said.json["value"]) == b"\x63hello"
        workers.until_caught_up()
        assert not alarm(rig)
        workers.assert_exact()
        kept = workers.watch.seen.skipped[0, int(advised[-1])]
        assert kept.value == b"\x63hello"
        assert workers.stop() == [0]
        rig.at_source("INSERT INTO account VALUES (6, 6)", "DELETE FROM note WHERE id = 2")
        workers.start("w2")
        workers.until_caught_up()
        workers.assert_exact()


@pytest.mark.proof
@pytest.mark.parametrize("anew", [False, True], ids=["deleted", "made anew"])
def test_a_changes_topic_that_is_deleted_is_published_again(
    anew: bool, mariadb: Server, postgres: Server, kafka: Kafka, make_rig: Callable[..., Rig]
) -> None:
    """Deleted while workers run and everything was applied: one halt, which status and check tell, and its advice."""
    rig = make_rig(mariadb, postgres, "deleted", log=kafka.url())
    two_tables(rig)
    with Workers(rig, ["w1", "w2"]) as workers:
        workers.start("w1")
        workers.until_caught_up()
        kafka.delete_topic(changes_topic(rig.name))
        if anew:
            kafka.create_topic(changes_topic(rig.name))
        rig.at_source("DELETE FROM account WHERE id = 2", "UPDATE note SET v = 22", "INSERT INTO account VALUES (5, 5)")
        workers.until(lambda: bool(alarm(rig)), "the halt")
        _, message, hint, *_ = alarm(rig)
        assert "is gone" in message and "`tidelock resume FEED`" in hint, (message, hint)
        checked = rig.command("check", "@")
        assert checked.code == 1 and message in checked.out, checked
        workers.start("w2")
        workers.until(lambda: ": halted, " in workers.places["w2"].said(), "another worker tells it too")
        assert kafka.topics().get(changes_topic(rig.name), 0) == int(anew), "a worker that begins makes no topic"
        assert rig.command("resume").code == 0
        workers.until_caught_up()
        assert not alarm(rig)
        workers.assert_exact()
