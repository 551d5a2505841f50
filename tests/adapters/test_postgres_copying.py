"""Copying into a real PostgreSQL: chunks are staged and merged once; nothing is lost, doubled or left behind."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from bench.harness.servers import Postgres
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.config.url import parse
from tidelock.adapters.ports.sink import Wanted
from tidelock.adapters.ports.staging import Columns, Staged, Staging, staged_name
from tidelock.adapters.postgres.target.copy_text import lines
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.adapters.postgres.target.staging import session_name, stage
from tidelock.adapters.target import refused_search
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import Alarm, ErrorKind
from tidelock.engine.model.records import UNKNOWN, Column, Kind, Position, Row, Shape, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch, BeginCopy, EffectId, FindRefused, MergeChunk, SaveCheckpoint
from tidelock.engine.protocol.events import (
    BatchCommitted,
    BatchFailed,
    CheckpointSaved,
    Copied,
    CopyBegun,
    CopyFailed,
    RefusedFound,
    RefusedRow,
    TakenOver,
)
from tidelock.engine.protocol.steps import DeleteRows, ParkedRow, UpdateRows, UpsertRows

ACCOUNT = TableName("public", "account")
START = Position("binlog.000001", 4)
MERGED = Position("binlog.000002", 8)
ACCOUNT_SQL = """CREATE TABLE account (id bigint PRIMARY KEY, email varchar(20) UNIQUE, balance numeric(6,2) NOT NULL,
    CHECK (balance >= 0))"""
COLUMNS = (
    Column("id", Kind.INT, length=8),
    Column("email", Kind.TEXT, length=64),
    Column("balance", Kind.DECIMAL, precision=12, scale=2),
)


def row(id: int, email: str | None = None) -> Row:
    return (id, email if email is not None else f"user{id}", "12.30")


class Copying:
    """A table of the target that is being copied: stages rows for it, and merges them."""

    def __init__(self, target: "Target", sink: PostgresSink, taken: TakenOver, name: TableName) -> None:
        self.target, self.sink, self.taken, self.name = target, sink, taken, name
        self.columns: Sequence[Column] = COLUMNS

    @property
    def table(self) -> Binding:
        shape = Shape(TableName("shop", self.name.table), tuple(self.columns))
        return Binding(0, shape, self.taken.tables[self.name])

    async def begin(self, *splits: ChunkSplit) -> Any:
        effect = BeginCopy(self.target.id(self.taken.epoch), splits or (ChunkSplit(self.name),), START)
        return await self.sink.begin_copy(effect)

    async def stage(self, rows: Iterable[Row], batch: int = 100, attempt: EffectId | None = None, **how: Any) -> Any:
        """The attempt's id, and what was staged."""
        id_ = attempt or self.target.id(self.taken.epoch)
        place = self.place(id_, **how)
        batches = columnar(list(rows), batch)
        return id_, await asyncio.to_thread(stage, place, batches)

    def place(self, attempt: EffectId, **how: Any) -> Staging:
        endpoint = parse(self.target.server.url(self.target.database), Path())
        name = staged_name("shop", 0, attempt)
        return Staging(endpoint, "tidelock", name, self.table.shape, self.taken.tables[self.name], **how)

    async def chunk(self, rows: Iterable[Row], **options: Any) -> MergeChunk:
        staged, done = await self.stage(rows)
        options = {"split": ChunkSplit(self.name), "chunk": 0, "rows": done.rows, "without": [], "steps": [], **options}
        key = self.taken.tables[self.name].key
        return MergeChunk(id=self.target.id(self.taken.epoch), staged=staged, key=key, position=MERGED, **options)

    async def merged(self, effect: MergeChunk) -> None:
        assert await self.sink.merge_chunk(effect) == BatchCommitted(effect.id)

    async def failed(self, effect: MergeChunk) -> Any:
        answer = await self.sink.merge_chunk(effect)
        assert isinstance(answer, BatchFailed), answer
        return answer.failure


def columnar(rows: list[Row], batch: int) -> list[Columns]:
    return [[list(c) for c in zip(*rows[at : at + batch], strict=True)] for at in range(0, len(rows), batch)]


class Target:
    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.database = server.database("copying")
        for statement in create_statements("postgres", "tidelock"):
            self.sql(statement)
        self.sql(ACCOUNT_SQL)
        self.sinks: list[PostgresSink] = []
        self.counter = 0

    def sql(self, statement: str, *args: Any) -> list[tuple[Any, ...]]:
        return self.server.execute(statement, *args, database=self.database)

    def rows(self, columns: str = "id, email", table: str = "account") -> list[tuple[Any, ...]]:
        return self.sql(f"SELECT {columns} FROM {table} ORDER BY 1")

    def staged(self) -> list[str]:
        return [r[0] for r in self.sql("SELECT relname::text FROM pg_class WHERE relname LIKE 'staged%' ORDER BY 1")]

    def position(self) -> Position:
        return msgspec.json.decode(self.sql("SELECT position FROM tidelock.tidelock_checkpoint")[0][0], type=Position)

    def wanted(self, ordinal: int, mode: str, key: Row | None = None, table: str = "account") -> None:
        self.sql(
            "INSERT INTO tidelock.tidelock_wanted VALUES ('shop', 0, $1, 'public', $2, $3, $4)",
            ordinal, table, mode, None if key is None else msgspec.msgpack.encode(key),
        )  # fmt: skip

    def id(self, epoch: int) -> EffectId:
        self.counter += 1
        return EffectId(epoch, self.counter)

    def sink(self, **options: Any) -> PostgresSink:
        url = options.pop("url", self.server.url(self.database))
        sink = PostgresSink(url, SinkOptions(**{"feed": "shop", "lanes": 2, "lock_timeout_seconds": 5.0, **options}))
        self.sinks.append(sink)
        return sink

    async def opened(self, *names: TableName, **options: Any) -> Copying:
        sink = self.sink(**options)
        taken = await sink.take_over(list(names or (ACCOUNT,)), START)
        return Copying(self, sink, taken, (names or (ACCOUNT,))[0])


@pytest.fixture
async def target(postgres: Postgres) -> AsyncIterator[Target]:
    target = Target(postgres)
    yield target
    for sink in target.sinks:
        await sink.close()


async def until(condition: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + 20
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.02)


# --- staging --------------------------------------------------------------------------------------------------------


async def test_what_is_staged_is_what_the_stream_would_write(target: Target) -> None:
    """Every kind of value, written by both ways into the same table."""
    types = {
        "id": ("bigint PRIMARY KEY", Kind.INT, 7, 8),
        "b": ("boolean", Kind.INT, 1, None),
        "f": ("real", Kind.FLOAT, 0.10000000149011612, None),
        "d": ("double precision", Kind.DOUBLE, 1e-300, -0.0),
        "n": ("numeric(30,10)", Kind.DECIMAL, "12345678901234567890.1234567890", "-0.5000000000"),
        "t": ('text COLLATE "C"', Kind.TEXT, "tab\t, line\n, back\\slash, 'quote', \\N, ü, 𝄞", "\\N"),
        "c": ("char(5)", Kind.TEXT, "ab", "     "),
        "y": ("bytea", Kind.BINARY, b"\0\xff\\", b""),
        "z": ("bytea", Kind.TEXT, "text", ""),
        "u": ("uuid", Kind.UUID, "123e4567-e89b-12d3-a456-426614174000", None),
        "j": ("jsonb", Kind.JSON, '{"b": 1, "a": [1e400, "\\u00e4"]}', "null"),
        "w": ("timestamp(6)", Kind.DATETIME, "2024-02-29 10:00:00.123456", "9999-12-31 23:59:59"),
        "v": ("timestamptz(3)", Kind.TIMESTAMP, "1970-01-01 00:00:01.000", None),
        "i": ("interval", Kind.TIME, "-838:59:59", "00:00:00"),
        "a": ("date", Kind.DATE, "1000-01-01", None),
        "m": ("bit(3)", Kind.BIT, 5, 0),
        "g": ("bytea", Kind.GEOMETRY, b"\0\0\0\0\1\2", None),
    }
    name = TableName("public", "every")
    definition = ", ".join(f"{column} {type_[0]}" for column, type_ in types.items())
    target.sql(f"CREATE TABLE every ({definition}, twice bigint GENERATED ALWAYS AS (id * 2) STORED, o int DEFAULT 9)")
    copy = await target.opened(name)
    copy.columns = [Column(n, kind, length=3 if kind is Kind.BIT else 0) for n, (_, kind, *_) in types.items()]
    rows = [tuple(values[i] for values in types.values()) for i in (2, 3)]
    batch = ApplyBatch(target.id(copy.taken.epoch), 0, [UpsertRows(copy.table, rows, True)], b"", 2)
    assert await copy.sink.apply(batch) == BatchCommitted(batch.id)
    streamed = target.rows("every::text", "every")
    target.sql("DELETE FROM every")

    await copy.merged(await copy.chunk(rows))

    assert target.rows("every::text", "every") == streamed


_REFUSALS = ("NUL", "too long", "overflow", "not-null", "check constraint", "no text", "surrogate")


async def test_rows_that_the_target_cannot_hold_are_told_and_all_others_staged(target: Target) -> None:
    copy = await target.opened()
    bad = {
        3: (3, "nul\0", "1.00"),
        4: (4, "x" * 21, "1.00"),
        50: (50, "ok50", "123456.00"),
        51: (51, None, None),
        52: (52, "ok52", "-1.00"),
        77: (77, b"\xff", "1.00"),
        249: (249, "half \ud800", "1.00"),
    }
    id_, done = await copy.stage(bad.get(n, row(n)) for n in range(250))

    assert done.rows == 243
    assert [refused.row for refused in done.refused] == list(bad.values())
    assert all(refused.shape == copy.table.shape for refused in done.refused)
    errors = [refused.error for refused in done.refused]
    for error, words in zip(errors, _REFUSALS, strict=True):
        assert words in error
        assert "public.account" in error
        assert "staged" not in error
    await copy.merged(msgspec.structs.replace(await copy.chunk([]), staged=id_, rows=243))
    assert [r[0] for r in target.rows()] == [n for n in range(250) if n not in bad]


async def test_a_large_batch_is_sent_in_parts(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelock.adapters.postgres.target.staging.COPY_CHARACTERS", 1_000)
    parts: list[int] = []
    told = "tidelock.adapters.postgres.target.staging.lines"
    monkeypatch.setattr(told, lambda *columns: parts.append(len(lines(*columns))) or lines(*columns))
    name = TableName("public", "large")
    target.sql("CREATE TABLE large (id bigint PRIMARY KEY, body text)")
    copy = await target.opened(name)
    copy.columns = (Column("id", Kind.INT, length=8), Column("body", Kind.TEXT))
    sizes = [10, 5_000, 0, 400, 700, 1_200]
    await copy.merged(await copy.chunk([(n, "x" * size) for n, size in enumerate(sizes)]))
    assert [r[1] for r in target.rows("id, length(body)", "large")] == sizes
    assert sum(parts) > sum(sizes)
    assert [part for part in parts if part > 1_100] == [5_003, 1_203]  # what is larger by itself goes alone


async def test_zero_dates_become_null_where_the_feed_says_so(target: Target) -> None:
    name = TableName("public", "dated")
    target.sql("CREATE TABLE dated (id bigint PRIMARY KEY, d date, n date NOT NULL)")
    copy = await target.opened(name)
    copy.columns = (Column("id", Kind.INT), Column("d", Kind.DATE), Column("n", Kind.DATE))
    rows = [(1, "0000-00-00", "2020-01-01"), (2, "2020-01-01", "2020-01-00")]
    assert [r.row[0] for r in (await copy.stage(rows))[1].refused] == [1, 2]
    id_, done = await copy.stage(rows, zero_dates="null")
    assert [r.row[0] for r in done.refused] == [2]
    await copy.merged(msgspec.structs.replace(await copy.chunk([]), staged=id_, rows=1))
    assert target.rows("id, d", "dated") == [(1, None)]


async def test_trouble_that_is_no_rows_fault_is_no_refusal(target: Target) -> None:
    """A full disk, as a CHECK can play it."""
    target.sql(
        "CREATE FUNCTION full_disk(n bigint) RETURNS boolean LANGUAGE plpgsql AS "
        "$$ BEGIN IF n = 7 THEN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END IF; RETURN true; END $$"
    )
    target.sql("ALTER TABLE account ADD CHECK (full_disk(id))")
    copy = await target.opened()
    with pytest.raises(asyncpg.DiskFullError):
        await copy.stage(row(n) for n in range(10))
    assert target.staged() == []
    await copy.stage([row(1)])
    assert target.sql("SELECT relpersistence FROM pg_class WHERE relname LIKE 'staged%'") == [(b"u",)]


async def test_a_death_while_staging_leaves_nothing(target: Target) -> None:
    copy = await target.opened()
    attempt = target.id(copy.taken.epoch)

    def dying() -> Iterable[Columns]:
        yield from columnar([row(n) for n in range(10)], 5)
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError):
        await asyncio.to_thread(stage, copy.place(attempt), dying())
    await until(lambda: target.staged() == [])

    def ended() -> Iterable[Columns]:
        yield from columnar([row(n) for n in range(10)], 5)
        name = session_name(copy.place(attempt).name)
        target.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", name)
        yield from columnar([row(n) for n in range(10, 20)], 5)

    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await asyncio.to_thread(stage, copy.place(attempt), ended())
    assert target.staged() == []
    _, done = await copy.stage([row(1)], attempt=attempt)
    assert done == Staged(1)
    _, done = await copy.stage([row(1), row(2)], attempt=attempt)  # the same attempt again: in its place
    assert done == Staged(2)


# --- a copy begins --------------------------------------------------------------------------------------------------


async def test_a_copy_begins_with_empty_tables_and_its_plan(target: Target) -> None:
    target.sql("CREATE TABLE line (id bigint PRIMARY KEY, a bigint REFERENCES account, up bigint REFERENCES line)")
    target.sql("INSERT INTO account VALUES (1, 'a', 0)")
    target.sql("INSERT INTO line VALUES (1, 1, NULL), (2, 1, 1)")
    line = TableName("public", "line")
    copy = await target.opened(ACCOUNT, line)
    parked = [ParkedRow("s", 1, n, "public", name, "id=9", "why", b"x") for n, name in enumerate(("account", "other"))]
    batch = ApplyBatch(target.id(copy.taken.epoch), 0, [], b"", 0, tuple(parked))
    assert await copy.sink.apply(batch) == BatchCommitted(batch.id)
    target.wanted(1, "copy")
    target.wanted(2, "copy", table="elsewhere")
    target.wanted(3, "repair", (1,), "line")
    splits = (ChunkSplit(ACCOUNT, By.NUMBERS, ("id",), ((10,), (20,))), ChunkSplit(line))
    effect = BeginCopy(target.id(copy.taken.epoch), splits, MERGED, (batch.id,))

    for _ in range(2):  # twice is once
        assert await copy.sink.begin_copy(effect) == CopyBegun(effect.id)

        assert target.rows() == target.rows("id", "line") == []
        assert target.position() == MERGED
        assert target.sql("SELECT table_name FROM tidelock.tidelock_parked") == [("other",)]
        assert target.sql("SELECT count(*) FROM tidelock.tidelock_progress") == [(0,)]
        assert target.sql("SELECT ordinal FROM tidelock.tidelock_wanted") == [(2,)]
    taken = await target.sink().take_over([ACCOUNT, line], START)
    assert taken.chunks == (Copied(splits[0]), Copied(splits[1]))


async def test_the_rows_that_go_are_marked_as_our_doing(target: Target) -> None:
    """A feed the other way would delete the source's."""
    target.sql("CREATE TABLE seen (n serial, what text, transaction xid8 DEFAULT pg_current_xact_id())")
    target.sql(
        "CREATE OR REPLACE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO seen (what) VALUES (tg_table_name); RETURN NULL; END $$"
    )
    target.sql("CREATE TRIGGER see AFTER INSERT ON tidelock.tidelock_progress FOR EACH ROW EXECUTE FUNCTION see()")
    target.sql("CREATE TRIGGER see AFTER DELETE OR INSERT ON account FOR EACH ROW EXECUTE FUNCTION see()")
    target.sql("INSERT INTO account VALUES (1, 'a', 0)")
    copy = await target.opened()
    assert isinstance(await copy.begin(), CopyBegun)
    await copy.merged(await copy.chunk([row(1)]))
    seen = target.sql("SELECT array_agg(what ORDER BY n) FROM seen GROUP BY transaction ORDER BY min(n)")
    assert seen == [(["account"],), (["tidelock_progress", "account"],), (["tidelock_progress", "account"],)]


async def test_a_copy_begun_anew_forgets_the_chunks_of_before(target: Target) -> None:
    copy = await target.opened()
    await copy.begin(ChunkSplit(ACCOUNT, By.NUMBERS, ("id",), ((10,), (20,))))
    await copy.merged(await copy.chunk([row(1)], split=ChunkSplit(ACCOUNT, By.NUMBERS, ("id",), ((10,), (20,)))))
    await copy.begin(ChunkSplit(ACCOUNT))
    assert target.rows() == []
    assert (await target.sink().take_over([ACCOUNT], START)).chunks == (Copied(ChunkSplit(ACCOUNT)),)


async def test_rows_stay_where_the_split_says_so(target: Target) -> None:
    copy = await target.opened()
    target.sql("INSERT INTO account VALUES (1, 'a', 0)")
    parked = ParkedRow("s", 1, 1, "public", "account", "id=9", "why", b"x")
    batch = ApplyBatch(target.id(copy.taken.epoch), 0, [], b"", 0, (parked,))
    await copy.sink.apply(batch)
    for split in (ChunkSplit(ACCOUNT, keep=True), ChunkSplit(ACCOUNT, By.KEYS, ("id",), keys=((1,),))):
        assert isinstance(await copy.begin(split), CopyBegun)
        assert target.rows() == [(1, "a")]
        assert target.sql("SELECT count(*) FROM tidelock.tidelock_parked") == [(1,)]
    assert (await target.sink().take_over([ACCOUNT], START)).chunks == (Copied(split, (0,)),)


async def test_a_wish_that_came_meanwhile_is_not_granted_by_another(target: Target) -> None:
    copy = await target.opened()
    target.wanted(1, "repair", (1,))
    target.wanted(2, "repair", (2,))
    target.wanted(3, "copy")
    target.wanted(4, "keep")
    await copy.begin(ChunkSplit(ACCOUNT, By.KEYS, ("id",), keys=((1,),)))
    assert [wish.ordinal for wish in (await copy.sink.control()).wanted] == [2, 3, 4]
    await copy.begin(ChunkSplit(ACCOUNT, keep=True))
    assert [wish.ordinal for wish in (await copy.sink.control()).wanted] == [2, 3]
    await copy.begin()
    assert (await copy.sink.control()).wanted == ()


async def test_who_reads_the_table_sees_the_rows_of_before_until_the_copy_has_begun(target: Target) -> None:
    target.sql("INSERT INTO account VALUES (1, 'a', 0)")
    copy = await target.opened()
    reader = await asyncpg.connect(target.server.url(target.database), ssl=False)
    async with reader.transaction(isolation="repeatable_read"):
        assert await reader.fetchval("SELECT count(*) FROM account") == 1
        assert isinstance(await copy.begin(), CopyBegun)
        assert await reader.fetchval("SELECT count(*) FROM account") == 1
    assert await reader.fetchval("SELECT count(*) FROM account") == 0
    await reader.close()


@pytest.mark.parametrize("rule", ["ON DELETE CASCADE", "ON DELETE SET NULL", ""])
async def test_rows_that_the_feed_does_not_know_are_not_swept_away(target: Target, rule: str) -> None:
    target.sql(f"CREATE TABLE notes (id int, account bigint REFERENCES account {rule})")
    target.sql("INSERT INTO account VALUES (1, 'a', 0)")
    target.sql("INSERT INTO notes VALUES (1, 1)")
    copy = await target.opened()
    target.wanted(1, "copy")
    answer = await copy.begin()
    assert isinstance(answer, CopyFailed)
    assert "notes" in answer.failure.message
    assert (target.rows(), target.rows("id, account", "notes")) == ([(1, "a")], [(1, 1)])
    assert (await copy.sink.control()).wanted != ()
    assert target.sql("SELECT count(*) FROM tidelock.tidelock_chunks") == [(0,)]


async def test_the_feeds_user_needs_no_right_but_those_of_the_stream(target: Target) -> None:
    target.sql("DROP ROLE IF EXISTS copier")
    target.sql("CREATE ROLE copier LOGIN PASSWORD 'pw'")
    target.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON account TO copier")
    target.sql("GRANT USAGE, CREATE ON SCHEMA tidelock TO copier")
    target.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tidelock TO copier")
    url = f"postgresql://copier:pw@127.0.0.1:{target.server.port}/{target.database}?sslmode=disable"
    copy = await target.opened(url=url)
    target.server.url = lambda _: url  # type: ignore[method-assign]
    try:
        assert isinstance(await copy.begin(), CopyBegun)
        effect = await copy.chunk([row(1)])
        await copy.merged(effect)
        await copy.sink.drop_staged(effect.staged)
    finally:
        del target.server.url
    assert target.rows() == [(1, "user1")]
    assert target.staged() == []
    await copy.sink.close()
    target.sql("DROP OWNED BY copier")
    target.sql("DROP ROLE copier")


# --- merges ---------------------------------------------------------------------------------------------------------


async def test_a_merge_puts_rows_chunk_and_checkpoint_in_place_at_once(target: Target) -> None:
    copy = await target.opened()
    split = ChunkSplit(ACCOUNT, By.NUMBERS, ("id",), ((5,),))
    await copy.begin(split)
    batch = ApplyBatch(target.id(copy.taken.epoch), 0, [], b"", 0)
    await copy.sink.apply(batch)
    images = [row(2, "touched"), row(4, "new")]
    parked, other = (ParkedRow("s", 1, n, "public", "account", f"id={n}", "why", b"x") for n in (3, 9))
    before = ApplyBatch(target.id(copy.taken.epoch), 0, [], b"", 0, (other,))
    await copy.sink.apply(before)
    effect = await copy.chunk(
        (row(n) for n in range(5)),
        split=split,
        without=[(1,), (2,), (4,), (99,)],
        steps=[UpsertRows(copy.table, images, fresh=True)],
        drop=(batch.id, before.id),
        parked=(parked,),
        unparked=((other.source, other.number, other.ordinal),),
    )
    await copy.merged(effect)

    assert target.rows() == [(0, "user0"), (2, "touched"), (3, "user3"), (4, "new")]
    assert target.position() == MERGED
    assert target.sql("SELECT epoch, batch FROM tidelock.tidelock_progress") == [(effect.id.epoch, effect.id.counter)]
    assert target.sql("SELECT chunk, rows_merged FROM tidelock.tidelock_chunks ORDER BY 1") == [(0, 4), (1, None)]
    assert target.sql("SELECT row_key FROM tidelock.tidelock_parked") == [("id=3",)]
    taken = await target.sink().take_over([ACCOUNT], START)
    assert taken.chunks == (Copied(split, (0,)),)
    assert [receipt.id for receipt in taken.receipts] == [effect.id]


async def test_a_merge_is_made_once(target: Target) -> None:
    copy = await target.opened()
    await copy.begin()
    effect = await copy.chunk([row(1)])
    await copy.merged(effect)
    target.sql("DELETE FROM account")  # a second merge would bring the row back
    await copy.sink.drop_staged(effect.staged)
    await copy.merged(effect)
    assert target.rows() == []
    save = SaveCheckpoint(target.id(copy.taken.epoch), MERGED, (effect.id,))
    assert await copy.sink.save_checkpoint(save) == CheckpointSaved(save.id)


async def test_receipts_that_a_merge_or_a_beginning_drops_are_not_missed(target: Target) -> None:
    """Nor is the merge's own, until it is gone without our doing: then the target has lost what it had reported."""
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidelock/shop'"
    copy = await target.opened()
    batches = [ApplyBatch(target.id(copy.taken.epoch), 0, [], b"", 0) for _ in range(5)]

    async def applied(batch: ApplyBatch) -> Any:
        answer = await copy.sink.apply(batch)
        again = isinstance(answer, BatchFailed) and answer.failure.kind in (ErrorKind.TRANSIENT, ErrorKind.IN_DOUBT)
        return await copy.sink.apply(batch) if again else answer

    assert await applied(batches[0]) == BatchCommitted(batches[0].id)
    begin = BeginCopy(target.id(copy.taken.epoch), (ChunkSplit(ACCOUNT),), START, (batches[0].id,))
    assert await copy.sink.begin_copy(begin) == CopyBegun(begin.id)
    target.sql(ended)
    assert await applied(batches[1]) == BatchCommitted(batches[1].id)
    merge = await copy.chunk([row(1)], drop=(batches[1].id,))
    await copy.merged(merge)
    target.sql(ended)
    assert await applied(batches[2]) == BatchCommitted(batches[2].id)
    target.sql("DELETE FROM tidelock.tidelock_progress WHERE batch = $1", merge.id.counter)
    target.sql(ended)
    answer = await applied(batches[3])
    assert isinstance(answer, BatchFailed)
    assert answer.failure.kind is ErrorKind.COMMITS_LOST
    assert (await copy.failed(await copy.chunk([row(2)]))).kind is ErrorKind.COMMITS_LOST


async def test_a_merge_whose_session_is_ended_is_in_doubt_and_made_again(target: Target) -> None:
    copy = await target.opened()
    await copy.begin()
    effect = await copy.chunk([row(1)])
    other = await asyncpg.connect(target.server.url(target.database), ssl=False)
    await other.execute("BEGIN; INSERT INTO account VALUES (7, 'user1', 0)")  # the merge waits for it
    running = asyncio.create_task(copy.sink.merge_chunk(effect))
    waiting = "FROM pg_stat_activity WHERE application_name = 'tidelock/shop' AND wait_event_type = 'Lock'"
    await until(lambda: target.sql(f"SELECT count(*) {waiting}") == [(1,)])
    target.sql(f"SELECT pg_terminate_backend(pid) {waiting}")
    answer = await running
    assert isinstance(answer, BatchFailed)
    assert answer.failure.kind is ErrorKind.IN_DOUBT
    await other.execute("ROLLBACK")
    await other.close()
    assert target.rows() == []
    await copy.merged(effect)
    assert target.rows() == [(1, "user1")]


async def test_a_merge_ends_with_its_sink(target: Target) -> None:
    copy = await target.opened(lock_timeout_seconds=60.0)
    await copy.begin()
    effect = await copy.chunk([row(1)])
    other = await asyncpg.connect(target.server.url(target.database), ssl=False)
    await other.execute("BEGIN; INSERT INTO account VALUES (7, 'user1', 0)")
    running = asyncio.create_task(copy.sink.merge_chunk(effect))
    waiting = "FROM pg_stat_activity WHERE application_name = 'tidelock/shop' AND wait_event_type = 'Lock'"
    await until(lambda: target.sql(f"SELECT count(*) {waiting}") == [(1,)])
    await asyncio.wait_for(copy.sink.close(), 20)  # before the lock times out
    assert running.cancelled()
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidelock/shop'"
    await until(lambda: target.sql(sessions) == [(0,)])
    await other.execute("ROLLBACK")
    await other.close()
    assert target.rows() == []


async def test_a_takeover_ends_a_merge_that_does_not_finish(target: Target) -> None:
    old = await target.opened(lock_timeout_seconds=60.0)
    await old.begin()
    effect = await old.chunk([row(1)])
    other = await asyncpg.connect(target.server.url(target.database), ssl=False)
    await other.execute("BEGIN; INSERT INTO account VALUES (7, 'user1', 0)")
    running = asyncio.create_task(old.failed(effect))
    waiting = "FROM pg_stat_activity WHERE application_name = 'tidelock/shop' AND wait_event_type = 'Lock'"
    await until(lambda: target.sql(f"SELECT count(*) {waiting}") == [(1,)])
    taken = await target.sink(lock_timeout_seconds=0.3).take_over([ACCOUNT], START)
    assert (taken.chunks, taken.receipts) == ((Copied(ChunkSplit(ACCOUNT)),), ())
    assert (await running).kind is ErrorKind.IN_DOUBT
    await other.execute("ROLLBACK")
    await other.close()
    assert (await old.failed(effect)).kind is ErrorKind.FENCED
    assert target.rows() == []
    assert target.staged() == []


async def test_a_zombie_merges_and_begins_nothing(target: Target) -> None:
    zombie = await target.opened()
    await zombie.begin()
    effect = await zombie.chunk([row(1)])
    target.wanted(1, "copy")
    await target.sink().take_over([ACCOUNT], START)
    late = await zombie.chunk([row(2)])
    for one in (effect, late):
        assert (await zombie.failed(one)).kind is ErrorKind.FENCED
    target.sql("INSERT INTO account VALUES (9, 'stays', 0)")
    answer = await zombie.begin()
    assert isinstance(answer, CopyFailed)
    assert answer.failure.kind is ErrorKind.FENCED
    await zombie.sink.refuse([ACCOUNT], Alarm("copy", "no", "hint"))
    assert target.rows() == [(9, "stays")]
    assert target.sql("SELECT mode FROM tidelock.tidelock_wanted") == [("copy",)]


@pytest.mark.parametrize("lost", ["DELETE FROM tidelock.{} WHERE id = 1", "DROP TABLE tidelock.{}"])
async def test_rows_that_are_staged_no_more_stand_the_owner_down(target: Target, lost: str) -> None:
    copy = await target.opened()
    await copy.begin()
    effect = await copy.chunk([row(1), row(2)])
    target.sql(lost.format(staged_name("shop", 0, effect.staged)))
    assert (await copy.failed(effect)).kind is ErrorKind.COMMITS_LOST
    assert target.rows() == []
    assert target.position() == START


async def test_a_crash_of_the_server_empties_what_is_staged(make_postgres: Callable[..., Postgres]) -> None:
    target = Target(make_postgres(durable=True))
    copy = await target.opened()
    await copy.begin()
    effect = await copy.chunk([row(1), row(2)])
    target.server.kill()
    target.server.start()
    troubles = [(await copy.failed(effect)).kind for _ in range(2)]
    assert troubles[-1] is ErrorKind.COMMITS_LOST
    assert target.rows() == []
    taken = await copy.sink.take_over([ACCOUNT], START)
    assert taken.chunks == (Copied(ChunkSplit(ACCOUNT)),)
    await copy.sink.close()


async def test_a_clash_is_the_rows_own_fault_and_changes_nothing(target: Target) -> None:
    copy = await target.opened()
    await copy.begin()
    target.sql("INSERT INTO account VALUES (7, 'user1', 0)")
    effect = await copy.chunk([row(1), row(2)])
    failure = await copy.failed(effect)
    assert failure.kind is ErrorKind.ROW
    assert "account_email_key" in failure.message
    assert target.rows() == [(7, "user1")]
    assert target.position() == START
    target.sql("DELETE FROM account")
    await copy.merged(effect)


async def test_a_last_image_that_is_not_told_whole_is_written_over_the_staged_row(target: Target) -> None:
    """Its unique value too; a row that is not staged cannot be made."""
    copy = await target.opened()
    await copy.begin(ChunkSplit(ACCOUNT))
    shape = msgspec.structs.replace(copy.table.shape, primary_key=("id",), identity="key")
    keyed = Binding(1, shape, copy.table.target)
    images = [(1, "user2", UNKNOWN), (2, UNKNOWN, UNKNOWN)]
    steps = [UpdateRows(keyed, [(1,), (2,)], images, False), UpsertRows(keyed, [row(4, "late")], True)]
    staged = [row(1), (2, "user1", row(2)[2]), row(3)]
    await copy.merged(await copy.chunk(staged, steps=steps))
    assert target.rows() == [(1, "user2"), (2, "user1"), (3, "user3"), (4, "late")]




async def test_rows_that_are_kept_win(target: Target) -> None:
    copy = await target.opened()
    split = ChunkSplit(ACCOUNT, keep=True)
    target.sql("INSERT INTO account VALUES (1, 'mine', 0), (9, 'user3', 0)")
    await copy.begin(split)
    steps = [UpsertRows(copy.table, [row(1, "late"), row(5)], True)]
    effect = await copy.chunk((row(n) for n in range(1, 5)), split=split, without=[(5,)], steps=steps)
    await copy.merged(msgspec.structs.replace(effect, without=[(1,), (5,)]))
    assert target.rows() == [(1, "mine"), (2, "user2"), (4, "user4"), (5, "user5"), (9, "user3")]


KEYED = ChunkSplit(ACCOUNT, By.KEYS, ("id",), keys=tuple((n,) for n in range(1, 7)))


async def test_rows_that_are_read_again_are_changed_where_they_stand(target: Target) -> None:
    """A referring row that does not cascade would refuse their delete."""
    target.sql("CREATE TABLE line (account bigint REFERENCES account)")
    copy = await target.opened()
    for n in range(8):
        target.sql(f"INSERT INTO account VALUES ({n}, 'old{n}', 0)")
    target.sql("INSERT INTO line VALUES (1), (2), (7)")
    await copy.begin(KEYED)
    effect = await copy.chunk(
        [row(1), row(3), row(6)],
        split=KEYED,
        chunk=1,
        gone=list(KEYED.keys),
        without=[(2,), (3,)],
        steps=[UpsertRows(copy.table, [row(2, "image")], True)],
    )
    await copy.merged(effect)
    assert target.rows() == [(0, "old0"), (1, "user1"), (2, "image"), (6, "user6"), (7, "old7")]
    assert target.sql("SELECT count(*) FROM tidelock.tidelock_chunks WHERE rows_merged IS NULL") == [(0,)]


async def test_unique_values_move_between_rows_that_are_read_again(target: Target) -> None:
    copy = await target.opened()
    target.sql("INSERT INTO account VALUES (1, 'b', 0), (2, 'a', 0), (3, 'c', 0)")
    await copy.begin(KEYED)
    await copy.merged(await copy.chunk([row(1, "a"), row(2, "b")], split=KEYED, chunk=1, gone=list(KEYED.keys)))
    assert target.rows() == [(1, "a"), (2, "b")]
    target.sql("INSERT INTO account VALUES (9, 'z', 0)")
    stranger = await copy.chunk([row(1, "z")], split=KEYED, chunk=1, gone=list(KEYED.keys))
    assert (await copy.failed(stranger)).kind is ErrorKind.ROW
    assert target.rows() == [(1, "a"), (2, "b"), (9, "z")]


async def test_rows_of_a_chunk_may_refer_to_each_other(target: Target) -> None:
    """Also those that are staged to those that the stream has touched."""
    name = TableName("public", "tree")
    target.sql("CREATE TABLE tree (id bigint PRIMARY KEY, up bigint REFERENCES tree)")
    copy = await target.opened(name)
    copy.columns = (Column("id", Kind.INT), Column("up", Kind.INT))
    await copy.begin()
    steps = [UpsertRows(copy.table, [(5, 2)], True)]
    await copy.merged(await copy.chunk([(1, 5), (2, 3), (3, 3)], without=[(5,)], steps=steps))
    assert target.rows("id, up", "tree") == [(1, 5), (2, 3), (3, 3), (5, 2)]


async def test_generated_and_identity_columns(target: Target) -> None:
    name = TableName("public", "made")
    target.sql(
        "CREATE TABLE made (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int NOT NULL, "
        "double bigint GENERATED ALWAYS AS (n * 2) STORED, own text DEFAULT 'own', CHECK (double > n))"
    )
    copy = await target.opened(name)
    copy.columns = (Column("double", Kind.INT), Column("id", Kind.INT), Column("n", Kind.INT))
    await copy.begin()
    rows = [(2 * n, n, n) for n in range(1, 5)]
    steps = [UpsertRows(copy.table, [(20, 2, 10)], True)]
    await copy.merged(await copy.chunk(rows, without=[(3,), (2,)], steps=steps))
    assert target.rows("id, n, double, own", "made") == [(1, 1, 2, "own"), (2, 10, 20, "own"), (4, 4, 8, "own")]


FOLDING = "CREATE COLLATION IF NOT EXISTS folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"


@pytest.mark.parametrize(
    ("type_", "kind", "staged", "touched"),
    [
        ("text COLLATE folding", Kind.TEXT, ["ä", "Bär", "Baer"], ["BÄR"]),
        ("citext", Kind.TEXT, ["a", "Lucy", "lucyx"], ["lUCY"]),
        ("char(6)", Kind.TEXT, ["a", "b", "c"], ["b  "]),
        ("text", Kind.TEXT, ["a", "A\\'\",{}", "b"], ["A\\'\",{}", "nul\0", b"\xff", "NULL"]),
        ("bytea", Kind.BINARY, [b"", b"\0\\", b"b"], [b"\0\\"]),
        ("bytea", Kind.TEXT, ["", "\\xäß", "b"], ["\\xäß"]),
        ("numeric(20)", Kind.INT, [1, 2**64 - 1, 3], [2**64 - 1]),
        ("numeric(9,3)", Kind.DECIMAL, ["1.000", "-0.500", "3.000"], ["-0.500"]),
        ("real", Kind.FLOAT, [1.5, 0.10000000149011612, 3.0], [0.10000000149011612]),
        ("boolean", Kind.INT, [0, 1], [1]),
        ("bit(9)", Kind.BIT, [0, 257, 3], [257]),
        ("date", Kind.DATE, ["2020-01-01", "2020-01-02"], ["2020-01-02", "0000-00-00"]),
        ("timestamp(6)", Kind.DATETIME, ["2020-01-01 00:00:00", "2020-01-02 00:00:00.5"], ["2020-01-02 00:00:00.5"]),
        ("timestamptz", Kind.TIMESTAMP, ["2020-01-01 00:00:00", "2020-01-02 00:00:00"], ["2020-01-02 00:00:00"]),
        ("interval", Kind.TIME, ["00:00:00", "-26:00:01"], ["-26:00:01"]),
        ("uuid", Kind.BINARY, [bytes(16), bytes(range(16))], [bytes(range(16))]),
        ("uuid", Kind.UUID, [str(n) * 8 + "-0000-0000-0000-000000000000" for n in (1, 2)],
         ["22222222-0000-0000-0000-000000000000"]),
    ],
)  # fmt: skip
async def test_keys_are_compared_as_the_target_does(
    target: Target, type_: str, kind: Kind, staged: list[Any], touched: list[Any]
) -> None:
    """The second row is touched, with a key that is spelled in another way where the target allows it; so are rows
    that the target cannot hold at all."""
    target.sql(FOLDING)
    target.sql("CREATE EXTENSION IF NOT EXISTS citext")
    name = TableName("public", "keyed")
    target.sql(f"CREATE TABLE keyed (k {type_}, n int, PRIMARY KEY (k, n))")
    copy = await target.opened(name)
    copy.columns = (Column("k", kind, length=9 if kind is Kind.BIT else 0), Column("n", Kind.INT))
    await copy.begin()
    rows = [(value, n) for value in staged for n in (1, 2)]
    await copy.merged(await copy.chunk(rows, without=[(value, n) for value in touched for n in (2, 3)]))
    left = target.sql("SELECT n FROM keyed ORDER BY k, n")
    assert len(left) == len(rows) - 1
    assert left.count((2,)) == len(staged) - 1
    assert left.count((1,)) == len(staged)


async def test_a_key_of_bits_of_any_length_is_refused(target: Target) -> None:
    name = TableName("public", "bits")
    target.sql("CREATE TABLE bits (k bit varying(9) PRIMARY KEY)")
    copy = await target.opened(name)
    copy.columns = (Column("k", Kind.BIT, length=4),)
    await copy.begin()
    failure = await copy.failed(await copy.chunk([(1,), (2,)], without=[(1,)]))
    assert failure.kind is ErrorKind.ROW
    assert "make it bit(n)" in failure.message
    await copy.merged(await copy.chunk([(1,), (2,)]))


async def test_many_touched_rows(target: Target) -> None:
    """More than a statement's parts hold, by a key of two columns."""
    name = TableName("public", "pair")
    target.sql("CREATE TABLE pair (a int, b text, v text, PRIMARY KEY (a, b))")
    copy = await target.opened(name)
    copy.columns = (Column("a", Kind.INT), Column("b", Kind.TEXT), Column("v", Kind.TEXT))
    await copy.begin()
    rows = [(n % 100, f"b{n}", "staged") for n in range(20_000)]
    touched = rows[::2]
    images = [(a, b, "image") for a, b, _ in rows[::4]]
    steps = [UpsertRows(copy.table, images, True)]
    await copy.merged(await copy.chunk(rows, without=[r[:2] for r in touched], steps=steps))
    assert target.sql("SELECT v, count(*) FROM pair GROUP BY v ORDER BY v") == [("image", 5_000), ("staged", 10_000)]


async def test_a_table_without_a_key(target: Target) -> None:
    name = TableName("public", "loose")
    target.sql("CREATE TABLE loose (v text, doc json)")
    copy = await target.opened(name)
    copy.columns = (Column("v", Kind.TEXT), Column("doc", Kind.JSON))
    await copy.begin()
    await copy.merged(await copy.chunk([("a", "{}"), ("a", "{}"), (None, None)]))
    assert len(target.rows("v", "loose")) == 3


# --- which staged rows a merge is refused for ------------------------------------------------------------------------


async def refused_of(copy: Copying, effect: MergeChunk) -> list[RefusedRow]:
    """The rows that are found; the merge is refused before, and made without them after."""
    assert (await copy.failed(effect)).kind is ErrorKind.ROW
    find = FindRefused(copy.target.id(copy.taken.epoch), effect, copy.table.shape)
    found = await copy.sink.find_refused(find)
    assert isinstance(found, RefusedFound), found
    rows = [row.row for row in found.rows]
    key = copy.table.key
    more: dict[str, Any] = {"without": [*effect.without, *(tuple(row[i] for i in key) for row in rows)]}
    if not key:
        more = {"steps": [DeleteRows(copy.table, rows)]}
    id_ = copy.target.id(copy.taken.epoch)
    gone = [k for k in effect.gone if k not in more["without"]]
    await copy.merged(msgspec.structs.replace(effect, id=id_, gone=gone, **more))
    return list(found.rows)


WIDE = (
    Column("id", Kind.DECIMAL, precision=10, scale=2),
    Column("at", Kind.DATETIME, scale=3),
    Column("raw", Kind.BINARY, length=16),
    Column("took", Kind.TIME, scale=6),
    Column("yes", Kind.INT, length=1),
    Column("ratio", Kind.DOUBLE),
    Column("doc", Kind.JSON),
    Column("day", Kind.DATE),
    Column("bits", Kind.BIT, length=4),
    Column("up", Kind.INT),
)


async def test_a_row_without_its_parent_is_found_as_the_log_spells_it(target: Target) -> None:
    name = TableName("public", "wide")
    target.sql(
        "CREATE TABLE wide (id numeric PRIMARY KEY, at timestamptz, raw bytea, took interval, yes boolean, "
        "ratio double precision, doc json, day date, bits bit(4), up bigint REFERENCES account)"
    )
    target.sql("INSERT INTO account VALUES (1, 'a', 0)")
    copy = await target.opened(name)
    copy.columns = WIDE
    await copy.begin()
    bad = ("2.50", "2026-01-02 03:04:05.600", b"\x00\xff", "-100:36:39.000001", 1, 0.1, '{"a": 1}', "2026-02-28", 5, 9)
    rows = [("1.50", *bad[1:9], 1), bad, ("3.00", *[None] * 9)]
    (found,) = await refused_of(copy, await copy.chunk(rows))
    assert found.row == bad and found.code == "23503" and "wide_up_fkey" in found.error
    assert target.sql("SELECT id::text FROM wide ORDER BY id") == [("1.50",), ("3.00",)]


async def test_rows_of_a_tree_are_refused_with_all_that_hang_from_them_and_no_others(target: Target) -> None:
    name = TableName("public", "tree")
    target.sql("CREATE TABLE tree (id bigint PRIMARY KEY, up bigint REFERENCES tree, code int UNIQUE)")
    copy = await target.opened(name)
    copy.columns = (Column("id", Kind.INT), Column("up", Kind.INT), Column("code", Kind.INT))
    await copy.begin()
    target.sql(
        "CREATE FUNCTION no_seven() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.code = 7 THEN RAISE EXCEPTION "
        "'no seven' USING ERRCODE = '23514'; END IF; RETURN NEW; END $$",
    )
    target.sql("CREATE TRIGGER no_seven BEFORE INSERT ON tree FOR EACH ROW EXECUTE FUNCTION no_seven()")
    rows = [(1, 9, 1), (2, 1, 2), (3, None, 7), (4, 3, 4), (5, 4, 5), (6, 77, 6), (9, 1, 9), (10, None, 10)]
    found = await refused_of(copy, await copy.chunk(rows))
    assert sorted(row.row[0] for row in found) == [3, 4, 5, 6]
    assert {row.row[0]: row.code for row in found} == {3: "23514", 4: "23503", 5: "23503", 6: "23503"}
    assert target.rows("id", "tree") == [(1,), (2,), (9,), (10,)]


async def test_many_refused_rows_are_found_and_a_table_that_does_not_fit_is_told(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = await target.opened()
    await copy.begin()
    target.sql("INSERT INTO account SELECT -n, 'user' || n * 50, 0 FROM generate_series(1, 20) n")
    effect = await copy.chunk([row(n) for n in range(2_000)])
    monkeypatch.setattr(refused_search, "MOST", 10)
    await copy.failed(effect)
    many = await copy.sink.find_refused(FindRefused(target.id(copy.taken.epoch), effect, copy.table.shape))
    assert isinstance(many, BatchFailed) and many.failure.kind is ErrorKind.ROW and "10 rows" in many.failure.message
    monkeypatch.undo()
    found = await refused_of(copy, effect)
    assert sorted(row.row[0] for row in found) == [n * 50 for n in range(1, 21)]
    assert target.sql("SELECT count(*) FROM account") == [(2_000,)]


async def test_a_refused_row_without_a_key_is_one_of_its_equals(target: Target) -> None:
    name = TableName("public", "loose")
    target.sql("CREATE TABLE loose (v text, up bigint REFERENCES account)")
    copy = await target.opened(name)
    copy.columns = (Column("v", Kind.TEXT), Column("up", Kind.INT))
    await copy.begin()
    found = await refused_of(copy, await copy.chunk([("a", 5), ("a", None), ("a", 5)]))
    assert [row.row for row in found] == [("a", 5), ("a", 5)]
    assert target.rows("v, up", "loose") == [("a", None)]


async def test_a_row_of_a_repair_is_refused_alone_though_others_trade_unique_values(target: Target) -> None:
    target.sql("CREATE TABLE line (account bigint REFERENCES account)")
    copy = await target.opened()
    target.sql("INSERT INTO account VALUES (1, 'b', 0), (2, 'a', 0), (3, 'c', 0), (4, 'd', 0), (9, 'z', 0)")
    target.sql("INSERT INTO line VALUES (3)")
    await copy.begin(KEYED)
    rows = [row(1, "a"), row(2, "b"), row(3, "z"), row(4, "e")]
    effect = await copy.chunk(rows, split=KEYED, chunk=1, gone=[(1,), (2,), (3,), (4,)])
    found = await refused_of(copy, effect)
    assert [row.row[0] for row in found] == [3]
    assert target.rows() == [(1, "a"), (2, "b"), (3, "c"), (4, "e"), (9, "z")]


async def test_what_a_repair_leaves_is_noted_and_asks_for_nothing(target: Target) -> None:
    copy = await target.opened()
    await copy.begin(KEYED)
    effect = await copy.chunk([row(1)], split=KEYED, chunk=1, gone=[(1,)], unrepaired=(("id=2", "it's 'bad'"),))
    await copy.merged(effect)
    ((mode, told),) = target.sql("SELECT mode, row_key FROM tidelock.tidelock_wanted")
    assert mode == "left" and msgspec.json.decode(told) == [["id=2", "it's 'bad'"]]
    assert (await copy.sink.control()).wanted == ()
    assert await copy.begin(KEYED) and target.sql("SELECT mode FROM tidelock.tidelock_wanted") == []


async def test_readers_of_a_copied_table_have_statistics(target: Target) -> None:
    copy = await target.opened()
    split = ChunkSplit(ACCOUNT, By.NUMBERS, ("id",), ((50,),))
    await copy.begin(split)
    estimate = "SELECT reltuples::int FROM pg_class WHERE relname = 'account'"
    await copy.merged(await copy.chunk([row(n) for n in range(50)], split=split))
    assert target.sql(estimate)[0][0] <= 0
    await copy.merged(await copy.chunk([row(n) for n in range(50, 90)], split=split, chunk=1))
    assert target.sql(estimate) == [(90,)]


# --- what lies about ------------------------------------------------------------------------------------------------


async def test_what_older_owners_staged_is_dropped(target: Target) -> None:
    copy = await target.opened()
    await copy.stage([row(1)])
    young, _ = await copy.stage([row(1)], attempt=EffectId(copy.taken.epoch + 5, 1))
    target.sql(f"CREATE TABLE tidelock.{staged_name('other', 0, EffectId(1, 1))} (id int)")
    target.sql(f"CREATE TABLE tidelock.{staged_name('shop', 0, EffectId(1, 1)).rpartition('_')[0]}x_1 (id int)")
    assert len(target.staged()) == 4
    await target.sink().take_over([ACCOUNT], START)
    assert len(target.staged()) == 3
    await copy.sink.drop_staged(young)
    await copy.sink.drop_staged(young)
    assert len(target.staged()) == 2


@pytest.mark.parametrize("takeover", [False, True])
async def test_who_still_stages_what_is_dropped_is_ended(target: Target, takeover: bool) -> None:
    copy = await target.opened()
    attempt = target.id(copy.taken.epoch)
    name = session_name(copy.place(attempt).name)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def batches() -> Iterable[Columns]:
        yield from columnar([row(1)], 1)
        asyncio.run_coroutine_threadsafe(drop(), loop).result(20)
        yield from columnar([row(2)], 1)

    async def drop() -> None:
        if takeover:
            await target.sink().take_over([ACCOUNT], START)
        else:
            await copy.sink.drop_staged(attempt)
        ended.set()

    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await asyncio.to_thread(stage, copy.place(attempt), batches())
    assert ended.is_set()
    assert target.staged() == []
    await until(lambda: target.sql("SELECT FROM pg_stat_activity WHERE application_name = $1", name) == [])


async def test_wishes_are_read_and_refused(target: Target) -> None:
    copy = await target.opened()
    target.wanted(1, "copy")
    target.wanted(2, "repair", (5, "a", b"\0", None, 1.5))
    target.wanted(3, "keep", table="other")
    other = TableName("public", "other")
    assert (await copy.sink.control()).wanted == (
        Wanted(1, ACCOUNT, "copy"),
        Wanted(2, ACCOUNT, "repair", (5, "a", b"\0", None, 1.5)),
        Wanted(3, other, "keep"),
    )
    alarm = Alarm("copy", "why 'not'", "hint", table="public.account")
    await copy.sink.refuse([ACCOUNT], alarm)
    assert [wish.ordinal for wish in (await copy.sink.control()).wanted] == [3]
    kept = target.sql("SELECT mode, row_key FROM tidelock.tidelock_wanted ORDER BY ordinal")
    assert [mode for mode, _ in kept] == ["refused", "refused", "keep"]
    assert msgspec.json.decode(kept[0][1], type=Alarm) == alarm
    await copy.begin(ChunkSplit(ACCOUNT, By.KEYS, ("id",)))  # what a repair that was given up leaves behind
    assert len(target.sql("SELECT ordinal FROM tidelock.tidelock_wanted")) == 3
    await copy.begin()
    assert target.sql("SELECT ordinal FROM tidelock.tidelock_wanted") == [(3,)]


async def test_the_session_for_copies_is_closed_when_nothing_is_copied(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = await target.opened()
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidelock/shop'"
    await copy.sink.control()
    assert target.sql(ours) == [(1,)]
    await copy.begin()
    await copy.sink.control()
    assert target.sql(ours) == [(2,)]
    monkeypatch.setattr("tidelock.adapters.postgres.target.copying.IDLE_SECONDS", 0.0)
    await copy.sink.control()
    await until(lambda: target.sql(ours) == [(1,)])
    await copy.merged(await copy.chunk([row(1)]))


def test_what_staging_needs_travels() -> None:
    """To another process, as Spark sends it."""
    import pickle

    endpoint = parse("postgresql://u:p@h:1/d?sslmode=require", Path())
    refused = RefusedRow(Shape(ACCOUNT, COLUMNS), row(1), "why")
    for one in (endpoint, Staged(1, (refused,))):
        assert pickle.loads(pickle.dumps(one)) == one
