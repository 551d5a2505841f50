"""The MySQL sink against a real server: what each kind of step writes."""

from __future__ import annotations

import pytest

from tests.adapters.mysql_sink.sink_target import ID_U_X, INT, SECOND_UNIQUE, SOLE_UNIQUE, TEXT, Target
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Kind, Row, TableName
from tidelock.engine.protocol.effects import CommitBatch
from tidelock.engine.protocol.events import BatchCommitted, BatchReady
from tidelock.engine.protocol.steps import DeleteRows, UpdateRows, UpsertRows


@pytest.mark.parametrize("definition", [SECOND_UNIQUE, SOLE_UNIQUE])
@pytest.mark.parametrize("fresh", [True, False])
async def test_upsert_overwrites_by_key_what_is_there_and_inserts_what_is_not(
    target: Target, definition: str, fresh: bool
) -> None:
    target.table(definition)
    target.sql("INSERT INTO t VALUES (1,'a',1),(3,'c',3)")
    sink, table = await target.opened(*ID_U_X)
    await target.committed(sink, UpsertRows(table, [(1, "a", 10), (2, "b", 20), (3, "c", None), (4, None, 40)], fresh))
    assert target.sql("SELECT * FROM t ORDER BY id") == [(1, "a", 10), (2, "b", 20), (3, "c", None), (4, None, 40)]


@pytest.mark.parametrize("fresh", [True, False])
async def test_a_fallback_keeps_the_order_of_the_steps_behind_it(target: Target, fresh: bool) -> None:
    target.table(SECOND_UNIQUE)
    target.sql("INSERT INTO t VALUES (1,'a',1)")
    sink, table = await target.opened(*ID_U_X)
    steps = (UpsertRows(table, [(1, "a", 2), (2, "b", 2)], fresh), DeleteRows(table, [(2,)]))
    await target.committed(sink, *steps, UpsertRows(table, [(3, "b", 3)], fresh))
    assert target.rows() == [(1, "a", 2), (3, "b", 3)]


@pytest.mark.parametrize("fresh", [True, False])
async def test_an_upsert_never_moves_another_row(target: Target, fresh: bool) -> None:
    """Counter-example 12: (7,a) against (1,a) by ON DUPLICATE KEY UPDATE turned row 1 into row 7."""
    target.table(SECOND_UNIQUE)
    target.sql("INSERT INTO t VALUES (1,'a',1)")
    sink, table = await target.opened(*ID_U_X)
    answer = await target.failed(sink, UpsertRows(table, [(6, "z", 1), (7, "a", 99)], fresh))
    assert answer.failure.kind is ErrorKind.ROW
    assert answer.failure.code == "1062"
    assert str(TableName(target.database, "t")) in answer.failure.message
    assert target.rows() == [(1, "a", 1)]
    assert target.book("progress") == []


async def test_a_prefix_key_is_no_reason_to_overwrite_by_it(target: Target) -> None:
    target.table("k varchar(20) NOT NULL, x int, UNIQUE (k(3))")
    target.sql("INSERT INTO t VALUES ('abc1', 1)")
    sink, table = await target.opened(("k", TEXT), ("x", INT))
    answer = await target.failed(sink, UpsertRows(table, [("abc2", 2)], False))
    assert answer.failure.kind is ErrorKind.ROW
    assert target.rows() == [("abc1", 1)]


async def test_unique_values_are_swapped_delete_first(target: Target) -> None:
    target.table(SECOND_UNIQUE)
    target.sql("INSERT INTO t VALUES (1,'a',1),(2,'b',2)")
    sink, table = await target.opened(*ID_U_X)
    await target.committed(sink, DeleteRows(table, [(1,), (2,)]), UpsertRows(table, [(1, "b", 1), (2, "a", 2)], True))
    assert target.rows() == [(1, "b", 1), (2, "a", 2)]


async def test_a_table_of_keys_only(target: Target) -> None:
    target.table("a int, b int, PRIMARY KEY (a, b), UNIQUE (b, a)")
    target.sql("INSERT INTO t VALUES (1, 2)")
    sink, table = await target.opened(("a", INT), ("b", INT))
    for fresh in (True, False):
        await target.committed(sink, UpsertRows(table, [(1, 2), (2, 1)], fresh))
    await target.committed(sink, DeleteRows(table, [(1, 2), (9, 9)]))
    assert target.rows() == [(2, 1)]


async def test_deletes_by_keys_with_texts_beyond_ascii_find_them_all(target: Target) -> None:
    """MariaDB finds none of several such rows, given as a list, where a column is in latin1."""
    target.table("n int NOT NULL, v varchar(20) CHARACTER SET latin1 NOT NULL, PRIMARY KEY (n, v)")
    target.sql("INSERT INTO t VALUES (1, '€'), (2, 'café'), (3, 'plain'), (4, 'ñ')")
    sink, table = await target.opened(("n", INT), ("v", TEXT))
    await target.committed(sink, DeleteRows(table, [(1, "€"), (2, "café"), (3, "plain")]))
    assert target.rows("n") == [(4,)]


@pytest.mark.parametrize("key", ["PRIMARY KEY (a, b)", "PRIMARY KEY (b)"])
async def test_deletes_and_updates_go_by_the_index(target: Target, key: str) -> None:
    target.table(f"a int NOT NULL, b varchar(20) CHARACTER SET latin1 NOT NULL, x int UNIQUE, y int, {key}")
    values = ",".join(f"({n % 7},'k{n}',{n},0)" for n in range(20_000))
    target.sql(f"INSERT INTO t VALUES {values}")
    target.sql("ANALYZE TABLE t")
    sink, table = await target.opened(("a", INT), ("b", TEXT), ("x", INT), ("y", INT))
    chosen = [n * 10 for n in range(1500)]
    before = _rows_scanned(target)
    await target.committed(sink, UpsertRows(table, [(n % 7, f"k{n}", n, 1) for n in chosen], False))
    await target.committed(sink, DeleteRows(table, [table.key_of((n % 7, f"k{n}", n, 1)) for n in chosen]))
    assert _rows_scanned(target) - before < 10_000
    assert target.sql("SELECT COUNT(*), SUM(y) FROM t") == [(18_500, 0)]


def _rows_scanned(target: Target) -> int:
    scans = ("Handler_read_next", "Handler_read_rnd_next")
    return sum(int(n) for name, n in target.server.execute("SHOW GLOBAL STATUS LIKE 'Handler_read%'") if name in scans)


async def test_lanes_do_not_wait_for_each_other_on_a_small_table(target: Target) -> None:
    """A server that scans a table, because it is small, waits for rows that other lanes hold."""
    target.table(SECOND_UNIQUE)
    target.sql("INSERT INTO t VALUES (1,'a',1),(2,'b',2),(3,'c',3)")
    target.table("a int, b int, x int, PRIMARY KEY (a, b)", "p")
    sink = target.sink()
    taken = await target.own(sink, "t", "p")
    table, pairs = target.binding(taken, *ID_U_X), target.binding(taken, ("a", INT), ("b", INT), ("x", INT), name="p")
    held = target.batch(sink, UpsertRows(table, [(1, "a", 10)], False), held=True)
    await sink.apply(held)
    for step in (UpsertRows(table, [(2, "b", 20)], False), UpdateRows(table, [(3,)], [(3, "d", 3)], True)):
        await target.committed(sink, step, DeleteRows(table, [(9,)]), lane=1)
    await target.committed(sink, DeleteRows(table, [(2,), (3,)]), lane=1)
    target.sql("INSERT INTO p VALUES (1,1,1),(1,2,1),(2,1,1)")
    taken_back = target.batch(sink, UpsertRows(pairs, [(1, 1, 10)], False), lane=2, held=True)
    assert await sink.apply(taken_back) == BatchReady(taken_back.id)
    await target.committed(sink, UpsertRows(pairs, [(2, 1, 5), (1, 2, 5)], False), lane=1)
    await target.committed(sink, DeleteRows(pairs, [(2, 1), (1, 2)]), lane=1)
    assert await sink.commit(CommitBatch(held.id)) == BatchCommitted(held.id)
    assert target.rows() == [(1, "a", 10)]


async def test_updates_in_log_order_that_move_keys_and_unique_values(target: Target) -> None:
    target.table(SECOND_UNIQUE)
    target.sql("INSERT INTO t VALUES (1,'a',1),(2,'b',2)")
    sink, table = await target.opened(*ID_U_X)
    chain = UpdateRows(
        table,
        [(2,), (1,), (9,), (3,)],
        [(3, "c", 2), (2, "b", 1), (9, "n", 9), (3, "a", 30)],
        moves=True,
    )
    await target.committed(sink, chain)
    assert target.rows() == [(2, "b", 1), (3, "a", 30), (9, "n", 9)]


async def test_updates_in_log_order_that_move_nothing(target: Target) -> None:
    target.table(SECOND_UNIQUE)
    target.sql("INSERT INTO t VALUES (1,'a',1)")
    sink, table = await target.opened(*ID_U_X)
    rows: list[Row] = [(1, "a", 2), (5, "e", 5), (1, "a", 3)]
    await target.committed(sink, UpdateRows(table, [(1,), (5,), (1,)], rows, moves=False))
    assert target.rows() == [(1, "a", 3), (5, "e", 5)]


async def test_children_and_parents_in_step_order(target: Target) -> None:
    target.table("id int PRIMARY KEY", "p")
    target.table(f"id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES `{target.database}`.p (id)", "c")
    sink = target.sink()
    taken = await target.own(sink, "p", "c")
    parents, children = (
        target.binding(taken, ("id", INT), name="p"),
        target.binding(taken, ("id", INT), ("p", INT), name="c"),
    )
    await target.committed(sink, UpsertRows(parents, [(1,)], True), UpsertRows(children, [(1, 1)], True))
    for steps in ([DeleteRows(parents, [(1,)])], [UpsertRows(children, [(2, 5)], True)]):
        assert (await target.failed(sink, *steps)).failure.kind is ErrorKind.ROW
    await target.committed(sink, DeleteRows(children, [(1,)]), DeleteRows(parents, [(1,)]))
    assert target.rows(name="p") == target.rows(name="c") == []


async def test_keyless_duplicates_are_counted(target: Target) -> None:
    target.table("a int, b varchar(10) COLLATE utf8mb4_general_ci, c double")
    sink, table = await target.opened(("a", INT), ("b", TEXT), ("c", Kind.DOUBLE))
    row, upper, padded, none = (1, "x", 0.1), (1, "X", 0.1), (1, "x ", 0.1), (None, None, None)
    await target.committed(sink, UpsertRows(table, [upper, padded, row, row, row, none, none], True))
    await target.committed(sink, DeleteRows(table, [row, row, none, (2, "x", 0.1)]))
    assert target.sql("SELECT * FROM t ORDER BY a, b COLLATE utf8mb4_bin, LENGTH(b)") == [none, upper, row, padded]
    await target.committed(sink, UpdateRows(table, [row, (8, "q", 1.5)], [(2, "y", 0.2), (9, "q", 1.5)], True))
    assert target.sql("SELECT * FROM t ORDER BY a, b COLLATE utf8mb4_bin, LENGTH(b)") == [
        none, upper, padded, (2, "y", 0.2), (9, "q", 1.5),
    ]  # fmt: skip


async def test_generated_columns_are_not_written(target: Target) -> None:
    target.table("id int PRIMARY KEY, x int, twice int AS (x * 2) STORED, u int UNIQUE")
    sink, table = await target.opened(("id", INT), ("x", INT), ("twice", INT), ("u", INT))
    for fresh in (True, False):
        await target.committed(sink, UpsertRows(table, [(1, 4 + fresh, 77, 1), (2, 5, 77, 2)], fresh))
    await target.committed(sink, UpdateRows(table, [(2,)], [(3, 6, 77, 2)], True))
    assert target.rows() == [(1, 4, 8, 1), (3, 6, 12, 2)]


async def test_odd_identifiers(target: Target) -> None:
    name, column, other = "se`le ct", 'É"`x', "order"
    target.table('`É"``x` int PRIMARY KEY, `order` int UNIQUE, v int', "se``le ct")
    sink = target.sink()
    taken = await target.own(sink, name)
    table = target.binding(taken, (column, INT), (other, INT), ("v", INT), name=name)
    await target.committed(sink, UpsertRows(table, [(1, 1, 1)], False))
    await target.committed(sink, UpsertRows(table, [(1, 1, 2)], False))
    await target.committed(sink, UpdateRows(table, [(1,)], [(2, 1, 3)], True))
    assert target.sql("SELECT * FROM `se``le ct`") == [(2, 1, 3)]
    await target.committed(sink, DeleteRows(table, [(2,)]))
    assert target.sql("SELECT * FROM `se``le ct`") == []


async def test_a_row_of_a_thousand_columns(target: Target) -> None:
    target.table("id int PRIMARY KEY, u int UNIQUE," + ",".join(f"c{n} int" for n in range(998)))
    columns = [("id", INT), ("u", INT), *((f"c{n}", INT) for n in range(998))]
    sink, table = await target.opened(*columns)
    for value in (1, 2):
        await target.committed(sink, UpsertRows(table, [(n, n, *[value] * 998) for n in range(3)], False))
    assert target.sql("SELECT SUM(c0), SUM(c997) FROM t") == [(6, 6)]
