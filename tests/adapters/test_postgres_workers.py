"""A PostgreSQL source over Kafka: who makes its slot, who reads it, what it is told, and what becomes of it.

One feed shows several facts, as starting workers costs more than what is asked of them.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres
from bench.harness.servers.kafka import Kafka
from bench.harness.session import connect
from bench.harness.workers import Workers
from bench.harness.workload.churn import Churn
from bench.harness.workload.family import Family
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several
from bench.harness.workload.workload import Workload
from tidelock.adapters.config.loader import load
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.kafka.topics import changes_topic, control_topic
from tidelock.adapters.operator.first_place import first_place
from tidelock.adapters.postgres.logical.positions import lsn_of
from tidelock.adapters.wiring.capture_order import order_of
from tidelock.adapters.wiring.sources import overview_of, source_of
from tidelock.adapters.workers.capturing import Capturing
from tidelock.adapters.workers.group_commit import Flush, FlushBuffer
from tidelock.engine.cluster.log_partitioner import LogPartitioner
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.table_partitioning import TablePartitioning

TAKEOVER_SECONDS = 12.0
HEIR_SECONDS = 30.0  # with other tests beside; a session that nobody ends lives for a minute
RATE = 300
KILLS = 10


class Slots:
    """The slot of a rig's feed at the source, as it is, and the checkpoints that the target has."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.name = slot_name(rig.name)
        self.confirmed = 0

    def rows(self, what: str, of: str = "pg_replication_slots WHERE slot_name") -> list[str]:
        sql = f"SELECT ({what})::text FROM {of} = '{self.name}'"
        return [str(row[0]) for row in self.rig.source.execute(sql, database=self.rig.schema)]

    def place(self) -> int:
        """The place from which it keeps the log."""
        return lsn_of(self.rows("confirmed_flush_lsn")[0])

    def look(self) -> None:
        """Fails where the server has been told of a place that some group has not stored."""
        confirmed = self.place()
        of = f"FROM tidelock.tidelock_checkpoint WHERE feed = '{self.rig.name}' AND grp >= 0"
        stored = self.rig.rows(f"SELECT position {of}")
        least = min(int(json.loads(place)[1]) for (place,) in stored)
        assert confirmed <= least, f"the slot is at {confirmed}, and a group at {least}"
        self.confirmed = max(self.confirmed, confirmed)

    def until_passed(self, place: int) -> None:
        def passed() -> bool:
            self.look()
            return self.confirmed > place

        until(passed, f"the slot past {place}", 30)


def made(rig: Rig, workload: Workload) -> Workload:
    rig.make(workload)
    rig.at_source(*(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in workload.tables))
    return workload


def alarm(rig: Rig) -> list[str]:
    said = rig.command("status", "@", "--json")
    return [str(one) for one in said.json["halted"]["alarm"]] if said.json["halted"] else []


def test_of_those_that_begin_together_one_begins(
    make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres
) -> None:
    """A slot that an earlier beginner left without a checkpoint is made anew, by one of them alone."""
    rig = make_rig(postgres_source, postgres, "first")
    rig.table("item", "id int PRIMARY KEY")
    made = rig.command("init", "@", "--apply")
    assert made.code == 0, made
    slots, feed = Slots(rig), load(rig.feed)
    left = slots.place()
    source = overview_of(feed, first_run=True)

    async def begin(count: int) -> list[Position]:
        places = await asyncio.gather(*(first_place(feed, source) for _ in range(count)))
        return [place for place in places if place is not None]

    assert asyncio.run(begin(1)) == [], "a place is stored"
    rig.at_target(f"DELETE FROM tidelock.tidelock_checkpoint WHERE feed = '{rig.name}'")
    (begun,) = asyncio.run(begin(4))
    assert begun.offset == slots.place() > left
    slots.look()


def test_the_server_hears_of_a_publisher_that_may_take_no_more(
    make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres
) -> None:
    """As before a statement, or without Kafka.  It ends a session of which it hears nothing for a second."""
    rig = make_rig(postgres_source, postgres, "patient")
    rig.table("item", "id int PRIMARY KEY")
    rig.at_source(f"ALTER DATABASE {rig.schema} SET wal_sender_timeout = '1s'")
    feed, name = load(rig.feed), "tidelock publisher of a test"
    tables = [TableName(rig.schema, "item")]
    begun = source_of(feed.source_url).keep_log(tables, Position("", 0)).place
    plan = TablePartitioning(1, begun, (begun,), tuple((table, 0) for table in tables))
    stored, kept = [begun], threading.Event()
    kept.set()

    def heard(seconds: float) -> bool:
        sql = f"SELECT reply_time > '{since}'::timestamptz + interval '{seconds} s' FROM pg_stat_replication"
        return rig.source.execute(f"{sql} WHERE application_name = '{name}'") == [(True,)]

    async def reading() -> None:
        """Nobody takes the flush that the first row fills, but once."""
        buffer = FlushBuffer(LogPartitioner(plan, begun), plan, "", 1 << 20, 1, 0.0)
        order = order_of(feed, begun, stored=begun, reader_name=name)
        capturing = Capturing(order, buffer, lambda: stored[-1], lambda _: None, lambda _: kept)
        threading.Thread(target=capturing.run, daemon=True).start()
        await asyncio.to_thread(until, lambda: heard(3), "a sign of life for three seconds", 30)
        flush = await buffer.take()
        assert isinstance(flush, Flush) and flush.records, flush
        stored.append(flush.position)
        rig.source.execute("INSERT INTO item VALUES (2)", database=rig.schema)
        await asyncio.to_thread(until, lambda: Slots(rig).place() > begun.offset, "the checkpoint told", 30)

    rig.at_source("INSERT INTO item VALUES (1)")
    since = rig.source.execute("SELECT now()::text")[0][0]
    asyncio.run(reading())


def test_a_feed_of_workers_from_its_first_start_to_its_end(
    make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres, kafka: Kafka
) -> None:
    rig = make_rig(postgres_source, postgres, "slotted", log=kafka.url(), lanes=2, batch_rows=200, start="copy")
    workload = made(rig, Several(Mix(), Churn()))
    rig.load(workload, 300, 3)
    slots = Slots(rig)
    with Workers(rig, ["w1", "w2"]) as workers:
        workers.start()  # both find nothing
        workers.until_owned(2)
        assert slots.rows("slot_name") == [slots.name]
        assert slots.rows("count(*)", "pg_publication_tables WHERE pubname") == [str(len(rig.tables))]
        workers.until(rig.equal, "the rows that were there")
        frozen = workers.coordinator
        workers.freeze(frozen)  # its session with the slot stays
        table = workload.tables[0]
        rig.at_source(f"ALTER TABLE {table} ADD COLUMN later int DEFAULT 7")  # which no publisher sees before a row
        work = rig.work(workload, 1_000_000, 5, RATE)
        try:
            workers.until_flowing(HEIR_SECONDS)
            slots.until_passed(0)
            workers.kill(frozen)
            workers.until(lambda: set(workers.owners.values()) == {"w1", "w2"}, "both have groups")
            workers.kill(workers.coordinator)
            workers.until_flowing(HEIR_SECONDS, slots.look)
        finally:
            work.stop()
        workers.until_caught_up()
        workers.assert_exact()
        assert rig.rows(f"SELECT DISTINCT later::text FROM {table}") == [("7",)]
        slots.until_passed(slots.confirmed)
        checked = rig.command("check", "@")
        assert checked.code == 0, checked  # the slot is behind where the feed began, and before every group
        refused = rig.command("remove", "@", "--apply")
        assert refused.code == 1 and "2 workers" in refused.err, refused
        lost(rig, slots, workers)
    removed = rig.command("remove", "@", "--apply")
    assert removed.code == 0, removed
    assert not slots.rows("slot_name") and not slots.rows("pubname", "pg_publication WHERE pubname")
    assert not {changes_topic(rig.name), control_topic(rig.name)} & set(kafka.topics())


def lost(rig: Rig, slots: Slots, workers: Workers) -> None:
    """The slot is dropped as soon as nobody reads it: all that has been committed since is not to be had any more."""
    admin = connect(rig.source_place)
    ours = f"FROM pg_replication_slots WHERE slot_name = '{slots.name}'"

    def dropped() -> bool:
        admin.send(f"SELECT pg_terminate_backend(active_pid) {ours} AND active")
        admin.send(f"SELECT pg_drop_replication_slot(slot_name) {ours} AND NOT active")
        return not slots.rows("slot_name")

    try:
        until(dropped, "the slot dropped", 30)
    finally:
        admin.close()
    rig.at_source(f"DELETE FROM {rig.tables[0]}")
    workers.until(lambda: bool(alarm(rig)), "the halt")
    _, message, hint, *_ = alarm(rig)
    assert f"has no slot {slots.name}" in message and "End all its workers, `tidelock resync FEED`" in hint
    for place in workers.places.values():
        workers.until(lambda said=place.said: "has no slot" in said(), f"{place.name} tells it")
    workers.copy_anew()


@pytest.mark.proof
def test_coordinators_are_killed_and_frozen_in_turn(
    make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres, kafka: Kafka
) -> None:
    rig = make_rig(postgres_source, postgres, "series", log=kafka.url(), lanes=2, batch_rows=200)
    workload = made(rig, Several(Mix(), Churn(), Family()))
    slots = Slots(rig)
    took: list[str] = []
    with Workers(rig, ["w1", "w2", "w3"]) as workers:
        workers.start()
        workers.until_owned(3)
        work = rig.work(workload, 1_000_000, 5, RATE)
        try:
            workers.until_flowing()
            for number in range(KILLS):
                gone = workers.coordinator
                if number % 2:
                    workers.freeze(gone)
                else:
                    workers.kill(gone, back_after=None)
                seconds = workers.until_flowing(TAKEOVER_SECONDS, slots.look)
                took.append(f"{gone} {'frozen' if number % 2 else 'killed'}: {seconds:.1f} s")
                if number % 2:
                    workers.thaw(gone)
                else:
                    workers.start(gone)
                workers.until_flowing(60, slots.look)
            print(f"rows flowed again after {', '.join(took)}")
        finally:
            work.stop()
        workers.until_caught_up()
        workers.assert_exact()
        slots.look()
