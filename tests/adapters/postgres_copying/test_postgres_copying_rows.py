"""Copying into a real PostgreSQL: rows that clash, stay, are read again, or are compared as the target does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.adapters.postgres_copying.copy_target import ACCOUNT, KEYED, START, Target, row
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import UNKNOWN, Column, Kind, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import UpdateRows, UpsertRows


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
