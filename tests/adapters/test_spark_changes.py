"""The data source over a real feed's topic, over topics with faults in them, and over journals."""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import RecordsToDelete
from aiokafka.structs import TopicPartition

from bench.harness.numbers import numbers
from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.kafka import Kafka
from bench.harness.tidelock import Process
from bench.harness.workers import Workers
from bench.harness.workload.mix import Mix
from tidelock.adapters.config.url import parse
from tidelock.adapters.kafka.topics import changes_topic, control_topic
from tidelock.adapters.kafka.wire import encode
from tidelock.adapters.runtime.journal import Journal
from tidelock.adapters.spark_stream import TidelockSource, source
from tidelock.adapters.spark_stream import recording as recordings
from tidelock.adapters.spark_stream.columns import schema_of
from tidelock.adapters.spark_stream.log import ChangesError, LogPlace, offsets, places
from tidelock.adapters.spark_stream.recording import Recording
from tidelock.adapters.spark_stream.topic import TopicLog
from tidelock.engine.apply.machine import Options
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Column, Kind, Position, RowChange, Shape, TableName, Transaction
from tidelock.engine.protocol.events import LogArrived, SourceFailed, TakenOver

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "spark.md"
SHAPE = Shape(TableName("shop", "t"), (Column("id", Kind.INT, length=8), Column("note", Kind.TEXT)), ("id",))
_feeds = numbers()


@pytest.fixture(scope="module")
def spark(spark: Any) -> Any:
    spark.dataSource.register(TidelockSource)
    return spark


@pytest.fixture
def rig(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka) -> Iterator[Rig]:
    made = make_rig(mariadb, postgres, "changes", lanes=2, log=kafka.url(), partitions=2)
    made.make(Mix())
    worker = Process(["worker", str(made.feed)], made.output)
    yield made
    if worker.running:
        worker.kill()


def at(offset: int) -> Position:
    return Position("log.000001", offset)


def batch(prev: int, last: int, *, shapes: bool = True) -> LogBatch:
    """One insert, of a row with the id `last`; none where the position does not move."""
    if prev == last:
        return LogBatch(at(prev), at(last))
    return LogBatch(
        at(prev),
        at(last),
        (Transaction("log.000001", prev, 0),),
        (RowChange(0, None, (last, "x"), 0),),
        {0: SHAPE} if shapes else {},
    )


def read(topic: TopicLog, start: dict[int, LogPlace] | None = None) -> list[int]:
    begin = topic.first() if start is None else start
    parts = topic.slices(begin, topic.last(begin, None))
    return [row.after[0] for part in parts for _, found in topic.read(part) for row in found.rows]


def published(
    kafka: Kafka, *records: tuple[int, int], feed: str = "", aborted: tuple[int, int] | None = None
) -> TopicLog:
    """A topic of one partition with these records, each in a transaction of its own."""
    name = feed or f"handmade-{next(_feeds)}"
    if not feed:
        kafka.create_topic(changes_topic(name))

    async def write() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=name)
        await producer.start()
        try:
            for record in (aborted, *records) if aborted else records:
                await producer.begin_transaction()
                value = encode(batch(*record), origin="", plan=1)
                await producer.send_and_wait(changes_topic(name), value, partition=0)
                await (producer.abort_transaction() if record is aborted else producer.commit_transaction())
        finally:
            await producer.stop()

    asyncio.run(write())
    topic = TopicLog(parse(kafka.url(), Path("/")), name)
    until(lambda: topic.last({}, None)[0].at > len(records) * 2 - 1, "the last transaction's marker")
    return topic


# ---------------------------------------------------------------------- a feed


@pytest.mark.proof
def test_the_example_of_the_how_to_and_a_stream_over_restarts(rig: Rig, spark: Any, tmp_path: Path) -> None:
    """Every change comes once, over two starts, with writes between them, and adds up to the source's rows."""
    work = Mix()
    rig.load(work, 500)
    until(rig.equal, "the feed")
    example = re.search(r"```python\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    assert example is not None
    code = example[1].replace("shop.yaml", str(rig.feed)).replace("lake/", f"{tmp_path}/")
    code = code.replace("shop.account", f"{rig.schema}.account")

    written: list[Any] = []
    for seed in (2, 3):
        exec(compile(code, str(HOW_TO), "exec"), {})
        written = spark.read.parquet(str(tmp_path / "account")).collect()
        if seed < 3:
            rig.at_source(*(f"UPDATE account SET payload='{seed}' WHERE id = {n}" for n in range(40)))
            rig.at_source("DELETE FROM account ORDER BY id DESC LIMIT 5")
            until(rig.equal, "the feed")

    places = [(row.log_record, row.log_row) for row in written]
    assert len(set(places)) == len(places)
    state: dict[int, tuple[Any, ...]] = {}
    for row in sorted(written, key=lambda row: (row.log_record, row.log_row)):
        state.pop(row.old_id, None)
        if row.op != "delete":
            state[row.id] = (row.email, str(row.balance), row.payload)
    rows = rig.rows("SELECT id::text, email, balance::text, payload FROM account")
    assert state == {int(row[0]): row[1:] for row in rows}


@pytest.mark.proof
def test_a_batch_that_failed_comes_again_as_it_was(rig: Rig, spark: Any, tmp_path: Path) -> None:
    rig.load(Mix(), 1200)
    until(rig.equal, "the feed")
    seen: dict[int, list[Any]] = {}
    failing = [True]

    def take(frame: Any, number: int) -> None:
        rows = sorted(tuple(row) for row in frame.select("log_partition", "log_record", "log_row", "op").collect())
        if number == 1 and failing:
            failing.clear()
            seen[-1] = rows
            raise RuntimeError("a sink that fails once")
        assert number not in seen
        seen[number] = rows

    def start() -> Any:
        stream = spark.readStream.format("tidelock").options(feed=str(rig.feed), maxRecordsPerTrigger=5).load()
        options = {"checkpointLocation": str(tmp_path / "checkpoint")}
        return stream.writeStream.foreachBatch(take).options(**options).trigger(availableNow=True).start()

    with pytest.raises(Exception, match="a sink that fails once"):
        start().awaitTermination()
    start().awaitTermination()
    assert seen.pop(-1) == seen[1]
    rows = [row for number in seen for row in seen[number]]
    whole = spark.read.format("tidelock").option("feed", str(rig.feed)).load()
    assert len(rows) == len(set(rows)) == whole.count() > 1200


@pytest.mark.proof
def test_the_first_batch_after_a_start_is_short(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much the topic holds, something is seen soon; what was asked for by number is left as it is."""
    monkeypatch.setattr(source, "FIRST_RECORDS", 2)
    rig.load(Mix(), 4000)
    until(rig.equal, "the feed")

    def ends(**options: str) -> list[dict[int, LogPlace]]:
        stream = TidelockSource({"feed": str(rig.feed), **options}).streamReader(schema_of(None))
        limit, found = stream.getDefaultReadLimit(), [stream.initialOffset()]
        for _ in range(2):
            found.append(stream.latestOffset(found[-1], limit))
        return [places(end) for end in found]

    start, first, second = ends()
    most = 2 * 2 + 2  # markers have offsets too
    assert 0 < sum(first[number].at - start[number].at for number in start) <= most
    assert sum(second[number].at - first[number].at for number in start) > most
    start, first, second = ends(maxRecordsPerTrigger="5")
    assert sum(first[number].at - start[number].at for number in start) > 6


LIFE = """
import sys
from tidelock.adapters.config.feed import Spark
from tidelock.adapters.spark.session import session
from tidelock.adapters.spark_stream import TidelockSource
with session(Spark(), "killed") as spark:
    spark.dataSource.register(TidelockSource)
    stream = spark.readStream.format("tidelock").options(feed=sys.argv[1], maxRecordsPerTrigger=3).load()
    stream = stream.select("op", "log_partition", "log_record", "log_row").writeStream.format("parquet")
    stream.option("checkpointLocation", sys.argv[2] + ".checkpoint").start(sys.argv[2]).awaitTermination()
"""


@pytest.mark.proof
@pytest.mark.parametrize("kills", [1, 2])
def test_a_stream_beside_a_busy_source_is_killed(rig: Rig, spark: Any, tmp_path: Path, kills: int) -> None:
    """Spark and all its children die by SIGKILL amid their batches; the last life goes on from the checkpoint, and each
    change is there once."""
    work = rig.work(Mix(), 1_000_000, rate=60)
    place = tmp_path / "changes"
    commits = tmp_path / "changes.checkpoint" / "commits"
    for _ in range(kills):
        there = len(list(commits.glob("[0-9]*"))) if commits.exists() else 0
        life = Process([str(rig.feed), str(place)], tmp_path / "life.log", [sys.executable, "-c", LIFE])

        def went_on(life: Process = life, there: int = there) -> bool:
            life.check()
            return commits.exists() and len(list(commits.glob("[0-9]*"))) > there + 1

        try:
            until(went_on, "batches", 240)
        finally:
            life.kill()
    work.stop()
    until(rig.equal, "the feed", 60)
    stream = spark.readStream.format("tidelock").option("feed", str(rig.feed)).load()
    stream = stream.select("op", "log_partition", "log_record", "log_row").writeStream.format("parquet")
    stream = stream.option("checkpointLocation", f"{place}.checkpoint").trigger(availableNow=True)
    stream.start(str(place)).awaitTermination()
    whole = spark.read.format("tidelock").option("feed", str(rig.feed)).load()
    wanted = sorted(map(tuple, whole.select("op", "log_partition", "log_record", "log_row").collect()))
    assert sorted(map(tuple, spark.read.parquet(str(place)).collect())) == wanted
    assert len(wanted) > 100


@pytest.mark.proof
def test_a_table_in_its_own_columns(rig: Rig, spark: Any) -> None:
    rig.table(
        "odd",
        "id INT PRIMARY KEY, d DECIMAL(30,5), s TIMESTAMP(3) NULL, t DATETIME(6), u BIGINT UNSIGNED, b VARBINARY(9),"
        " f FLOAT, h TIME, z DATE",
        "id INT PRIMARY KEY, d NUMERIC(30,5), s TIMESTAMPTZ(3), t TIMESTAMP(6), u NUMERIC(20), b bytea, f real,"
        " h interval, z date",
    )
    rig.load(Mix(), 10)
    until(rig.equal, "the feed")
    moment = "2026-01-01 10:00:00.123456"
    rig.at_source(
        f"INSERT INTO odd VALUES (1,-12.3,'{moment}','{moment}',18446744073709551615,x'00ff',0.1,'-800:00:01',NULL)",
        "SET SESSION sql_mode=''",
        "UPDATE odd SET id=2, z='0000-00-00' WHERE id=1",
        "TRUNCATE TABLE odd",
    )
    source = spark.read.format("tidelock").option("feed", str(rig.feed)).option("table", f"{rig.schema}.odd")

    def ops(frame: Any) -> list[str]:
        return [row.op for row in frame.where("op <> 'statement' OR statement LIKE 'TRUNCATE%'").collect()]

    wide = spark.read.format("tidelock").option("feed", str(rig.feed)).load().where("table LIKE '%.odd'")
    until(lambda: len(wide.collect()) == 2, "the table's changes")
    update = wide.where("op = 'update'").collect()[0]
    assert update.key == ["id"]
    assert update.after == {
        "id": "2", "d": "-12.30000", "s": "2026-01-01 10:00:00.123", "t": moment, "u": "18446744073709551615",
        "b": "00ff", "f": "0.10000000149011612", "h": "-800:00:01", "z": "0000-00-00",
    }  # fmt: skip
    with pytest.raises(Exception, match=r"a value that its column cannot hold here.*misfits"):
        source.load().collect()
    typed = source.option("misfits", "null").load()
    until(lambda: sorted(ops(typed)) == ["insert", "statement", "statement", "update"], "the statement, twice")
    texts = typed.selectExpr("op", "cast(after as string)", "typeof(after)").where("op = 'update'").collect()[0]
    assert texts[1].startswith(f"{{2, -12.30000, {moment[:-3]}, {moment}, 18446744073709551615, ")
    assert texts[2] == (
        "struct<id:int,d:decimal(30,5),s:timestamp,t:timestamp_ntz,u:decimal(20,0),b:binary,f:float,h:string,z:date>"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Give one of the options `feed` and `journal`"),
        ({"feed": "FEED", "tabel": "a.b"}, "unknown option tabel"),
        ({"feed": "FEED", "table": "no.where"}, r"no table of the source becomes no\.where"),
        ({"feed": "nowhere.yaml"}, r"nowhere\.yaml: No such file"),
        ({"feed": "FEED", "startingOffsets": '{"0": {"file": "a.000001"}}'}, "no offsets of this source"),
    ],
)
def test_what_cannot_be_read_says_why(
    options: dict[str, str],
    message: str,
    make_rig: Callable[..., Rig],
    mariadb: Server,
    postgres: Server,
    kafka: Kafka,
    spark: Any,
) -> None:
    rig = make_rig(mariadb, postgres, "unread", log=kafka.url())
    given = {name: str(rig.feed) if value == "FEED" else value for name, value in options.items()}
    with pytest.raises(Exception, match=message):
        spark.read.format("tidelock").options(**given).load().collect()


# ---------------------------------------------------------------------- another log under the same names


def begun_anew(rig: Rig) -> str:
    """The source's log, and where it begins."""
    rig.at_source("RESET MASTER")
    rig.start_at = rig.here()
    return rig.start_at


def insert(rig: Rig, first: int, last: int) -> None:
    """All rows are of one length, so a log that holds as many others has the same places."""
    rig.at_source(*(f"INSERT INTO account VALUES ({n}, 'of {n}')" for n in range(first, last + 1)))


def feed(rig: Rig) -> None:
    """Until all is in what the stream reads."""
    if "journal" in rig.options:
        rig.catch_up()
        return
    with Workers(rig, ["w1"]) as workers:
        workers.work_off()


def forgotten(rig: Rig, kafka: Kafka) -> None:
    """An operator begins the feed from nothing, under its old name."""
    rig.options["schema"] = f"{rig.schema}_books"
    rig.at_target("DELETE FROM account")
    if "log" in rig.options:
        kafka.delete_topic(changes_topic(rig.name))
        kafka.delete_topic(control_topic(rig.name))


def found_by_a_stream(spark: Any, rig: Rig, checkpoint: Path) -> list[int]:
    found: list[int] = []

    def take(frame: Any, _number: int) -> None:
        found.extend(int(row.after["id"]) for row in frame.collect())

    stream = spark.readStream.format("tidelock").option("feed", str(rig.feed)).load().writeStream.foreachBatch(take)
    stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return sorted(found)


@pytest.mark.parametrize(
    ("kept", "how"),
    [
        ("journal", "reset"),
        pytest.param("topic", "another server", marks=pytest.mark.proof),
        pytest.param("topic", "reset", marks=pytest.mark.proof),
        pytest.param("journal", "another server", marks=pytest.mark.proof),
    ],
)
def test_a_stream_does_not_go_on_in_another_log(
    kept: str,
    how: str,
    make_mariadb: Callable[..., Server],
    make_rig: Callable[..., Rig],
    postgres: Server,
    kafka: Kafka,
    spark: Any,
    tmp_path: Path,
) -> None:
    """It has the same files, offsets and GTIDs, and the feed the same name: what differs is which rows they mean."""
    options = {"log": kafka.url(), "partitions": 1} if kept == "topic" else {"journal": str(tmp_path / "run.journal")}
    rig = make_rig(make_mariadb(extra=["--server-id=77"]), postgres, "another", **options)
    columns = "id int PRIMARY KEY, name varchar(40)"
    rig.table("account", columns)
    begun = begun_anew(rig)
    insert(rig, 11, 20)
    feed(rig)
    checkpoint = tmp_path / "checkpoint"
    assert found_by_a_stream(spark, rig, checkpoint) == list(range(11, 21))
    stood = rig.here()

    if how == "another server":
        rig.source = make_mariadb(extra=["--server-id=77"])
        rig.source_url = rig.source.url()
        rig.source.execute(f"CREATE DATABASE {rig.schema}")
        rig.reconnect()
        rig.at_source(f"CREATE TABLE account ({columns})")
    forgotten(rig, kafka)
    assert begun_anew(rig) == begun
    insert(rig, 21, 30)
    assert rig.here() == stood
    feed(rig)
    for rows in range(2):  # the other log ends at the stream's place, then behind it
        insert(rig, 31, 30 + 10 * rows)
        feed(rig)
        with pytest.raises(Exception, match=r"is of another log than the one that was read up to .*; here is"):
            found_by_a_stream(spark, rig, checkpoint)


# ---------------------------------------------------------------------- topics with faults


def test_a_repeated_record_is_dropped_wherever_it_is(kafka: Kafka) -> None:
    assert read(published(kafka, (0, 1), (1, 2), (0, 1), (1, 2), (2, 3))) == [1, 2, 3]
    end = published(kafka, (0, 1), (1, 2), (0, 1))
    assert read(end) == [1, 2]
    behind = end.last({}, None)
    assert behind[0].position == at(2)
    published(kafka, (1, 2), (2, 3), (3, 4), feed=end.feed)
    assert read(end, behind) == [3, 4]


def test_a_missing_record_is_an_error(kafka: Kafka) -> None:
    with pytest.raises(ChangesError, match=r"has a gap: behind log.000001:1 the next record begins at log.000001:2"):
        read(published(kafka, (0, 1), (2, 3)))


def test_aborted_records_were_never_there(kafka: Kafka) -> None:
    assert read(published(kafka, (0, 1), (1, 2), aborted=(0, 9))) == [1, 2]


def test_a_place_is_found_by_its_position_alone(kafka: Kafka) -> None:
    topic = published(kafka, (0, 1), (1, 2), (2, 2), (2, 3))
    for hint in (-1, 0, 3, 4, 5, 10_000):
        assert read(topic, {0: LogPlace(at(2), hint)}) == [3]
    assert places(offsets({0: LogPlace(at(2), 7)})) == {0: LogPlace(at(2), 7)}
    with pytest.raises(ChangesError, match=r"no longer holds log.000001:7"):
        read(topic, {0: LogPlace(at(7))})


def test_slices_join_without_seam(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two places they are the same whenever they are asked for: a batch that failed comes again as it was."""
    topic = published(kafka, *((i, i + 1) for i in range(25)))
    monkeypatch.setattr("tidelock.adapters.spark_stream.topic.SLICE_RECORDS", 7)
    begin = topic.first()
    end = topic.last(begin, None)
    parts = topic.slices(begin, end)
    assert len(parts) > 4
    published(kafka, (25, 26), (26, 27), feed=topic.name.split(".")[1])
    for made in (parts, topic.slices(begin, end)):
        assert [row.after[0] for part in made for _, b in topic.read(part) for row in b.rows] == list(range(1, 26))


def test_a_bounded_batch_ends_at_a_record(kafka: Kafka) -> None:
    topic = published(kafka, *((i, i + 1) for i in range(10)))
    place, found = topic.first(), []
    while (end := topic.last(place, 3)) != place:
        found.append([row.after[0] for part in topic.slices(place, end) for _, b in topic.read(part) for row in b.rows])
        place = end
    assert len(found) > 4
    assert list(itertools.chain.from_iterable(found)) == list(range(1, 11))


def test_what_retention_took_is_an_error(kafka: Kafka) -> None:
    topic = published(kafka, (0, 1), (1, 2), (2, 3), (3, 4))
    begin = topic.first()
    place = TopicPartition(topic.name, 0)
    kafka.admin(lambda admin: admin.delete_records({place: RecordsToDelete(before_offset=4)}))
    assert read(topic) == [3, 4]
    with pytest.raises(ChangesError, match=r"no longer holds log.000001:0"):
        read(topic, begin)
    with pytest.raises(ChangesError, match="no longer reaches back to its beginning"):
        read(topic, {})


def test_there_is_no_topic(kafka: Kafka) -> None:
    with pytest.raises(ChangesError, match=r"there is no topic tidelock\.nothing\.changes"):
        TopicLog(parse(kafka.url(), Path("/")), "nothing").first()


# ---------------------------------------------------------------------- journals


def recorded(path: Path, *events: Any) -> Recording:
    journal = Journal(path, Options())
    for now, event in enumerate((TakenOver(1, at(0)), *events)):
        journal.record(now, [event])
    journal.close()
    return Recording(str(path))


def ids(recording: Recording, start: dict[int, LogPlace] | None = None) -> list[int]:
    begin = recording.first() if start is None else start
    parts = recording.slices(begin, recording.last(begin, None))
    return [row.after[0] for part in parts for _, found in recording.read(part) for row in found.rows]


def resent(one: LogBatch) -> LogBatch:
    return msgspec.structs.replace(one, resent=True)


def test_a_journal_gives_what_the_machine_took(tmp_path: Path) -> None:
    """A repeated batch, a reader that failed, its late batch, and what was sent again by the next one."""
    recording = recorded(
        tmp_path / "journal",
        LogArrived([resent(batch(0, 1)), batch(1, 2, shapes=False)], 0),
        LogArrived([batch(0, 1)], 0),
        SourceFailed(Alarm("server", "gone", "wait"), True),
        LogArrived([batch(2, 3)], 0),
        LogArrived([resent(batch(2, 4)), batch(4, 4), batch(4, 5, shapes=False)], 1),
    )
    assert ids(recording) == [1, 2, 4, 5]
    assert ids(recording, {0: LogPlace(at(2))}) == [4, 5]
    assert recording.last({0: LogPlace(at(1))}, 2) == {0: LogPlace(at(4), 3)}
    assert ids(recording, {0: LogPlace(at(5))}) == []
    with pytest.raises(ChangesError, match=r"no record that begins at log.000001:3"):
        ids(recording, {0: LogPlace(at(3))})


def test_records_of_a_journal_travel_to_executors_that_do_not_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = recorded(tmp_path / "journal", LogArrived([resent(batch(0, 1)), batch(1, 2, shapes=False)], 0))
    begin, end = recording.first(), recording.last(recording.first(), None)
    (small,) = pickle.loads(pickle.dumps(recording.slices(begin, end)))
    monkeypatch.setattr(recordings, "CARRIED_BYTES", 10)
    (large,) = recording.slices(begin, end)
    assert [number for number, _ in recording.read(large)] == [0, 1]
    (tmp_path / "journal").unlink()
    assert [number for number, _ in recording.read(small)] == [0, 1]
    with pytest.raises(ChangesError, match=r"No such file.*same place on all machines of a cluster"):
        list(recording.read(large))


def test_a_gap_that_no_resend_closed_is_an_error(tmp_path: Path) -> None:
    recording = recorded(
        tmp_path / "journal",
        LogArrived([resent(batch(0, 1)), batch(2, 3)], 0),
        LogArrived([resent(batch(2, 3))], 1),
    )
    with pytest.raises(ChangesError, match="has a gap"):
        ids(recording)


def test_the_journal_of_a_run(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, spark: Any, tmp_path: Path
) -> None:
    rig = make_rig(mariadb, postgres, "journal", lanes=2, journal=str(tmp_path / "run.journal"))
    rig.load(rig.make(Mix()), 800)
    run = rig.run()
    until(rig.equal, "the feed")
    os.kill(run.pid, signal.SIGKILL)
    run.code(10.0)
    frame = spark.read.format("tidelock").options(feed=str(rig.feed), table=f"{rig.schema}.account").load()
    state: dict[int, str] = {}
    for row in sorted(frame.collect(), key=lambda row: (row.log_record, row.log_row)):
        if row.before is not None:
            del state[row.before.id]
        if row.after is not None:
            state[row.after.id] = row.after.email
    assert state == {int(row[0]): row[1] for row in rig.rows("SELECT id::text, email FROM account")}
