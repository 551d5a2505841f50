"""The process that reads for a copy: what it stages, what it tells when it cannot, and that it leaves nothing.

`copied` reads all tables by Spark, `direct` by itself: they are small.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.harness.servers import MariaDb, Postgres
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import read as read_feed
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog import log_ends
from tidelock.adapters.mysql.connection import reader_endpoint
from tidelock.adapters.ports.sink import Wanted
from tidelock.adapters.ports.staging import staged_name
from tidelock.adapters.row_copy.copier import SparkCopier
from tidelock.adapters.wiring.inspection import opened
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.protocol.effects import EffectId, ReadChunk
from tidelock.engine.protocol.events import ChunkFailed, ChunksPlanned, ChunkStaged

DEADLINE_SECONDS = 30
SMALL_ROWS = 30_000
STAGER_WAITS = (
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 'tidelock/staged%'"
)
START_SECONDS = 90
ENDED_SECONDS = 2.0  # as users are promised
COMMAND = """
import time
from tidelock.adapters.config.feed import Spark
from tidelock.adapters.spark.session import session

def wait(rows):
    time.sleep(3600)
    return rows

with session(Spark(), "killed") as spark:
    print("started", flush=True)
    spark.sparkContext.parallelize([1], 1).mapPartitions(wait).collect()
"""
PARENT = """
import asyncio, sys
from pathlib import Path
from tidelock.adapters.config.loader import load
from tidelock.adapters.ports.sink import Wanted
from tidelock.adapters.row_copy.copier import SparkCopier
from tidelock.engine.protocol.effects import EffectId, ReadChunk
import msgspec

async def main():
    copier = SparkCopier(load(Path(sys.argv[1])), print)
    effect, table = (msgspec.msgpack.decode(bytes.fromhex(a), type=t) for a, t in zip(sys.argv[2:], types))
    print(await copier.read(effect, {table.name: table}), flush=True)
    await asyncio.sleep(3600)

from tidelock.engine.model.schema import TargetTable
types = (ReadChunk, TargetTable)
asyncio.run(main())
"""


class Copied:
    """A source and a target with the same tables, and a copier between them, in one loop."""

    def __init__(self, source: MariaDb, target: Postgres, folder: Path, small_rows: int = 0) -> None:
        self.source, self.target = source, target
        self.shop, self.database = source.database("copied"), target.database("copied")
        for statement in (f'CREATE SCHEMA "{self.shop}"', *create_statements("postgres", "tidelock")):
            self.at_target(statement)
        self.path = folder / "feed.yaml"
        self.path.write_text(
            f"feed: copied\nsource: {source.url()}\ntarget: {target.url(self.database)}\n"
            f"tables: [{{source: {self.shop}.*}}]\ncopy: {{chunk_rows: 1000}}\n"
            f"spark: {{piece_rows: 5000, small_rows: {small_rows}}}\n"
        )
        self.feed: Feed = read_feed(self.path.read_text(), self.path)
        self.told: list[str] = []
        self.runner = asyncio.Runner()
        self.copier = SparkCopier(self.feed, self.told.append)
        self._attempts = iter(range(1, 1_000))

    def table(self, name: str, at_source: str, at_target: str, rows: str) -> TableName:
        self.at_source(f"CREATE TABLE {name} ({at_source})")
        self.at_source(f"INSERT INTO {name} {rows}")
        self.at_source(f"ANALYZE TABLE {name}")
        self.at_target(f'CREATE TABLE "{self.shop}".{name} ({at_target})')
        return TableName(self.shop, name)

    def at_source(self, sql: str) -> list[tuple[Any, ...]]:
        return self.source.execute(sql, database=self.shop)

    def at_target(self, sql: str) -> list[tuple[Any, ...]]:
        return self.target.execute(sql, database=self.database)

    def tables(self, *names: TableName) -> dict[TableName, TargetTable]:
        async def ask() -> dict[TableName, TargetTable]:
            async with opened(self.feed.target_url) as target:
                return await target.tables(names)

        return self.runner.run(ask())

    def plan(self, *names: TableName) -> ChunksPlanned | Alarm:
        wanted = [Wanted(n, name, "copy") for n, name in enumerate(names)]
        return self.runner.run(self.copier.plan(wanted, self.tables(*names)))

    def effects(self, split: ChunkSplit) -> list[ReadChunk]:
        return [ReadChunk(EffectId(1, next(self._attempts)), split, n, self.here()) for n in range(split.chunks)]

    def read(self, *effects: ReadChunk) -> list[ChunkStaged | ChunkFailed]:
        tables = self.tables(effects[0].split.table)

        async def all_at_once() -> list[ChunkStaged | ChunkFailed]:
            return await asyncio.gather(*(self.copier.read(effect, tables) for effect in effects))

        return self.runner.run(all_at_once())

    def staged(self, effect: ReadChunk, columns: str = "*") -> list[tuple[Any, ...]]:
        return self.at_target(f"SELECT {columns} FROM tidelock.{staged_name('copied', 0, effect.id)}")

    def here(self) -> Position:
        with contextlib.closing(server.connect(reader_endpoint(self.feed.source_url))) as connection:
            return log_ends.current_position(connection)


@pytest.fixture(scope="module")
def copied(mariadb: MariaDb, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copied]:
    with ended(Copied(mariadb, postgres, tmp_path_factory.mktemp("copied"))) as made:
        yield made


@pytest.fixture
def direct(
    mariadb: MariaDb, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Copied]:
    """Where no Spark could start: without Java and, for the process that copies, without pyspark."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "pyspark.py").write_text("raise ImportError('none here')\n")
    with ended(Copied(mariadb, postgres, tmp_path, SMALL_ROWS)) as made:
        yield made


@contextlib.contextmanager
def ended(made: Copied) -> Iterator[Copied]:
    yield made
    made.runner.run(made.copier.close())
    assert made.copier.pid is None
    made.runner.close()


@pytest.mark.parametrize("by", ["copied", "direct"])
def test_chunks_of_numbers(by: str, request: pytest.FixtureRequest) -> None:
    copied: Copied = request.getfixturevalue(by)
    name = copied.table(
        "numbered", "id int PRIMARY KEY, note text", "id int PRIMARY KEY, note text",
        "SELECT seq, CONCAT('é', seq) FROM seq_1_to_2500",
    )  # fmt: skip
    copied.at_source("UPDATE numbered SET note = CONCAT('a', CHAR(0)) WHERE id = 700")
    planned = copied.plan(name)
    assert isinstance(planned, ChunksPlanned), planned
    (split,) = planned.splits
    assert split.bounds == ((1001,), (2001,))
    effects = copied.effects(split)
    copied.at_source("DELETE FROM numbered WHERE id > 2000")  # the last chunk is empty now
    answers = copied.read(*effects)
    assert [(type(a), a.id) for a in answers] == [(ChunkStaged, e.id) for e in effects], copied.told
    first, second, last = (a for a in answers if isinstance(a, ChunkStaged))
    assert (first.rows, second.rows, last.rows) == (999, 1000, 0)
    assert all(a.high.order > effects[0].after.order for a in (first, second, last))
    ((shape, row, error),) = ((r.shape, r.row, r.error) for r in first.refused)
    assert (shape.name, row) == (name, (700, "a\0")) and "column note" in error
    assert sorted(copied.staged(effects[0])) == [(n, f"é{n}") for n in range(1, 1001) if n != 700]
    assert sorted(copied.staged(effects[1])) == [(n, f"é{n}") for n in range(1001, 2001)]
    assert copied.staged(effects[2]) == []


def test_chunks_that_share_a_scan(copied: Copied) -> None:
    first = copied.table("first", "id int PRIMARY KEY", "id int PRIMARY KEY", "VALUES (1)")
    copied.read(*copied.effects(ChunkSplit(first)))  # Spark runs: what is asked for at once is taken together
    name = copied.table(
        "worded", "`a word` varchar(20) PRIMARY KEY, n int", '"a word" varchar(20) PRIMARY KEY, n int',
        "SELECT CONCAT('日', seq), seq FROM seq_1_to_25000",
    )  # fmt: skip
    planned = copied.plan(name)
    assert isinstance(planned, ChunksPlanned), planned
    (split,) = planned.splits
    assert split.by is By.BUCKET and split.chunks == 3
    stopped, *others = effects = copied.effects(split)
    tables = copied.tables(name)

    async def read() -> list[ChunkStaged | ChunkFailed]:
        reads = [asyncio.ensure_future(copied.copier.read(effect, tables)) for effect in effects]
        await asyncio.sleep(0)  # they are sent
        copied.copier.stop(stopped.id)
        return await asyncio.gather(*reads)

    async def merged_first(effect: ReadChunk) -> ChunkStaged | ChunkFailed:
        reading = asyncio.ensure_future(copied.copier.read(effect, tables))
        for other in others:
            copied.copier.stop(other.id)
        return await asyncio.wait_for(reading, DEADLINE_SECONDS)

    with asked_of(copied.source, "CRC32") as queries:
        answers = copied.runner.run(read())
    assert answers[0] == ChunkFailed(stopped.id)
    assert len(queries) == 6, queries  # the pieces of one scan
    parts = [{n for (n,) in copied.staged(effect, "n")} for effect in others]
    assert all(parts) and not parts[0] & parts[1]
    assert sum(a.rows for a in answers if isinstance(a, ChunkStaged)) == len(parts[0] | parts[1])
    again = copied.runner.run(merged_first(copied.effects(split)[0]))
    assert isinstance(again, ChunkStaged) and again.rows == 25_000 - len(parts[0] | parts[1])


@contextlib.contextmanager
def asked_of(source: MariaDb, word: str) -> Iterator[list[str]]:
    """The queries with this word meanwhile, without those that only ask for columns."""
    queries: list[str] = []
    source.execute("TRUNCATE mysql.general_log")
    source.execute("SET GLOBAL log_output = 'TABLE', GLOBAL general_log = ON")
    yield queries
    source.execute("SET GLOBAL general_log = OFF, GLOBAL log_output = 'FILE'")
    found = source.execute("SELECT argument FROM mysql.general_log WHERE command_type = 'Query'")
    queries += [text for text in (str(sql) for (sql,) in found) if word in text and "1=0" not in text]


def test_rows_of_keys(copied: Copied) -> None:
    columns = "id int PRIMARY KEY, n int"
    name = copied.table("keyed", columns, columns, "SELECT seq, 7 FROM seq_1_to_9")
    (effect,) = copied.effects(ChunkSplit(name, By.KEYS, ("id",), keys=((3,), (5,), (77,))))[1:]
    (answer,) = copied.read(effect)
    assert isinstance(answer, ChunkStaged) and answer.rows == 2, copied.told
    assert sorted(copied.staged(effect)) == [(3, 7), (5, 7)]


def test_a_chunk_that_cannot_be_read_is_told(copied: Copied) -> None:
    copied.told.clear()
    name = copied.table("lacking", "id int PRIMARY KEY, extra int", "id int PRIMARY KEY", "VALUES (1, 2)")
    effects = copied.effects(ChunkSplit(name))
    assert copied.read(*effects) == [ChunkFailed(effects[0].id)]
    copied.at_source("DROP TABLE lacking")
    effects = copied.effects(ChunkSplit(name))
    assert copied.read(*effects) == [ChunkFailed(effects[0].id)]
    narrow, gone = copied.told
    assert narrow.startswith(f"{name} cannot be copied yet: {name} has no column extra that the source logs"), narrow
    assert gone.startswith(f"{name} cannot be copied yet: {name} is not copied: no table at"), gone
    assert not any("\n" in text or "Traceback" in text for text in copied.told)


def test_chunks_of_a_small_table_in_buckets(direct: Copied) -> None:
    columns = "t varchar(20) PRIMARY KEY, n int"
    name = direct.table("worded", columns, columns, "SELECT CONCAT('日', seq), seq FROM seq_1_to_25000")
    planned = direct.plan(name)
    assert isinstance(planned, ChunksPlanned), planned
    (split,) = planned.splits
    assert split.by is By.BUCKET and split.chunks == 3
    effects = direct.effects(split)
    answers = direct.read(*effects)
    assert all(isinstance(answer, ChunkStaged) for answer in answers), direct.told
    numbers = [n for effect in effects for (n,) in direct.staged(effect, "n")]
    assert sorted(numbers) == list(range(1, 25_001))


def test_a_table_that_outgrows_a_direct_read_waits_for_spark(direct: Copied) -> None:
    """The plan says nothing about it: it is asked at each read how many rows there are."""
    name = direct.table(
        "growing", "id int PRIMARY KEY", "id int PRIMARY KEY", f"SELECT seq FROM seq_1_to_{SMALL_ROWS}"
    )
    planned = direct.plan(name)
    assert isinstance(planned, ChunksPlanned), planned
    direct.at_source("INSERT INTO growing VALUES (0)")
    effects = direct.effects(planned.splits[0])
    assert direct.read(effects[0]) == [ChunkFailed(effects[0].id)]
    (told,) = direct.told
    assert f"{name} cannot be copied yet: " in told and "JAVA_HOME is /nowhere" in told
    refused = direct.plan(name)
    assert isinstance(refused, Alarm) and "JAVA_HOME is /nowhere" in refused.message
    direct.at_source("DELETE FROM growing WHERE id > 2000")
    answers = direct.read(*direct.effects(planned.splits[0])[:2])
    assert [answer.rows for answer in answers if isinstance(answer, ChunkStaged)] == [1001, 1000]


def test_a_direct_read_that_waits_for_the_source_is_stopped(direct: Copied) -> None:
    name = direct.table("locked", "id int PRIMARY KEY", "id int PRIMARY KEY", "VALUES (1)")
    effect = direct.effects(ChunkSplit(name))[0]
    tables = direct.tables(name)
    waits = (
        "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE '%metadata lock%' AND INFO LIKE "
        f"'SELECT%{direct.shop}%'"
    )

    async def stopped() -> ChunkStaged | ChunkFailed:
        reading = asyncio.ensure_future(direct.copier.read(effect, tables))
        await asyncio.to_thread(until, lambda: bool(direct.source.execute(waits)))
        direct.copier.stop(effect.id)
        return await asyncio.wait_for(reading, DEADLINE_SECONDS)

    with contextlib.closing(direct.source.connect(direct.shop)) as holder:
        holder.execute("LOCK TABLES locked WRITE", ())
        assert direct.runner.run(stopped()) == ChunkFailed(effect.id)
        holder.execute("UNLOCK TABLES", ())
    assert direct.told == []


def test_the_end_of_the_log_is_asked_for_behind_a_direct_read(direct: Copied) -> None:
    """Else the merge would come before a change that the read has seen."""
    name = direct.table("watched", "id int PRIMARY KEY", "id int PRIMARY KEY", "VALUES (1)")
    effect = direct.effects(ChunkSplit(name))[0]
    tables = direct.tables(name)

    async def read() -> tuple[ChunkStaged | ChunkFailed, Position]:
        with contextlib.closing(direct.target.connect(direct.database)) as holder:
            holder.execute_script(f'BEGIN; LOCK TABLE "{direct.shop}".watched')
            reading = asyncio.ensure_future(direct.copier.read(effect, tables))
            await asyncio.to_thread(until, lambda: bool(direct.at_target(STAGER_WAITS)))
            direct.at_source("INSERT INTO watched VALUES (2)")
            seen = direct.here()
        return await reading, seen

    answer, seen = direct.runner.run(read())
    assert isinstance(answer, ChunkStaged) and answer.rows == 2, direct.told
    assert answer.high.order >= seen.order


def test_a_read_that_hangs_is_stopped(copied: Copied) -> None:
    name = copied.table("locked", "id int PRIMARY KEY", "id int PRIMARY KEY", "VALUES (1)")
    effect = copied.effects(ChunkSplit(name))[0]
    tables = copied.tables(name)

    async def stopped() -> ChunkStaged | ChunkFailed:
        reading = asyncio.ensure_future(copied.copier.read(effect, tables))
        await asyncio.to_thread(until, lambda: bool(copied.at_target(STAGER_WAITS)))
        copied.copier.stop(effect.id)
        return await asyncio.wait_for(reading, DEADLINE_SECONDS)

    copied.told.clear()
    with contextlib.closing(copied.target.connect(copied.database)) as holder:
        holder.execute_script(f'BEGIN; LOCK TABLE "{copied.shop}".locked')
        assert copied.runner.run(stopped()) == ChunkFailed(effect.id)
    assert copied.told == []


def until(holds: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_cannot_be_planned(copied: Copied) -> None:
    alarm = copied.plan(TableName(copied.shop, "none"))
    assert isinstance(alarm, Alarm) and "none: the target has no such table" in alarm.message


def test_without_java_nothing_is_planned(copied: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    name = copied.table("bare", "id int PRIMARY KEY", "id int PRIMARY KEY", "VALUES (1)")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    copier = SparkCopier(copied.feed, copied.told.append)
    alarm = copied.runner.run(copier.plan([Wanted(1, name, "copy")], copied.tables(name)))
    copied.runner.run(copier.close())
    assert isinstance(alarm, Alarm) and "JAVA_HOME is /nowhere" in alarm.message


@pytest.mark.proof
def test_java_that_ends_is_started_again(copied: Copied) -> None:
    name = copied.table("survived", "id int PRIMARY KEY", "id int PRIMARY KEY", "VALUES (1)")
    (effect,) = copied.effects(ChunkSplit(name))
    (first,) = copied.read(effect)
    assert isinstance(first, ChunkStaged), copied.told
    pid = copied.copier.pid
    assert pid is not None
    (java,) = (one for one in descendants(pid) if Path(f"/proc/{one}/comm").read_text() == "java\n")
    os.kill(java, signal.SIGKILL)
    copied.told.clear()
    failed = 0  # what is left of the old process may take the question, and end

    def read() -> bool:
        nonlocal failed
        (answer,) = copied.read(*copied.effects(ChunkSplit(name)))
        failed += isinstance(answer, ChunkFailed)
        return isinstance(answer, ChunkStaged)

    until(read)
    assert copied.copier.pid != pid
    assert len(copied.told) == failed


@pytest.mark.proof
def test_a_parent_that_is_killed_leaves_nothing(copied: Copied) -> None:
    """The one below is killed with more going on."""
    name = copied.table("orphaned", "id int PRIMARY KEY", "id int PRIMARY KEY", "VALUES (1)")
    told = (copied.effects(ChunkSplit(name))[0], copied.tables(name)[name])
    command = [sys.executable, "-c", PARENT, str(copied.path), *(msgspec.msgpack.encode(one).hex() for one in told)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as parent:
        assert parent.stdout is not None and parent.stdout.readline().startswith("ChunkStaged")
        family = descendants(parent.pid)
        assert len(family) >= 3  # the process, Java, the daemon of Python workers
        parent.kill()
    until(lambda: not any(map(lives, family)), ENDED_SECONDS)


@pytest.mark.proof
def test_a_parent_that_is_killed_amid_a_read_leaves_nothing(copied: Copied) -> None:
    """Java and its Python workers would wait for the target."""
    name = copied.table("amid", "id int PRIMARY KEY", "id int PRIMARY KEY", "VALUES (1)")
    told = (copied.effects(ChunkSplit(name))[0], copied.tables(name)[name])
    command = [sys.executable, "-c", PARENT, str(copied.path), *(msgspec.msgpack.encode(one).hex() for one in told)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with (
        contextlib.closing(copied.target.connect(copied.database)) as holder,
        subprocess.Popen(command, env=environment) as parent,
    ):
        holder.execute_script(f'BEGIN; LOCK TABLE "{copied.shop}".amid')
        try:
            until(lambda: bool(copied.at_target(STAGER_WAITS)), START_SECONDS)
            family = descendants(parent.pid)
        finally:
            parent.kill()
        assert len(family) >= 4  # the process, Java, the daemon of Python workers, a worker
        until(lambda: not any(map(lives, family)), ENDED_SECONDS)


@pytest.mark.proof
def test_a_command_that_is_killed_takes_its_spark_along(copied: Copied) -> None:
    """As `tidelock verify`, which opens a session in its own process; a task of Python's goes on by itself."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND], stdout=subprocess.PIPE, env=environment, text=True
    ) as command:
        assert command.stdout is not None and command.stdout.readline() == "started\n"
        try:
            workers = 4  # the guard, Java, the daemon of Python workers, a worker
            until(lambda: len(descendants(command.pid)) >= workers, START_SECONDS)
            family = descendants(command.pid)
        finally:
            command.kill()
        until(lambda: not any(map(lives, family)), ENDED_SECONDS)


def descendants(pid: int) -> list[int]:
    parents = {int(path.name): parent_of(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
