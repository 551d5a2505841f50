"""Copying into a real PostgreSQL: which staged rows a merge is refused for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.adapters.postgres_copying.copy_target import ACCOUNT, KEYED, Copying, Target, row
from tidelock.adapters.target import refused_search
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Column, Kind, TableName
from tidelock.engine.protocol.effects import FindRefused, MergeChunk
from tidelock.engine.protocol.events import BatchFailed, RefusedFound, RefusedRow
from tidelock.engine.protocol.steps import DeleteRows


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
