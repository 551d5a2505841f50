"""Copying into real MySQL and MariaDB servers: which staged rows a merge is refused for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tests.adapters.mysql_copying.copy_target import ID_U_X, INT, TEXT, TWO_UNIQUE, Target
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import Column, Kind
from tidelock.engine.protocol.effects import FindRefused, MergeChunk
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, RefusedFound, RefusedRow
from tidelock.engine.protocol.steps import DeleteRows


async def refused_of(target: Target, columns: Sequence[tuple[str, Kind]], effect: MergeChunk) -> list[RefusedRow]:
    """The rows that are found; the merge is refused before, and made without them after."""
    assert isinstance(await target.sink.merge_chunk(effect), BatchFailed)
    binding = target.binding(*columns)
    found = await target.sink.find_refused(FindRefused(target.id(), effect, binding.shape))
    assert isinstance(found, RefusedFound), found
    rows = [row.row for row in found.rows]
    keys = [tuple(row[i] for i in binding.key) for row in rows]
    more = {"without": [*effect.without, *keys]} if binding.key else {"steps": [DeleteRows(binding, rows)]}
    gone = [key for key in effect.gone if key not in keys]
    again = msgspec.structs.replace(effect, id=target.id(), gone=gone, **more)  # type: ignore[arg-type]
    assert await target.sink.merge_chunk(again) == BatchCommitted(again.id)
    assert [name for name in target.staged_tables() if name.endswith("_n")] == []
    return list(found.rows)


async def test_rows_that_a_check_or_a_missing_parent_refuses_are_found_with_their_keys(target: Target) -> None:
    target.table("id int PRIMARY KEY", "parent")
    target.table(
        "id varbinary(8) PRIMARY KEY, x decimal(9,3), up int, CHECK (x < 50), FOREIGN KEY (up) REFERENCES parent (id)"
    )
    target.sql("INSERT INTO parent VALUES (1)")
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    columns = (Column("id", Kind.BINARY), Column("x", Kind.DECIMAL, precision=9, scale=2), Column("up", INT))
    rows = [(n.to_bytes(2), f"{n}.50", 1) for n in range(40)]
    rows += [(b"\xff\x01", "50.00", 1), (b"\xff\x02", "1.00", 7), (b"\xff\x03", "1.00", None)]
    attempt, staged = target.stage(rows, *columns)
    found = await refused_of(target, columns, target.merge(attempt, staged.rows))  # type: ignore[arg-type]
    assert sorted(row.row for row in found) == [(b"\xff\x01", "50.00", 1), (b"\xff\x02", "1.00", 7)]
    assert {row.row[0]: row.code == "1452" for row in found} == {b"\xff\x01": False, b"\xff\x02": True}
    assert len(target.rows()) == 41


async def test_rows_of_a_tree_are_refused_with_all_that_hang_from_them_and_no_others(target: Target) -> None:
    target.table("id int PRIMARY KEY, up int, x int, CHECK (x <> 7), FOREIGN KEY (up) REFERENCES t (id)")
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    columns = (("id", INT), ("up", INT), ("x", INT))
    rows = [(1, 9, 1), (2, 1, 2), (3, None, 7), (4, 3, 4), (5, 4, 5), (6, 77, 6), (9, 1, 9), (10, None, 10)]
    attempt, staged = target.stage(rows, *columns)
    found = await refused_of(target, columns, target.merge(attempt, staged.rows))
    assert sorted(row.row[0] for row in found) == [3, 4, 5, 6]
    assert sorted(row.row[0] for row in found if row.code == "1452") == [4, 5, 6]
    assert target.rows("id") == [(1,), (2,), (9,), (10,)]


async def test_a_refused_row_without_a_key_is_one_of_its_equals(target: Target) -> None:
    target.table("v varchar(9), x int, CHECK (x < 5)")
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    columns = (("v", TEXT), ("x", INT))
    attempt, staged = target.stage([("a", 5), ("a", 1), ("a", 5), ("a", 1)], *columns)
    found = await refused_of(target, columns, target.merge(attempt, staged.rows))
    assert [row.row for row in found] == [("a", 5), ("a", 5)]
    assert target.rows() == [("a", 1), ("a", 1)]


@pytest.mark.parametrize(("bad", "x"), [("c", 5), ("z", 1)])
async def test_a_row_of_a_repair_is_refused_alone_though_others_trade_unique_values(
    target: Target, bad: str, x: int
) -> None:
    target.table(f"{TWO_UNIQUE}, CHECK (x < 5)")
    await target.own()
    target.sql("INSERT INTO t VALUES (1,'b',1),(2,'a',1),(3,'c',1),(4,'d',1),(9,'z',1)")
    split = ChunkSplit(target.name(), By.KEYS, ("id",), keys=((1,), (2,), (3,), (4,)))
    await target.begun(split)
    attempt, staged = target.stage([(1, "a", 2), (2, "b", 2), (3, bad, x), (4, "e", 2)])
    gone = [(1,), (2,), (3,), (4,)]
    left = (("id=3", "it's 'bad'"),)
    effect = target.merge(attempt, staged.rows, split=split, chunk=1, gone=gone, unrepaired=left)
    found = await refused_of(target, ID_U_X, effect)
    assert [row.row for row in found] == [(3, bad, x)]
    assert target.rows() == [(1, "a", 2), (2, "b", 2), (3, "c", 1), (4, "e", 2), (9, "z", 1)]
    ((mode, told),) = target.book("wanted", "mode, row_key")
    assert mode == "left" and msgspec.json.decode(told) == [["id=3", "it's 'bad'"]]
    assert (await target.sink.control()).wanted == ()
