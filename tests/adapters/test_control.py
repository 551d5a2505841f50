"""The control topic on a real broker: the newest by key, zombies shut out, over a restart of the broker."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka.errors import KafkaError

from bench.harness.numbers import numbers
from bench.harness.servers.kafka import Kafka
from tidelock.adapters.config import loader
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka import topics
from tidelock.adapters.kafka.connection import LogError
from tidelock.adapters.kafka.control import FEED, PLAN, ControlTopic, SoleWriter, read
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.group_reports import FeedState, GroupReport, Statement

_names = numbers()
STATEMENT = Statement("0-1", 7, Position("bin.000001", 20))
PLAN_1 = TablePartitioning(
    1, Position("bin.000001", 4), (Position("bin.000001", 4),), ((TableName("shop", "account"), 0),)
)


def at(offset: int) -> Position:
    return Position("bin.000001", offset, gtids=f"0-1-{offset}")


def report(group: int, offset: int, epoch: int = 1, **more: Any) -> GroupReport:
    return GroupReport(group, epoch, "w1", "running", at(offset), at(offset), **more)


def state(offset: int, epoch: int = 1, **more: Any) -> FeedState:
    return FeedState(epoch, "w1", "running", 1, at(offset), at(offset), at(offset), **more)


def feed_of(kafka: Kafka, folder: Path) -> Feed:
    path = folder / "control.yaml"
    path.write_text(
        f"feed: control{next(_names)}\nsource: mysql://repl@127.0.0.1:1\ntarget: mysql://tide@127.0.0.1:1\n"
        f"tables: [{{source: a.b}}]\nlog: {kafka.url()}\n"
    )
    return loader.load(path)


@pytest.fixture
async def feed(kafka: Kafka, tmp_path: Path) -> Feed:
    feed = feed_of(kafka, tmp_path)
    await topics.ensure(feed.log_url, feed.name, 1)
    return feed


async def until(true: Callable[[], Any], what: str) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert true(), what


async def test_what_is_written_is_read_by_everyone_from_the_beginning(feed: Feed) -> None:
    pen = SoleWriter(feed)
    await pen.open()
    async with ControlTopic(feed) as one:
        await one.ready.wait()
        assert (one.seen.plan, one.state, one.seen.groups) == (None, None, {})
        await pen.write(PLAN, PLAN_1)
        await pen.write(FEED, state(5, passed=STATEMENT, refused_votes={0: 3}))
        await one.write("group/0", report(0, 5, vote=STATEMENT))
        await one.write("group/0", report(0, 6))
        async with ControlTopic(feed) as other:
            await other.ready.wait()
            for seen in (other.seen, await read(feed)):
                assert seen.plan == PLAN_1
                assert seen.state == state(5, passed=STATEMENT, refused_votes={0: 3})
                assert seen.groups == {0: report(0, 6)}
        await until(lambda: one.seen.groups == {0: report(0, 6)}, "one's own report comes back")
    await pen.close()


async def test_reports_of_an_older_owner_are_ignored(feed: Feed) -> None:
    async with ControlTopic(feed) as control:
        heard: list[Any] = []
        stop = control.watch(heard.append)
        for said in (report(0, 5, epoch=2), report(0, 9, epoch=1), report(0, 6, epoch=2)):
            await control.write("group/0", said)
        await until(lambda: control.seen.groups.get(0) == report(0, 6, epoch=2), "the newest")
        assert heard == [report(0, 5, epoch=2), report(0, 6, epoch=2)]
        stop()
        await control.write("group/0", report(0, 7, epoch=2))
        await until(lambda: control.seen.groups[0].resolved == at(7), "the next")
        assert len(heard) == 2


async def test_a_new_pen_shuts_older_ones_out_and_drops_what_they_were_writing(feed: Feed) -> None:
    idle, busy, pen = SoleWriter(feed), SoleWriter(feed), SoleWriter(feed)
    await idle.open()
    await idle.write(FEED, state(5))
    await busy.open()
    with pytest.raises(KafkaError):
        await idle.write(FEED, state(98))
    await busy._producer.begin_transaction()
    await busy._producer.send_and_wait(topics.control_topic(feed.name), b"{}", FEED.encode(), partition=0)
    await pen.open()
    with pytest.raises(KafkaError):
        await busy._producer.commit_transaction()
    await pen.write(FEED, state(6, epoch=2))
    async with asyncio.timeout(30):  # a commit is answered before readers see it
        while (await read(feed)).state != state(6, epoch=2):
            pass
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    for writer in (idle, busy, pen):
        await writer.close()
    del idle, busy, writer
    gc.collect()
    assert reported == []  # errors that nobody awaited would be told when they are collected


async def test_waiting_for_a_plan_and_for_a_verdict(feed: Feed) -> None:
    pen = SoleWriter(feed)
    await pen.open()
    async with ControlTopic(feed) as control:
        plan = asyncio.create_task(control.plan_with(0))
        passed = asyncio.create_task(control.verdict(STATEMENT))
        mine = asyncio.create_task(control.verdict(STATEMENT, (0, 2)))
        await pen.write(PLAN, PLAN_1)
        await until(lambda: control.seen.plan == PLAN_1, "the plan")
        assert not plan.done(), "it is stored, and not announced"
        await pen.write(FEED, state(5))
        assert await plan == PLAN_1
        await pen.write(FEED, state(5, refused=STATEMENT, refused_votes={0: 1}))
        assert (await passed).refused == STATEMENT
        assert not mine.done()  # refused was an older vote
        await pen.write(FEED, state(5, refused=STATEMENT, refused_votes={0: 2}))
        assert (await mine).refused_votes == {0: 2}
        later = asyncio.create_task(control.verdict(STATEMENT, (0, 3)))
        await pen.write(FEED, state(5, passed=STATEMENT))
        assert (await later).passed == STATEMENT
    await pen.close()


async def test_a_foreign_record_is_passed_by(feed: Feed) -> None:
    async with ControlTopic(feed) as control:
        await control.write("nonsense", report(0, 1))
        await control.write(PLAN, report(0, 1))
        await control.write("group/0", report(0, 1))
        await until(lambda: control.seen.groups == {0: report(0, 1)}, "the report behind it")
        assert control.seen.plan is None


@pytest.mark.proof
async def test_a_restart_of_the_broker_loses_nothing(make_kafka: Callable[..., Kafka], tmp_path: Path) -> None:
    kafka = make_kafka()
    feed = feed_of(kafka, tmp_path)
    await topics.ensure(feed.log_url, feed.name, 1)
    async with ControlTopic(feed) as control:
        await control.write("group/0", report(0, 1))
        await until(lambda: 0 in control.seen.groups, "the first")
        await asyncio.to_thread(kafka.kill)
        writing = asyncio.create_task(control.write("group/0", report(0, 2)))
        await asyncio.to_thread(kafka.start)
        async with asyncio.timeout(60):
            await writing
        await until(lambda: control.seen.groups[0].resolved == at(2), "the one written meanwhile")
        assert (await read(feed)).groups == {0: report(0, 2)}


async def test_before_any_worker_has_run_nothing_is_said(kafka: Kafka, tmp_path: Path) -> None:
    seen = await read(feed_of(kafka, tmp_path))
    assert (seen.plan, seen.state, seen.groups) == (None, None, {})


async def test_a_broker_that_is_not_there_is_said_plainly(feed: Feed) -> None:
    assert feed.log_url is not None
    with pytest.raises(LogError, match=r"127\.0\.0\.1:1/"):
        await read(msgspec.structs.replace(feed, log_url=msgspec.structs.replace(feed.log_url, port=1)))
