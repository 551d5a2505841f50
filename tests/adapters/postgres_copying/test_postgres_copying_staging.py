"""Copying into a real PostgreSQL: what is staged, and what is refused then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import asyncpg
import msgspec
import pytest

from tests.adapters.postgres_copying.copy_target import Target, columnar, row, until
from tidelock.adapters.ports.staging import Columns, Staged
from tidelock.adapters.postgres.target.copy_text import lines
from tidelock.adapters.postgres.target.staging import session_name, stage
from tidelock.engine.model.records import Column, Kind, TableName
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.events import BatchCommitted
from tidelock.engine.protocol.steps import UpsertRows


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
