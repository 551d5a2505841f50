"""The PostgreSQL sink against a real server: what each kind of step writes."""

import pytest

from tests.adapters.postgres_sink.sink_target import MANY_ROWS, START, Target, account, bind, committed, failed, opened
from tidelock.adapters.postgres.target.statements import FEW_ROWS
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Column, Kind, TableName
from tidelock.engine.protocol.effects import RollbackBatch
from tidelock.engine.protocol.events import BatchCommitted, BatchReady
from tidelock.engine.protocol.steps import DeleteRows, UpdateRows, UpsertRows

SIZES = [1, FEW_ROWS, FEW_ROWS + 1, MANY_ROWS, 6_000]


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("fresh", [True, False])
async def test_upsert_writes_and_overwrites_whole_rows(target: Target, count: int, fresh: bool) -> None:
    """`fresh` may be wrong after a restart; then the batch runs again the careful way."""
    sink, table, epoch = await opened(target)
    rows = [account(i) for i in range(count)]
    await committed(sink, target.batch(epoch, UpsertRows(table, rows, fresh)))
    changed = [account(i, payload=None if i % 2 else 'it\'s \\ new\t\n"{}"') for i in range(count)]
    await committed(sink, target.batch(epoch, UpsertRows(table, changed, fresh)))
    found = target.rows("id, email, balance::text, updated_at::text, payload, flag")
    assert found == changed


async def test_copied_text_is_escaped(target: Target) -> None:
    sink, table, epoch = await opened(target)
    texts = ["\\", "\\N", "\\.", "\t", "\n", "\r", "", "NULL", "'\"{}", "\\x41", "é\\\té"]
    rows = [account(i, payload=texts[i % len(texts)]) for i in range(MANY_ROWS)]
    rows += [account(i + 1_000, payload=text if text != "" else None) for i, text in enumerate(texts)]
    await committed(sink, target.batch(epoch, UpsertRows(table, rows, True)))
    assert target.rows("id, payload") == [(row[0], row[4]) for row in rows]


@pytest.mark.parametrize("count", SIZES)
async def test_delete_by_key_removes_these_rows_and_no_others(target: Target, count: int) -> None:
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(i) for i in range(count + 2)], True)))
    keys = [(i,) for i in range(count)]
    await committed(sink, target.batch(epoch, DeleteRows(table, [*keys, (-1,)])))
    assert [row[0] for row in target.rows()] == [count, count + 1]


@pytest.mark.parametrize("count", SIZES)
async def test_wide_keys_of_text_and_bytes(target: Target, count: int) -> None:
    name = target.table("pair", 'a varchar(5), "B ""b" bytea, n int, PRIMARY KEY (a, "B ""b")')
    sink = target.sink()
    columns = (Column("a", Kind.TEXT), Column('B "b', Kind.BINARY), Column("n", Kind.INT))
    table = bind(await sink.take_over([name], START), columns, name)
    rows = [(f"'{i}\\"[:5], b"\x00'\"\\" + bytes([i % 256]), i) for i in range(count)]
    await committed(sink, target.batch(1, UpsertRows(table, rows, True)))
    await committed(sink, target.batch(1, UpsertRows(table, [(a, b, n + 1) for a, b, n in rows], False)))
    assert sorted(target.rows('n, a, "B ""b"', "pair")) == sorted((n + 1, a, b) for a, b, n in rows)
    absent = ("'0\\xyz", rows[0][1])  # cut to the column's length it would be a row's key
    await committed(sink, target.batch(1, DeleteRows(table, [*(r[:2] for r in rows[1:]), absent])))
    assert target.rows("n", "pair") == [(1,)]


async def test_text_too_long_is_refused_not_cut(target: Target) -> None:
    sink, table, epoch = await opened(target)
    for count in (1, FEW_ROWS + 1, MANY_ROWS):
        rows = [account(i, email="e" * 65) if i == 0 else account(i) for i in range(count)]
        failure = await failed(sink, target.batch(epoch, UpsertRows(table, rows, True)))
        assert (failure.kind, failure.code) == (ErrorKind.ROW, "22001")
        assert "account" in failure.message
    assert target.rows() == []


@pytest.mark.parametrize("count", [1, FEW_ROWS + 1, MANY_ROWS])
@pytest.mark.parametrize("fresh", [True, False])
async def test_a_unique_value_of_another_key_is_an_error_and_moves_nothing(
    target: Target, count: int, fresh: bool
) -> None:
    """Counter-example 12: (7, a) against (1, a) must not silently turn row 1 into row 7."""
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1, "a")], True)))
    rows = [account(7, "a", payload="secret"), *(account(i) for i in range(100, 99 + count))]
    failure = await failed(sink, target.batch(epoch, UpsertRows(table, rows, fresh)))
    assert failure.kind is ErrorKind.ROW
    assert "account_email_key" in failure.message
    assert "public.account" in failure.message
    assert "secret" not in failure.message
    assert target.rows() == [(1, "a")]


async def test_swap_of_unique_values_with_deletes_first(target: Target) -> None:
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1, "a"), account(2, "b")], True)))
    swapped = [account(1, "b"), account(2, "a")]
    await committed(sink, target.batch(epoch, DeleteRows(table, [(1,), (2,)]), UpsertRows(table, swapped, True)))
    assert target.rows() == [(1, "b"), (2, "a")]


async def test_upsert_leaves_unique_columns_alone_so_that_open_batches_do_not_block(target: Target) -> None:
    """Counter-example 13: with unique columns in SET an earlier transaction would wait for a later open one."""
    target.sql("CREATE TABLE child (id int PRIMARY KEY, account bigint REFERENCES account (id))")
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
    children = TableName("public", "child")
    other = target.sink(feed="other")
    child = bind(
        await other.take_over([children], START), (Column("id", Kind.INT), Column("account", Kind.INT)), children
    )
    later = target.batch(1, UpsertRows(child, [(1, 1)], True), held=True)
    assert await other.apply(later) == BatchReady(later.id)
    for step in (UpsertRows(table, [account(1, payload="y")], False), UpdateRows(table, [(1,)], [account(1)], False)):
        earlier = target.batch(epoch, step)
        assert await sink.apply(earlier) == BatchCommitted(earlier.id)  # a wait for a lock would end it
    await other.rollback(RollbackBatch(later.id))


@pytest.mark.parametrize("count", [1, FEW_ROWS + 1])
async def test_update_by_key_inserts_what_is_missing(target: Target, count: int) -> None:
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(i) for i in range(0, count, 2)], True)))
    rows = [account(i, payload="new") for i in range(count)]
    await committed(sink, target.batch(epoch, UpdateRows(table, [(i,) for i in range(count)], rows, False)))
    assert target.rows("id, payload") == [(i, "new") for i in range(count)]


@pytest.mark.parametrize("count", [1, FEW_ROWS + 1])
async def test_update_keeps_columns_that_only_the_target_has(target: Target, count: int) -> None:
    """The target's own NOT NULL column has no default: the row proposed by an ON CONFLICT would be refused."""
    name = target.table("noted", "id int PRIMARY KEY, u int UNIQUE, v text, note text NOT NULL")
    target.sql("INSERT INTO noted SELECT i, i, 'old', 'mine' FROM generate_series(1, 100) i")
    sink = target.sink()
    columns = (Column("id", Kind.INT), Column("u", Kind.INT), Column("v", Kind.TEXT))
    table = bind(await sink.take_over([name], START), columns, name)
    rows = [(i, i, "new") for i in range(1, count + 1)]
    await committed(sink, target.batch(1, UpdateRows(table, [(r[0],) for r in rows], rows, False)))
    await committed(sink, target.batch(1, UpdateRows(table, [(100,)], [(100, 300, "moved")], True)))
    await committed(sink, target.batch(1, UpsertRows(table, [(99, 99, "upserted")], False)))
    found = target.sql("SELECT id, u, v, note FROM noted WHERE v <> 'old' ORDER BY id")
    assert found == [*((*r, "mine") for r in rows), (99, 99, "upserted", "mine"), (100, 300, "moved", "mine")]
    assert (await failed(sink, target.batch(1, UpdateRows(table, [(200,)], [(200, 2, "x")], False)))).code == "23502"


async def test_moves_run_in_order(target: Target) -> None:
    """The key chain 2→3, 1→2 and a unique value freed and retaken only work one after another."""
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1, "a"), account(2, "b")], True)))
    keys = [(2,), (1,), (3,), (9,)]
    rows = [account(3, "c"), account(2, "b"), account(3, "a", payload=None), account(9, "c")]
    await committed(sink, target.batch(epoch, UpdateRows(table, keys, rows, True)))
    assert target.rows("id, email, payload") == [(2, "b", "x"), (3, "a", None), (9, "c", "x")]


async def test_keyless_tables_count_their_duplicates(target: Target) -> None:
    name = target.table("log", "a int, b text, d json, f real, w varchar(9), g int GENERATED ALWAYS AS (a * 2) STORED")
    columns = (Column("a", Kind.INT), Column("b", Kind.TEXT), Column("d", Kind.JSON), Column("f", Kind.FLOAT),
               Column("w", Kind.TEXT), Column("g", Kind.INT))  # fmt: skip
    sink = target.sink()
    table = bind(await sink.take_over([name], START), columns, name)
    one = (1, None, '{"k": 1, "l": 2}', 0.10000000149011612, "x", 2)
    two = (2, "b'\\", None, None, None, 4)
    await committed(sink, target.batch(1, UpsertRows(table, [one, two, one, one, two], True)))
    assert target.sql("SELECT count(*) FROM log") == [(5,)]
    reordered = (1, None, '{"l": 2, "k": 1}', 0.10000000149011612, "x", 2)
    absent = (1, "", None, None, None, 2)
    await committed(sink, target.batch(1, DeleteRows(table, [reordered, one, two, absent])))
    assert target.sql("SELECT a, count(*) FROM log GROUP BY a ORDER BY a") == [(1, 1), (2, 1)]
    steps = UpdateRows(table, [one, absent], [(5, "five", None, None, None, 10), (6, None, None, None, None, 12)], True)
    await committed(sink, target.batch(1, steps))
    assert target.rows("a, b, g", "log") == [(2, "b'\\", 4), (5, "five", 10), (6, None, 12)]


async def test_keyless_partitions_where_places_repeat(target: Target) -> None:
    """The same ctid exists once in every partition: deleting by ctid alone would delete in all of them."""
    name = target.table("parted", "a int, b int")
    target.sql("DROP TABLE parted")
    target.sql("CREATE TABLE parted (a int, b int) PARTITION BY LIST (a)")
    for i in (1, 2):
        target.sql(f"CREATE TABLE parted_{i} PARTITION OF parted FOR VALUES IN ({i})")
    target.sql("INSERT INTO parted VALUES (1, 0), (2, 0)")
    sink = target.sink()
    table = bind(await sink.take_over([name], START), (Column("a", Kind.INT), Column("b", Kind.INT)), name)
    await committed(sink, target.batch(1, DeleteRows(table, [(1, 0)])))
    assert target.rows("a", "parted") == [(2,)]


async def test_generated_and_identity_columns(target: Target) -> None:
    name = target.table(
        "made", "id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int, g int GENERATED ALWAYS AS (v + 1) STORED"
    )
    sink = target.sink()
    columns = (Column("id", Kind.INT), Column("v", Kind.INT), Column("g", Kind.INT))
    table = bind(await sink.take_over([name], START), columns, name)
    for count in (1, FEW_ROWS + 1):
        rows = [(i + 50, 1, 2) for i in range(count)]
        await committed(sink, target.batch(1, UpsertRows(table, rows, False)))
        await committed(sink, target.batch(1, UpdateRows(table, [(50,)], [(50, 7, 8)], False)))
        assert target.sql("SELECT g FROM made WHERE id = 50") == [(8,)]
