"""Rows of which not every value is told, through the engine and a real sink: the target ends as the source's rows."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final, Protocol

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.harness.servers import Postgres, Server
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.mysql.target.sink import MySqlSink
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.apply.machine import ApplyMachine, Options
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import UNKNOWN, Column, Kind, Position, Row, RowChange, Shape, TableName, Transaction
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol import effects
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.engine.protocol.events import ApplyEvent, BatchCommitted, BatchFailed, GoalSet, LogArrived, TakenOver
from tidelock.engine.protocol.steps import Step, UpdateRows, UpsertRows

START: Final = Position("log.000001", 0)
COLUMNS: Final = (Column("id", Kind.INT, length=8), Column("big", Kind.TEXT), Column("email", Kind.TEXT, length=40))
NOTE, ACCOUNT = "note", "account"
TABLES: Final = {NOTE: "", ACCOUNT: "UNIQUE"}
BIG: Final = ("x" * 3000, "y" * 3000, "z'\\\t\n" * 700)


class Sink(Protocol):
    async def take_over(self, tables: Sequence[TableName], start: Position | None) -> TakenOver: ...
    async def apply(self, effect: ApplyBatch) -> Any: ...
    async def save_checkpoint(self, effect: effects.SaveCheckpoint) -> Any: ...
    async def close(self) -> None: ...


class Target:
    """A fresh database with the tables `note` (its key alone is unique) and `account` (so is `email`)."""

    def __init__(self, server: Server | Postgres, dialect: str) -> None:
        self.server, self.dialect = server, dialect
        self.database = server.database("partial")
        self.books = "tidelock" if dialect == "postgres" else f"{self.database}_books"
        self.schema = "public" if dialect == "postgres" else self.database
        for statement in create_statements(dialect, self.books):  # type: ignore[arg-type]
            self.sql(statement)
        bytewise = "" if dialect == "postgres" else " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        text, short = ("text" if dialect == "postgres" else "longtext") + bytewise, "varchar(40)" + bytewise
        for name, unique in TABLES.items():
            self.sql(f"CREATE TABLE {name} (id bigint PRIMARY KEY, big {text}, email {short} {unique})")

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return self.server.execute(statement, database=self.database)

    def rows(self, name: str) -> list[Row]:
        return [tuple(row) for row in self.sql(f"SELECT id, big, email FROM {name} ORDER BY id")]

    def empty(self) -> None:
        for name in TABLES:
            self.sql(f"DELETE FROM {name}")
        for (table,) in self.sql(
            f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{self.books}'"
        ):
            if table != "tidelock_version":
                self.sql(f"DELETE FROM {self.books}.{table}")

    def sink(self) -> Sink:
        url = self.server.url(self.database)
        options = SinkOptions("feed", schema=self.books, lanes=4, lock_timeout_seconds=5)
        return PostgresSink(url, options) if self.dialect == "postgres" else MySqlSink(url, options)

    def name(self, table: str) -> TableName:
        return TableName(self.schema, table)

    def shape(self, table: str) -> Shape:
        return Shape(self.name(table), COLUMNS, ("id",), "key")


@pytest.fixture(params=["postgres", "mariadb", "mysql"])
def target(request: pytest.FixtureRequest) -> Target:
    return Target(request.getfixturevalue(request.param), "postgres" if request.param == "postgres" else "mysql")


# ------------------------------------------------------------------ one statement of a sink


async def applied(sink: Sink, taken: TakenOver, *steps: Step) -> Failure | None:
    batch = ApplyBatch(EffectId(taken.epoch, next(_NUMBERS)), 0, list(steps), b"covered", 1)
    answer = await sink.apply(batch)
    if isinstance(answer, BatchFailed):
        return answer.failure
    assert answer == BatchCommitted(batch.id)
    return None


_NUMBERS = itertools.count(1)


async def opened(target: Target, table: str) -> tuple[Sink, TakenOver, Binding]:
    sink = target.sink()
    taken = await sink.take_over([target.name(table)], START)
    return sink, taken, Binding(0, target.shape(table), taken.tables[target.name(table)])


@pytest.mark.parametrize("count", [1, 3, 40])
async def test_values_that_are_not_told_stay(target: Target, count: int) -> None:
    """Rows with the same known columns go together, be they one, few or many; others beside them."""
    sink, taken, note = await opened(target, NOTE)
    rows = [(n, BIG[n % 3], f"e{n}") for n in range(3 * count)]
    assert await applied(sink, taken, UpsertRows(note, rows, True)) is None
    ways = ((UNKNOWN, "new"), ("told", UNKNOWN), (UNKNOWN, UNKNOWN), ("both", "told"))
    told = [(n, *ways[n % len(ways)]) for n in range(3 * count)]
    assert await applied(sink, taken, UpdateRows(note, [row[:1] for row in told], told, False)) is None
    wanted = [tuple(o if new is UNKNOWN else new for o, new in zip(old, row, strict=True))
              for old, row in zip(rows, told, strict=True)]  # fmt: skip
    assert target.rows(NOTE) == wanted
    await sink.close()


async def test_a_key_and_a_unique_value_change_in_place(target: Target) -> None:
    sink, taken, account = await opened(target, ACCOUNT)
    assert await applied(sink, taken, UpsertRows(account, [(1, BIG[2], "a"), (2, BIG[1], "b")], True)) is None
    moved = UpdateRows(account, [(1,), (2,), (9,)], [(9, UNKNOWN, None), (2, UNKNOWN, "a"), (9, UNKNOWN, "b")], True)
    assert await applied(sink, taken, moved) is None
    assert target.rows(ACCOUNT) == [(2, BIG[1], "a"), (9, BIG[2], "b")]
    await sink.close()


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("absent", [1, 2])
async def test_a_row_that_is_not_there_is_refused_whole(target: Target, moves: bool, absent: int) -> None:
    """Of all rows of the batch nothing is written, and no placeholder is."""
    sink, taken, note = await opened(target, NOTE)
    assert await applied(sink, taken, UpsertRows(note, [(1, BIG[0], "a")], True)) is None
    told = [(1, UNKNOWN, "b"), *((5 + n, UNKNOWN, "c") for n in range(absent))]
    failure = await applied(sink, taken, UpdateRows(note, [row[:1] for row in told], told, moves))
    assert failure is not None and failure.kind is ErrorKind.ROW
    assert f"{target.schema}.note: a row that an update changed is not there" in failure.message
    assert "REPLICA IDENTITY FULL" in failure.message
    nothing = [(7, UNKNOWN, UNKNOWN)]
    failure = await applied(sink, taken, UpdateRows(note, [(7,)], nothing, moves))
    assert failure is not None and failure.kind is ErrorKind.ROW
    assert target.rows(NOTE) == [(1, BIG[0], "a")]
    await sink.close()


# ------------------------------------------------------------------ histories through the engine


class History:
    """Random transactions on both tables; `log`: as a source with REPLICA IDENTITY DEFAULT logs them."""

    def __init__(self, seed: int, transactions: int) -> None:
        self._chance = Random(seed)
        self.rows: dict[str, dict[int, Row]] = {name: {} for name in TABLES}
        self.log = [[change for _ in range(self._chance.choice((1, 1, 2, 5))) if (change := self._change())]
                    for _ in range(transactions)]  # fmt: skip

    def _change(self) -> tuple[str, Row | None, Row | None] | None:
        chance = self._chance
        name = chance.choice(list(TABLES))
        rows, wish = self.rows[name], chance.random()
        old = rows[chance.choice(list(rows))] if rows and wish > 0.25 else None
        after: Row | None = None
        if old is None:
            after = (chance.randrange(12), chance.choice((*BIG, "short", None)), self._email())
        elif wish < 0.8:
            after = old[:1] + ((chance.choice(BIG),) if chance.random() < 0.3 else old[1:2]) + (self._email(),)
        elif wish < 0.9:
            after = (chance.randrange(12), *old[1:])
        key = old[0] if old is not None else None
        if after is not None and ((after[0] != key and after[0] in rows) or self._held(name, after, key)):
            return None
        if old is not None:
            del rows[old[0]]
        if after is not None:
            rows[after[0]] = after
        return name, *_told(old, after)

    def _email(self) -> str | None:
        return self._chance.choice((None, "lucy", "ann", "bob", "eve"))

    def _held(self, name: str, row: Row, key: int | None) -> bool:
        others = (other[2] for other in self.rows[name].values() if other[0] != key)
        return name == ACCOUNT and row[2] is not None and row[2] in others


def _told(before: Row | None, after: Row | None) -> tuple[Row | None, Row | None]:
    told = after
    if before is not None and after is not None and before[1] == after[1] and len(after[1] or "") > 2000:
        told = (after[0], UNKNOWN, after[2])
    return (before[0], UNKNOWN, UNKNOWN) if before is not None else None, told


def batches(target: Target, log: Sequence[Sequence[Any]], size: int) -> Iterator[LogBatch]:
    numbers = {name: n for n, name in enumerate(TABLES)}
    shapes = {n: target.shape(name) for name, n in numbers.items()}
    end = START
    for start in range(0, len(log), size):
        transactions, rows = [], []
        for number, changes in enumerate(log[start : start + size], start + 1):
            transactions.append(Transaction("1/db", number, len(rows)))
            rows += [RowChange(numbers[name], before, after, n) for n, (name, before, after) in enumerate(changes)]
        prev, end = end, Position("log.000001", start + len(transactions))
        yield LogBatch(prev, end, tuple(transactions), tuple(rows), shapes, resent=True)


async def run(sink: Sink, target: Target, log: list[LogBatch], goal: bool) -> None:
    """One owner's life, behind its checkpoint; with `goal` until that is checkpointed, else until nothing is under way.
    """
    never = {"checkpoint_us": 10**12, "idle_checkpoint_us": 10**12}
    machine = ApplyMachine(Options(lanes=4, window_rows=8, batch_rows=6, **never))
    taken = await sink.take_over([target.name(table) for table in TABLES], START)
    behind = [batch for batch in log if batch.last.order > taken.checkpoint.order]
    events: list[ApplyEvent] = [taken, *(LogArrived([batch], None, 1) for batch in behind)]
    if goal:
        events.append(GoalSet(log[-1].last))
    running: set[asyncio.Task[ApplyEvent]] = set()
    answers: dict[type, Callable[[Any], Any]] = {
        ApplyBatch: sink.apply, effects.SaveCheckpoint: sink.save_checkpoint,
    }  # fmt: skip
    for now in itertools.count(1):
        found = machine.step(now * 1_000_000, events)
        assert not any(isinstance(e, effects.Halt | effects.StepDown) for e in found), found
        if any(isinstance(e, effects.CaughtUp) for e in found):
            break
        running |= {asyncio.create_task(answers[type(e)](e)) for e in found if type(e) in answers}
        if not running and not events and not goal:
            break
        events = []
        if running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            events = [task.result() for task in done]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), size=st.integers(1, 5), first=st.integers(0, 40))
def test_a_log_of_partial_rows_makes_the_sources_rows(target: Target, seed: int, size: int, first: int) -> None:
    """A first owner applies a part of it and ends without a checkpoint; the next one reads all of it again."""
    target.empty()
    history = History(seed, 40)
    log = [*batches(target, history.log, size)]

    async def lives() -> None:
        for part, goal in ((log[:first], False), (log, True)):
            sink = target.sink()
            await run(sink, target, part, goal)
            await sink.close()

    asyncio.run(lives())
    for name in TABLES:
        assert target.rows(name) == sorted(history.rows[name].values()), name
    books = f"{target.books}.tidelock_parked"
    assert target.sql(f"SELECT error FROM {books}") == []


def test_what_is_parked_of_a_partial_row_comes_back_as_it_was(target: Target) -> None:
    """The row is not there: it is a failed row with the reason, and its content has no placeholder."""
    from tidelock.engine.batch.parked_rows import decode_change

    change = (NOTE, (1, UNKNOWN, UNKNOWN), (1, UNKNOWN, "b"))
    log = [*batches(target, [[change], [(NOTE, None, (2, "whole", "c"))]], 2)]

    async def life() -> None:
        sink = target.sink()
        await run(sink, target, log, True)
        await sink.close()

    asyncio.run(life())
    assert target.rows(NOTE) == [(2, "whole", "c")]
    ((error, content),) = target.sql(f"SELECT error, change_data FROM {target.books}.tidelock_parked")
    assert "is not there" in error
    held = decode_change(bytes(content))
    assert (held.before, held.after) == change[1:]
    assert held.after is not None and held.after[1] is UNKNOWN
    assert msgspec.msgpack.encode(held) == bytes(content)
