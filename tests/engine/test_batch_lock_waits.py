"""The look at who waits for whom: it shows what holds, names the keys, and is bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.planned_lanes import Planned, planned
from tests.engine.world import ACCOUNT, FAMILY, KEYLESS, SELF, WORLDS, Draft, History, World, change, drafts
from tidelock.engine.batch.lock_waits import MOST, STEPS, HotKey, LockWaits, look
from tidelock.engine.parallel.dispatcher import Dispatcher
from tidelock.engine.parallel.keyspace import Keyspace
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_keys import compile_keys
from tidelock.engine.parallel.lock_table import LockTable
from tidelock.engine.parallel.segments import Segment

(ROW,) = ACCOUNT.bindings()


def looked(made: Planned) -> LockWaits:
    return look(made.dispatcher, made.lanes, made.space)


def crossing() -> Planned:
    """Two rows on two lanes, and an update that gives the one the other's value."""
    made = planned(ACCOUNT, [change(ROW, None, (1, "a", 0))], lanes=2)
    number = next(n for n in range(2, 50) if alone(made, n))
    made.plan([change(ROW, None, (number, "b", 0))])
    made.plan([change(ROW, (1, "a", 0), (1, "b", 0))])
    return made


def alone(made: Planned, number: int) -> bool:
    """Tells whether a row of that key goes to the lane on which nothing is."""
    one = change(ROW, None, (number, "b", 0))
    return planned(ACCOUNT, [one], lanes=2).where(one) != next(lane.number for lane in made.lanes if lane.queue)


def test_a_wait_names_both_changes_their_lanes_and_the_key() -> None:
    made = crossing()
    seen = looked(made)
    (wait,) = seen.waits
    (second,) = (lane for lane in made.lanes if lane.number == wait.at)
    number = second.queue[0].changes[0].after[0]  # type: ignore[index]
    assert (wait.change, wait.waits_for) == (f"{ROW.name} id=1", f"{ROW.name} id={number}")
    assert (wait.key, wait.rows, wait.applies) == ("u of id=1", 1, False)
    assert seen.hottest == (HotKey(str(ROW.name), "u of id=1", 1),) and seen.total_waiting == 1
    assert {lane.lane: (lane.waiting, lane.state) for lane in seen.lanes} == {
        wait.lane: (2, "ready"),
        wait.at: (1, "ready"),
    }
    for lane in made.lanes:
        lane.cut(1)
    seen = looked(made)
    assert seen.waits[0].applies and {(lane.state, lane.batch_rows) for lane in seen.lanes} == {("applies", 1)}
    first = next(lane for lane in made.lanes if lane.number == wait.lane)
    made.locks.release(first.running[0].holder)
    first.finish()
    assert {lane.lane: lane.state for lane in looked(made).lanes} == {wait.lane: "waits", wait.at: "applies"}
    made.locks.release(second.running[0].holder)
    second.finish()
    seen = looked(made)
    assert (seen.waits, seen.total_waiting) == ((), 0)
    assert {lane.lane: lane.state for lane in seen.lanes} == {wait.lane: "ready", wait.at: "idle"}


def shown(made: Planned) -> set[tuple[int, int]]:
    """Pairs of lanes of which one waits for the other, as many as there are."""
    there = {s.holder: s for lane in made.lanes for s in (*lane.running, *lane.queue)}
    return {(one.lane, s.lane) for s in there.values() for one in s.holder.successors}


@settings(max_examples=80, deadline=None, derandomize=True)
@given(world=st.sampled_from(WORLDS), some=drafts(14, 6), size=st.integers(1, 3), whole=st.booleans())
def test_all_waits_are_shown_with_their_keys(world: World, some: list[Draft], size: int, whole: bool) -> None:
    history = History(world)
    for draft in some:
        history.take(draft)
    made = Planned(world, history.bindings, 3)
    for at in range(0, len(history.log), size):
        (made.plan_transactions if whole else made.plan)(history.log[at : at + size])
    seen = looked(made)
    segments = [s for lane in made.lanes for s in lane.queue]
    assert len(seen.waits) == made.waits() == sum(one.waiting for one in seen.hottest)
    assert seen.total_waiting == sum(not s.runnable for s in segments)
    assert {(wait.lane, wait.at) for wait in seen.waits} == shown(made)
    assert all(wait.key for wait in seen.waits)
    assert seen.steps < STEPS


def test_a_parent_is_named_by_what_its_children_refer_to() -> None:
    mother, child = FAMILY.bindings()
    made = Planned(FAMILY, [mother, child], 2)
    made.plan_transactions([change(mother, None, (1, "a", 0))])
    made.plan_transactions([change(child, None, (7, 1, "s"))])
    (wait,) = looked(made).waits
    assert wait.key == "id=1" and looked(made).hottest == (HotKey(str(mother.name), "id=1", 1),)


def test_a_key_that_both_only_read_is_not_what_is_waited_for() -> None:
    (node,) = SELF.bindings()
    made = Planned(SELF, [node], 2)
    made.plan_transactions([change(node, None, (2, 1, 0))])
    made.plan_transactions([change(node, None, (6, 1, 0)), change(node, None, (5, 2, 0))])
    assert [wait.key for wait in looked(made).waits] == ["id=2"]


def test_a_table_without_a_key_is_waited_for_as_a_whole() -> None:
    visit = KEYLESS.bindings()[0]
    made = Planned(KEYLESS, [visit], 2)
    for number in (1, 2):
        made.plan_transactions([change(visit, None, (number, 0))])
    assert [wait.key for wait in looked(made).waits] == ["the whole table"]


class Counted:
    """Counts what is taken out of lists and queues."""

    taken = 0

    def __iter__(self) -> Iterator[Any]:
        for one in super().__iter__():  # type: ignore[misc]
            Counted.taken += 1
            yield one


class CountedQueue(Counted, deque[Any]):
    """A queue that counts."""


class CountedList(Counted, list[Any]):
    """A list that counts."""


def test_a_look_at_two_hundred_thousand_waits_is_as_short_as_one_at_few() -> None:
    """All that the look takes out of queues and lists is counted there, not by the look itself."""
    waiting, lanes, locks = 200_000, [Lane(n) for n in range(8)], LockTable()
    first = Segment(0, 0, 0)
    one = change(ROW, None, (1, "a", 0))
    queues: list[list[Segment]] = [[first], *([] for _ in lanes[1:])]
    first.changes.append(one)
    for order in range(1, waiting + 1):
        segment = Segment(order, 1 + order % 7, 0)
        segment.holder.wait_for(first.holder)
        segment.changes.append(one)
        queues[segment.lane].append(segment)
        locks.issue(segment.holder)
    for lane, queue in zip(lanes, queues, strict=True):
        lane.queue = CountedQueue(queue)
    first.holder.successors = CountedList(first.holder.successors)
    first.holder.keys = CountedList(range(1000))
    Counted.taken = 0
    dispatcher, space = Dispatcher(lanes, locks), Keyspace()
    dispatcher.bind(ROW, compile_keys(ROW, space, ACCOUNT.tables))
    seen = look(dispatcher, lanes, space)
    assert seen.total_waiting == waiting and len(seen.waits) == MOST
    assert 0 < Counted.taken < STEPS and seen.steps < STEPS
    assert all(lane.more for lane in seen.lanes[1:]) and len(seen.hottest) <= MOST
