"""Turns on tables with deadlocks (`adapters.mysql.target.deadlock_gate`).  With a server: test_mysql_sink."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tidelock.adapters.mysql.target import deadlock_gate
from tidelock.adapters.mysql.target.deadlock_gate import DeadlockGate
from tidelock.engine.model.records import Column, Kind, Shape, TableName
from tidelock.engine.model.schema import Binding, ForeignKey, TargetColumn, TargetTable, UniqueKey
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows


def table(name: str, *uniques: str) -> Binding:
    columns = tuple(TargetColumn(column, "int") for column in ("id", *uniques))
    keys = tuple(UniqueKey(column, (column,)) for column in ("id", *uniques))
    shape = Shape(TableName("src", name), tuple(Column(column.name, Kind.INT) for column in columns))
    return Binding(1, shape, TargetTable(TableName("db", name), columns, ("id",), keys))


ONE, TWO, PLAIN = table("one", "u"), table("two", "u"), table("plain")


def insert(binding: Binding) -> Step:
    return UpsertRows(binding, [(1, 1)], True)


def delete(binding: Binding) -> Step:
    return DeleteRows(binding, [(1,)])


async def waits(every: DeadlockGate, steps: list[Step]) -> bool:
    """Tells whether a batch of `steps` has to wait now."""
    with every.of(steps) as turn:
        taking = asyncio.create_task(turn.take())
        await asyncio.sleep(0)
        waiting = not taking.done()
        taking.cancel()
        await asyncio.wait([taking])
    return waiting


async def test_batches_take_turns_only_where_there_were_deadlocks() -> None:
    every = DeadlockGate()
    with every.of([insert(ONE)]) as turn:
        await turn.take()
        assert not await waits(every, [insert(ONE)])
    every.deadlocked([insert(ONE), delete(PLAIN)])
    with every.of([insert(ONE), insert(TWO), insert(PLAIN)]) as turn:
        assert not await waits(every, [insert(ONE)]), "a turn is taken when it is needed"
        await turn.take()
        await turn.take()
        assert await waits(every, [insert(ONE)])
        assert await waits(every, [insert(TWO), delete(ONE)])
        assert not await waits(every, [insert(TWO)])
        assert not await waits(every, [insert(PLAIN)])
    assert not await waits(every, [insert(ONE)])


@pytest.mark.parametrize(
    ("step", "waiting"),
    [
        (UpdateRows(ONE, [(1,)], [(1, 2)], True), True),
        (UpdateRows(ONE, [(1,)], [(1, 1)], False), False),
        (UpsertRows(ONE, [(1, 1)], False), False),
    ],
)
async def test_updates_that_leave_unique_values_alone_go_on(step: Step, waiting: bool) -> None:
    every = DeadlockGate()
    every.deadlocked([insert(ONE)])
    with every.of([insert(ONE)]) as turn:
        await turn.take()
        assert await waits(every, [step]) == waiting


async def test_batches_that_name_tables_in_another_order_do_not_wait_in_a_circle() -> None:
    every = DeadlockGate()
    every.deadlocked([insert(ONE), insert(TWO)])
    log: list[str] = []

    async def batch(name: str, steps: list[Step]) -> None:
        with every.of(steps) as turn:
            await turn.take()
            log.append(f"{name} in")
            await asyncio.sleep(0)
            log.append(f"{name} out")

    async with asyncio.timeout(5):
        await asyncio.gather(batch("a", [insert(ONE), insert(TWO)]), batch("b", [insert(TWO), insert(ONE)]))
    assert log == ["a in", "a out", "b in", "b out"]


async def test_a_batch_that_is_cancelled_gives_its_turn_back() -> None:
    every = DeadlockGate()
    every.deadlocked([insert(ONE), insert(TWO)])
    with every.of([insert(TWO)]) as second:
        await second.take()
        with every.of([insert(ONE), insert(TWO)]) as both:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(both.take(), 0.01)
            assert await waits(every, [insert(ONE)])
        assert not await waits(every, [insert(ONE)])


async def test_a_table_is_tried_again_without_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    every = DeadlockGate()
    every.deadlocked([insert(ONE)])
    with every.of([insert(ONE)]) as turn:
        await turn.take()
        later = deadlock_gate.time.monotonic() + deadlock_gate.SECONDS + 1
        monkeypatch.setattr(deadlock_gate.time, "monotonic", lambda: later)
        assert not await waits(every, [insert(ONE)])


async def test_parents_and_children_take_turns_once_one_is_rolled_back_again() -> None:
    """A child locks its parent's row, whose other columns a batch may update."""
    key = ForeignKey("f", PLAIN.name, ("id",), ONE.name, ("id",))
    parent, child = (
        Binding(1, one.shape, msgspec.structs.replace(one.target, **tied))
        for one, tied in ((ONE, {"references": (key,)}), (PLAIN, {"foreign_keys": (key,)}))
    )
    update = UpdateRows(parent, [(1,)], [(1, 1)], moves=False)
    every = DeadlockGate()
    every.deadlocked([update, insert(child)])
    with every.of([update]) as turn:
        await turn.take()
        assert not await waits(every, [insert(child)]), "mostly one that is sent again passes"
    every.deadlocked([update, insert(child)], again=True)
    with every.of([update]) as turn:
        await turn.take()
        assert await waits(every, [insert(child)]) and not await waits(every, [insert(PLAIN)])
