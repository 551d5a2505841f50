"""The publisher: rows of a table stay in order in one partition, chains are unbroken, any flush can be gone on from."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelock.engine.cluster.log_partitioner import LogPartitioner, NoGroup
from tidelock.engine.log.chain import Chain, Verdict
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Column, Kind, Position, RowChange, Shape, TableName, Transaction
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.model.table_partitioning import TablePartitioning

START = Position("log.000001", 100)
TABLES = tuple(TableName("shop", name) for name in ("account", "item", "parent"))
SHAPES = {7 + i: Shape(name, (Column("id", Kind.INT),), ("id",)) for i, name in enumerate(TABLES)}
CREATE = Ddl("shop", "CREATE TABLE t (id int)", "0-1", 99, DdlKind.CREATE_TABLE, (TableName("shop", "t"),))
VACUUM = msgspec.structs.replace(CREATE, kind=DdlKind.UNRELATED)


def plan(homes: tuple[int, ...], partitions: int = 3) -> TablePartitioning:
    return TablePartitioning(1, START, (START,) * partitions, tuple(zip(TABLES, homes, strict=True)))


class Source:
    """A log of transactions, cut into batches as a reader may cut it."""

    def __init__(self) -> None:
        self.batches: list[LogBatch] = []
        self._at = START
        self._number = 0
        self._known: set[int] = set()

    def whole(self, *transactions: list[int]) -> Source:
        """Each a list of table numbers, one for each row."""
        told, rows = [], []
        for tables in transactions:
            self._number += 1
            told.append(Transaction("0-1", self._number, len(rows)))
            rows += self._rows(tables, 0)
        return self._append(told, rows, Position(self._at.file, self._at.offset + 100 * len(transactions)))

    def parted(self, *parts: list[int]) -> Source:
        """One transaction, the last part completes it."""
        self._number += 1
        place, ordinal = self._at, 0
        for i, tables in enumerate(parts):
            complete = i == len(parts) - 1
            rows = self._rows(tables, ordinal)
            ordinal += len(tables)
            last = (
                Position(place.file, place.offset + 100) if complete else msgspec.structs.replace(place, rows=ordinal)
            )
            self._append([Transaction("0-1", self._number, 0, complete)], rows, last)
        return self

    def statement(self, ddl: Ddl) -> Source:
        return self._append([], [], Position(self._at.file, self._at.offset + 100), ddl)

    def heartbeat(self, end_us: int) -> Source:
        return self._append([], [], self._at, end_us=end_us)

    def _rows(self, tables: list[int], ordinal: int) -> list[RowChange]:
        return [
            RowChange(table, None, (self._number * 1000 + ordinal + i,), ordinal + i) for i, table in enumerate(tables)
        ]

    def _append(
        self, told: list[Transaction], rows: list[RowChange], last: Position, ddl: Ddl | None = None, end_us: int = 0
    ) -> Source:
        new = sorted({row.table for row in rows} - self._known)
        self._known.update(new)
        end_us = end_us or self._number
        shapes = {number: SHAPES[number] for number in new}
        self.batches.append(LogBatch(self._at, last, tuple(told), tuple(rows), shapes, ddl, end_us))
        self._at = last
        return self


tables_of_rows = st.lists(st.sampled_from(sorted(SHAPES)), min_size=1, max_size=4)


@st.composite
def sources(draw: st.DrawFn) -> Source:
    source = Source()
    for _ in range(draw(st.integers(1, 8))):
        match draw(st.sampled_from(("whole", "parted", "heartbeat", "unrelated"))):
            case "whole":
                source.whole(*draw(st.lists(tables_of_rows, min_size=1, max_size=3)))
            case "parted":
                source.parted(
                    *draw(st.lists(tables_of_rows, min_size=2, max_size=4)), draw(st.just([]) | tables_of_rows)
                )
            case "heartbeat":
                source.heartbeat(draw(st.integers(1, 1000)))
            case _:
                source.statement(VACUUM)
    return source


homes = st.tuples(*[st.integers(0, 2)] * 3)


def published(publisher: LogPartitioner, batches: list[LogBatch], flushes: set[int]) -> Iterator[list[list[LogBatch]]]:
    """Flush by flush, the batches of each partition.  `flushes`: after which batches one ends, besides the last."""
    flush: list[list[LogBatch]] = [[] for _ in range(3)]
    for i, batch in enumerate(batches):
        for partition, part in publisher.take(batch):
            flush[partition].append(part)
        if i in flushes or i == len(batches) - 1:
            for partition, part in publisher.heartbeats():
                flush[partition].append(part)
            yield flush
            flush = [[] for _ in range(3)]


def rows_of(batches: list[LogBatch], table: int) -> list[tuple[object, ...]]:
    """(transaction, row) of one table in log order, each row told with the shape that its own batch gives it."""
    found = []
    for batch in batches:
        for i, transaction in enumerate(batch.transactions):
            following = batch.transactions[i + 1 : i + 2]
            end = following[0].first if following else len(batch.rows)
            found += [
                (transaction.source, transaction.number, row.ordinal, row.after, batch.shapes[row.table])
                for row in batch.rows[transaction.first : end]
                if row.table == table
            ]
    return found


@given(sources(), homes, st.sets(st.integers(0, 30)))
def test_each_table_is_whole_and_in_order_in_its_partition(source, homes, flushes):
    log = [[], [], []]
    for flush in published(LogPartitioner(plan(homes), START), source.batches, flushes):
        for partition, batches in enumerate(flush):
            log[partition] += batches
    known = [msgspec.structs.replace(batch, shapes=SHAPES) for batch in source.batches]
    for number, home in zip(sorted(SHAPES), homes, strict=True):
        for partition in range(3):
            expected = rows_of(known, number) if partition == home else []
            assert rows_of(log[partition], number) == expected


@given(sources(), homes, st.sets(st.integers(0, 30)))
def test_chains_are_unbroken_and_every_flush_takes_all_to_one_place(source, homes, flushes):
    chains = [Chain(START) for _ in range(3)]
    for flush in published(LogPartitioner(plan(homes), START), source.batches, flushes):
        for chain, batches in zip(chains, flush, strict=True):
            for batch in batches:
                batch.resent = batch.resent or chain.last == START
                assert chain.judge(batch.prev, batch.last, 0, resent=batch.resent) is Verdict.NEXT
        assert len({chain.last for chain in chains}) == 1
    assert chains[0].last == source.batches[-1].last


@given(sources(), homes, st.sets(st.integers(0, 30)))
def test_a_transaction_that_begins_in_a_partition_ends_there(source, homes, flushes):
    unfinished = [None, None, None]
    for flush in published(LogPartitioner(plan(homes), START), source.batches, flushes):
        for partition, batches in enumerate(flush):
            for transaction in (t for batch in batches for t in batch.transactions):
                if unfinished[partition] is not None:
                    assert unfinished[partition] == transaction.number
                unfinished[partition] = None if transaction.complete else transaction.number
    assert unfinished == [None, None, None]


@given(sources(), homes, st.sets(st.integers(0, 30)), st.integers(0, 10))
def test_going_on_from_a_flush_says_the_same(source, homes, flushes, died_after):
    """A publisher that begins anew at a flush's end, with a reader that announces its tables anew."""
    whole = list(published(LogPartitioner(plan(homes), START), source.batches, flushes))
    ends = [next(batches[-1].last for batches in flush if batches) for flush in whole if any(flush)]
    end = ends[min(died_after, len(ends) - 1)]
    rest = [batch for batch in source.batches if batch.prev.order >= end.order and batch.last != end]
    if not rest:
        return
    rest[0] = msgspec.structs.replace(rest[0], shapes=SHAPES)
    resumed = list(published(LogPartitioner(plan(homes), end), rest, set(range(30))))
    for partition in range(3):
        before = [b for flush in whole for b in flush[partition] if b.prev.order >= end.order]
        after = [b for flush in resumed for b in flush[partition]]
        assert [(b.last, b.rows, b.transactions, b.shapes) for b in after if b.transactions] == [
            (b.last, b.rows, b.transactions, b.shapes) for b in before if b.transactions
        ]


def test_a_statement_goes_everywhere_and_nothing_is_taken_until_leave():
    source = Source().whole([7, 8]).statement(CREATE).whole([9])
    publisher = LogPartitioner(plan((0, 0, 1)), START)
    publisher.take(source.batches[0])
    statements = publisher.take(source.batches[1])
    assert [(partition, batch.ddl, batch.last) for partition, batch in statements] == [
        (partition, CREATE, source.batches[1].last) for partition in range(3)
    ]
    assert statements[0][1].prev == source.batches[0].last
    assert statements[2][1].prev == START  # it had nothing in this flush so far
    assert publisher.heartbeats() == []
    assert publisher.statement == CREATE
    with pytest.raises(AssertionError):
        publisher.take(source.batches[2])
    publisher.go_on(plan((0, 0, 3), partitions=4))
    assert [(partition, len(batch.rows)) for partition, batch in publisher.take(source.batches[2])] == [(3, 1)]
    assert publisher.heartbeats()[-1][1].prev == source.batches[1].last
    assert {batch.last for _, batch in publisher.heartbeats()} == set()


def test_an_idle_source_tells_its_time_everywhere():
    publisher = LogPartitioner(plan((0, 1, 2)), START)
    source = Source().heartbeat(5).heartbeat(5).heartbeat(6)
    told = []
    for batch in source.batches:
        assert publisher.take(batch) == []
        told.append([(partition, part.prev, part.last, part.end_us) for partition, part in publisher.heartbeats()])
    assert told == [
        [(partition, START, START, 5) for partition in range(3)],
        [],
        [(partition, START, START, 6) for partition in range(3)],
    ]


def test_a_row_without_a_group_is_refused_and_changes_nothing():
    publisher = LogPartitioner(TablePartitioning(1, START, (START,), ((TABLES[0], 0),)), START)
    with pytest.raises(NoGroup, match=r"shop\.item, which is in no table group"):
        publisher.take(Source().whole([7], [8]).batches[0])
    assert publisher.last == START


def test_one_partition_takes_batches_as_they_are():
    source = Source().whole([7, 8], [9]).parted([7], [8])
    publisher = LogPartitioner(plan((0, 0, 0), partitions=1), START)
    for batch in source.batches:
        ((partition, part),) = publisher.take(batch)
        assert (partition, part.transactions, part.rows, part.prev) == (0, batch.transactions, batch.rows, batch.prev)
        assert part.shapes == {row.table: SHAPES[row.table] for row in batch.rows}
