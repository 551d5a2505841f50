"""The log in Kafka is lost while groups stand at different places: published again, it comes to each exactly once.

Groups are parted by a lock at the target on one table.  Each transaction is small and comes alone, so the log that is
read again has other batches than the one that is gone; a table without a key shows a row that comes twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from bench.harness.rig import Rig
from bench.harness.servers import Postgres, Server
from bench.harness.servers.kafka import Kafka
from bench.harness.session import connect
from bench.harness.workers import Workers
from tidelock.adapters.config.loader import load
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.kafka.topics import changes_topic, control_topic
from tidelock.adapters.wiring.sinks import make_sink
from tidelock.adapters.workers.new_log import fenced
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Position, TableName

TABLES = ("account", "note", "tally")
WAITS = "account"


def three_tables(rig: Rig) -> None:
    """Each is a group: no foreign keys.  `tally` has no key."""
    for table in ("account", "note"):
        rig.table(table, "id bigint PRIMARY KEY, v int")
    rig.table("tally", "v int")
    if isinstance(rig.source, Postgres):
        rig.at_source(*(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in TABLES))


def write(rig: Rig, first: int, count: int) -> None:
    """Small transactions over all tables, one after the other."""
    for number in range(first, first + count):
        rig.at_source(
            "BEGIN",
            f"INSERT INTO tally VALUES ({number}), ({number}), ({number % 3})",
            f"INSERT INTO account VALUES ({number}, 0)",
            f"INSERT INTO note VALUES ({number}, 0)",
            f"UPDATE note SET v = v + 1 WHERE id % 5 = {number % 5}",
            "COMMIT",
        )


@contextlib.contextmanager
def locked(rig: Rig, table: str) -> Iterator[None]:
    """Nobody writes the target's table meanwhile."""
    holder = connect(rig.target)
    try:
        holder.rows("BEGIN")
        holder.rows(f"LOCK TABLE {rig.schema}.{table} IN ACCESS EXCLUSIVE MODE")
        yield
    finally:
        holder.close()


def part(rig: Rig, workers: Workers) -> None:
    """Lets all groups but one go on, and kills the worker before that one can."""
    with locked(rig, WAITS):
        write(rig, 100, 6)
        rig.at_source("SELECT pg_switch_wal()" if isinstance(rig.source, Postgres) else "FLUSH LOGS")
        write(rig, 106, 5)
        here = rig.place()  # a moment later PostgreSQL's log may have gone on by itself
        write(rig, 111, 1)
        assert workers.plan is not None
        groups = [workers.plan.tables[at][1] for at in range(len(TABLES)) if workers.plan.tables[at][0].table != WAITS]

        def passed() -> bool:
            return all(workers.reports[group].checkpoint.order >= here.order for group in groups)

        workers.until(passed, "the checkpoints of the other groups")
        workers.kill("w1", back_after=None)


def alarm(rig: Rig) -> list[str]:
    said = rig.command("status", "@", "--json")
    return [str(one) for one in said.json["halted"]["alarm"]] if said.json["halted"] else []


LOST = [("mariadb", 0), pytest.param("mysql", 3, marks=pytest.mark.proof), ("postgres_source", 0)]


@pytest.mark.proof
@pytest.mark.parametrize(("source", "anew"), LOST, ids=["deleted", "made anew", "deleted, of a slot's log"])
def test_groups_at_different_places_go_on_from_a_log_that_is_published_again(
    source: str, anew: int, make_rig: Callable[..., Rig], request: pytest.FixtureRequest, postgres: Server, kafka: Kafka
) -> None:
    """Sources: MariaDB, read by place; MySQL, read by GTIDs; PostgreSQL, which keeps its log for the feed."""
    rig = make_rig(request.getfixturevalue(source), postgres, "parted", log=kafka.url())
    three_tables(rig)
    with Workers(rig, ["w1", "w2"]) as workers:
        workers.start("w1")
        workers.until_owned(len(TABLES))  # a slot's log begins where the feed does
        write(rig, 1, 5)
        workers.until_caught_up()
        assert workers.plan is not None and workers.plan.partitions == len(TABLES)
        part(rig, workers)
        kafka.delete_topic(changes_topic(rig.name))
        if anew:
            kafka.create_topic(changes_topic(rig.name), anew)
        write(rig, 200, 12)
        workers.start("w2")
        workers.until(lambda: bool(alarm(rig)), "the halt")
        _, message, hint, *_ = alarm(rig)
        assert "is gone" in message and "made anew" in message if anew else "is gone" in message
        assert "`tidelock resume FEED` publishes again from" in hint and "the least checkpoint" in hint
        checked = rig.command("check", "@")
        assert checked.code == 1 and message in checked.out, checked
        assert rig.command("resume").code == 0
        workers.until_caught_up()
        assert not alarm(rig)
        workers.assert_exact()
        write(rig, 300, 2)
        workers.until_caught_up()
        workers.assert_exact()


@pytest.mark.proof
def test_topics_that_are_both_lost_while_groups_are_apart(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka
) -> None:
    """Nobody knows any more which group had which rows: the workers say so, and what helps."""
    rig = make_rig(mariadb, postgres, "apart", log=kafka.url())
    three_tables(rig)
    with Workers(rig, ["w1", "w2"]) as workers:
        workers.start("w1")
        write(rig, 1, 5)
        workers.until_caught_up()
        part(rig, workers)
        for topic in (changes_topic(rig.name), control_topic(rig.name)):
            kafka.delete_topic(topic)
        write(rig, 200, 3)
        workers.start("w2")
        workers.until(lambda: "has no plan in Kafka" in workers.said(), "the message")
        assert "end all its workers, `tidelock resync FEED`" in workers.said()
        shown = rig.command("status", "@", "--json").json["scale_out"]["vacant"]
        assert "has no plan in Kafka" in shown and "`tidelock resync FEED`" in shown, "an operator sees it"
        workers.copy_anew()
    write(rig, 300, 2)
    with Workers(rig, ["w3"]) as workers:
        workers.work_off()
    rig.assert_exact()


async def test_a_group_is_taken_from_its_owner_at_a_mysql_target(
    make_rig: Callable[..., Rig], mysql: Server, mariadb: Server, kafka: Kafka
) -> None:
    """What `new_log` does to each group, whose tables it does not ask for."""
    rig = make_rig(mysql, mariadb, "fenced", log=kafka.url())
    rig.table("account", "id bigint PRIMARY KEY")
    made = rig.command("init", "@", "--apply")
    assert made.code == 0, made
    feed = load(rig.feed)
    mapping = Mapping(rules_of(feed), feed.schema)
    owner = make_sink(feed, mapping, group=2)
    try:
        taken = await owner.take_over([], Position("binlog.000001", 4))
        assert await fenced(feed, mapping, 2, Position("binlog.000009", 4)) == taken.checkpoint
        failures = [await owner.settle() for _ in range(2)]  # the takeover may have killed its session
        assert failures[0] is not None
        assert failures[1] is not None and failures[1].kind is ErrorKind.FENCED, failures
    finally:
        await owner.close()


@pytest.mark.parametrize(
    "purged",
    [
        pytest.param(False, id="the source has it", marks=pytest.mark.proof),
        pytest.param(True, id="the source lacks it too"),
    ],
)
def test_retention_that_cuts_unread_records_is_one_halt(
    purged: bool, make_rig: Callable[..., Rig], make_mariadb: Callable[..., Server], postgres: Server, kafka: Kafka
) -> None:
    """Of one group's partition alone; the others have read theirs."""
    rig = make_rig(make_mariadb(), postgres, "cut", log=kafka.url())
    three_tables(rig)
    with Workers(rig, ["w1", "w2"]) as workers:
        workers.start("w1")
        write(rig, 1, 5)
        workers.until_caught_up()
        part(rig, workers)
        assert workers.plan is not None
        cut = dict(workers.plan.tables)[TableName(rig.schema, WAITS)]
        kafka.delete_records(changes_topic(rig.name), cut)
        write(rig, 200, 12)
        if purged:
            rig.purge_before_here()
        checked = rig.command("check", "@")
        assert checked.code == 1 and f"partition {cut} of {changes_topic(rig.name)} no longer reaches" in checked.out
        workers.start("w2")
        workers.until(lambda: bool(alarm(rig)), "the halt")
        _, message, hint, *_ = alarm(rig)
        assert f"partition {cut} no longer reaches back to" in message and "retention" in message
        groups = rig.command("status", "@", "--json").json["scale_out"]["groups"]
        assert not any(group["halted"] for group in groups), "the feed halts, and no group besides"
        if purged:
            assert "`tidelock resync FEED`" in hint and "begins at" in hint, hint
            return
        assert "`tidelock resume FEED` publishes again" in hint, hint
        assert rig.command("resume").code == 0
        workers.until_caught_up()
        assert not alarm(rig)
        workers.assert_exact()
