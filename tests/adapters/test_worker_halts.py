"""Halts of workers over Kafka: what they say is done, literally, and then no row differs.

Rows came, went and changed before and behind what halts; a feed that reports itself caught up over them is no way out.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench.harness.rig import Rig
from bench.harness.servers import Server
from bench.harness.servers.kafka import Kafka
from bench.harness.workers import Workers
from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.kafka.topics import changes_topic
from tidelock.adapters.kafka.wire import decode, encode
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


@pytest.mark.proof
def test_records_that_were_copied_from_another_feeds_topic_are_passed_over(
    mariadb: Server, postgres: Server, kafka: Kafka, make_rig: Callable[..., Rig]
) -> None:
    """They are of the same source and target, so they join ours without a gap and would be taken in place of ours."""
    rig = make_rig(mariadb, postgres, "copied", log=kafka.url(), partitions=1)
    two_tables(rig)
    other = make_rig(mariadb, postgres, "theirs", log=kafka.url(), partitions=1)
    other.rules, other.start_at = [{"source": f"{rig.schema}.note"}], rig.start_at
    rig.rules = [{"source": f"{rig.schema}.account"}]
    with Workers(rig, ["w1"]) as workers, Workers(other, ["x1"]) as others:
        workers.start()
        others.start()
        workers.until_caught_up()
        others.until_caught_up()
        assert workers.stop() == [0]
        end = asyncio.run(records(kafka, rig.name))[-1]
        rig.at_source("INSERT INTO account VALUES (5, 5)", "INSERT INTO note VALUES (5, 5)", "DELETE FROM note")
        others.until_caught_up()
        theirs = asyncio.run(records(kafka, other.name))
        follow = next(at for at, one in enumerate(theirs) if decode(one).batch.prev == decode(end).batch.last)

        async def copied(places: Places, write: Write) -> None:
            for one in theirs[follow : follow + 3]:
                await write(one)

        asyncio.run(spoil(kafka, rig.name, copied))
        rig.at_source("DELETE FROM account WHERE id = 2")
        workers.start()

        def over(halt: str) -> bool:
            return halt not in alarm(rig)

        for _ in range(3):
            workers.until(lambda: bool(alarm(rig)), "the halt")
            _, message, hint, *_ = alarm(rig)
            assert f"a record of {changes_topic(other.name)}" in message, message
            advised = hint.partition("`tidelock ")[2].partition("`")[0].replace("FEED", "@").split()
            assert rig.command(*advised).code == 0
            workers.until(functools.partial(over, message), "the end of the halt")
        workers.until_caught_up()
        workers.assert_exact()


async def records(kafka: Kafka, feed: str) -> list[bytes]:
    """All of the feed's first partition."""
    place = TopicPartition(changes_topic(feed), 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()
    try:
        consumer.assign([place])
        end, found = (await consumer.end_offsets([place]))[place], list[bytes]()
        while await consumer.position(place) < end:
            for got in (await consumer.getmany(place, timeout_ms=200)).values():
                found += [one.value for one in got if one.value is not None]
        return found
    finally:
        await consumer.stop()


@pytest.mark.proof
def test_a_topic_whose_limit_was_lowered_takes_records_again(
    mariadb: Server, postgres: Server, kafka: Kafka, make_rig: Callable[..., Rig]
) -> None:
    """The setting that the halt names is enough for all records that come, and not for the first alone."""
    rig = make_rig(mariadb, postgres, "lowered", log=kafka.url())
    two_tables(rig)
    rig.table("big", "id bigint PRIMARY KEY, t longtext", "id bigint PRIMARY KEY, t text")
    with Workers(rig, ["w1"]) as workers:
        workers.start()
        workers.until_caught_up()
        kafka.set_topic(changes_topic(rig.name), max_message_bytes=50_000)
        rig.at_source("INSERT INTO big SELECT seq, REPEAT('x', 3000 + seq) FROM seq_1_to_900")
        workers.until(lambda: bool(alarm(rig)), "the halt")
        _, message, hint, *_ = alarm(rig)
        assert "the changes topic takes 49,872 (max.message.bytes)" in message, message
        assert "`tidelock resume FEED`" in hint, hint
        setting = re.search(r"--add-config max\.message\.bytes=(\d+)`", hint)
        assert setting is not None, hint
        kafka.set_topic(changes_topic(rig.name), max_message_bytes=int(setting[1]))
        assert rig.command("resume").code == 0
        workers.until_caught_up()
        assert not alarm(rig)
        workers.assert_exact()


@pytest.mark.proof
def test_a_topic_that_refuses_records_is_said_with_what_helps(
    mariadb: Server, postgres: Server, kafka: Kafka, make_rig: Callable[..., Rig]
) -> None:
    """It is no halt: the feed says RUNNING, so its status and its worker's log say why nothing comes."""
    rig = make_rig(mariadb, postgres, "compacted", log=kafka.url())
    two_tables(rig)
    with Workers(rig, ["w1"]) as workers:
        workers.start()
        workers.until_caught_up()
        kafka.set_topic(changes_topic(rig.name), cleanup_policy="compact")
        rig.at_source("INSERT INTO account (id, v) VALUES (50, 0)")
        workers.until(lambda: workers.state is not None and bool(workers.state.hindrance), "the hindrance")
        for shown in (rig.command("status").out, workers.said()):
            assert "`tidelock check FEED` says of the topics' settings" in shown, shown
        checked = rig.command("check", "@")
        assert "has cleanup.policy=compact; it needs delete" in checked.out, checked
        kafka.set_topic(changes_topic(rig.name), cleanup_policy="delete")
        workers.until_caught_up()
        workers.assert_exact()
