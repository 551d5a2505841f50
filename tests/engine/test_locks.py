"""The lock table against a queue per key."""

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.lanes import Lane
from engine.locks import LockTable
from engine.segments import Segment
from tests.engine.world import ACCOUNT, change

KEYS = [(0, "a"), (0, "b"), (1, "a"), (1, None)]
ONE = change(ACCOUNT.bindings()[0], None, (1, "a", 0))
MODED = [(2, "p"), (2, "q"), (3,)]


class LockQueues(RuleBasedStateMachine):
    """Segments are issued in order to lanes; the naive side keeps, of each key, everyone who holds or waits."""

    @initialize(lanes=st.integers(1, 4))
    def start(self, lanes: int) -> None:
        self.lanes = [Lane(n) for n in range(lanes)]
        self.table = LockTable()
        self.queues: dict[tuple, list[tuple[Segment, bool]]] = {}
        self.order = 0
        self.committed: dict[int, bool] = {}

    @rule(
        lane=st.integers(0, 3),
        keys=st.lists(st.sampled_from(KEYS), max_size=3),
        moded=st.dictionaries(st.sampled_from(MODED), st.booleans(), max_size=2),
    )
    def issue(self, lane: int, keys: list, moded: dict) -> None:
        segment = Segment(self.order, lane % len(self.lanes), 0)
        self.order += 1
        own = list(moded.items())
        before = [*self.table.holders(keys).values(), *self.table.moded_holders(own)]
        for other in dict.fromkeys(before):
            if other.lane != segment.lane:
                segment.wait_for(other)
        segment.keys += keys
        segment.changes.append(ONE)
        self.table.issue_moded(segment, own)
        self.table.issue(segment)
        self.lanes[segment.lane].append(segment)
        for key, exclusive in [*((key, True) for key in dict.fromkeys(keys)), *own]:
            self.queues.setdefault(key, []).append((segment, exclusive))

    @precondition(lambda self: any(lane.ready for lane in self.lanes))
    @rule(pick=st.integers(0, 3), limit=st.integers(1, 3))
    def commit(self, pick: int, limit: int) -> None:
        ready = [lane for lane in self.lanes if lane.ready]
        lane = ready[pick % len(ready)]
        for segment in lane.cut(limit):
            assert self.may_run(segment), "all it must follow is committed, or before it on its lane"
        for segment in lane.finish():
            blocked = {w.order for w in segment.waiters if w.blockers == 1}
            woken = self.table.release(segment)
            assert len(woken) == len(blocked)
            for key in list(self.queues):
                self.queues[key] = [(s, x) for s, x in self.queues[key] if s is not segment]
                if not self.queues[key]:
                    del self.queues[key]

    def must_follow(self, segment: Segment) -> list[Segment]:
        """By the queues: everyone before it who holds or waits for one of its keys, unless both only read."""
        found = []
        for queue in self.queues.values():
            at = next((i for i, (s, _) in enumerate(queue) if s is segment), None)
            if at is not None:
                found += [s for s, exclusive in queue[:at] if exclusive or queue[at][1]]
        return found

    def may_run(self, segment: Segment) -> bool:
        return all(other.lane == segment.lane for other in self.must_follow(segment))

    @invariant()
    def a_lane_may_run_exactly_as_far_as_the_queues_say(self) -> None:
        """What stands behind a blocked segment of its lane is held up by the lane, and need not wait itself."""
        for lane in self.lanes:
            runnable = [s.order for s in itertools.takewhile(lambda s: s.blockers == 0, lane.queue)]
            assert runnable == [s.order for s in itertools.takewhile(self.may_run, lane.queue)]

    @invariant()
    def no_deadlock(self) -> None:
        if any(lane.queue for lane in self.lanes):
            assert any(lane.ready for lane in self.lanes)

    @invariant()
    def a_lock_lives_while_someone_holds_it(self) -> None:
        assert len(self.table) == len(self.queues)
        segments = {s.order: s for queue in self.queues.values() for s, _ in queue}
        for key, queue in self.queues.items():
            if key in KEYS:
                assert self.table.holders([key]) == {key: queue[-1][0]}
        assert all(not s.committed for s in segments.values())


TestLockQueues = LockQueues.TestCase
TestLockQueues.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def issued(table: LockTable, order: int, lane: int, keys: list = (), moded: list = ()) -> Segment:
    segment = Segment(order, lane, 0)
    segment.keys += keys
    for other in dict.fromkeys([*table.holders(keys).values(), *table.moded_holders(list(moded))]):
        if other.lane != lane:
            segment.wait_for(other)
    table.issue_moded(segment, list(moded))
    table.issue(segment)
    return segment


def test_counter_example_10_a_parent_waits_for_all_its_children_not_only_the_last() -> None:
    table, parent = LockTable(), (5, 1)
    first = issued(table, 0, 0, moded=[(parent, False)])
    second = issued(table, 1, 1, moded=[(parent, False)])
    gone = issued(table, 2, 2, moded=[(parent, True)])
    assert (first.blockers, second.blockers, gone.blockers) == (0, 0, 2)
    assert table.release(second) == []
    assert gone.blockers == 1
    assert table.release(first) == [2]


def test_counter_example_10_a_second_child_waits_for_the_parent_as_the_first_does() -> None:
    table, parent = LockTable(), (5, 1)
    born = issued(table, 0, 0, moded=[(parent, True)])
    children = [issued(table, n, n, moded=[(parent, False)]) for n in (1, 2)]
    assert [c.blockers for c in children] == [1, 1]
    assert table.release(born) == [1, 2]


def test_a_key_is_free_once_its_last_holder_is_committed() -> None:
    table, key = LockTable(), (0, "a")
    first, second = issued(table, 0, 0, [key]), issued(table, 1, 1, [key])
    table.release(first)
    assert table.holders([key]) == {key: second}, "the tail keeps it"
    table.release(second)
    assert len(table) == 0


def test_the_tail_stands_for_all_before_it() -> None:
    table, key = LockTable(), (5, 1)
    for n in range(3):
        issued(table, n, n, moded=[(key, False)])
    tail = issued(table, 3, 3, moded=[(key, True)])
    assert table.moded_holders([(key, True)]) == [tail] == table.moded_holders([(key, False)])


def test_one_segment_that_reads_and_then_writes_a_key_holds_it_once() -> None:
    table, key = LockTable(), (5, 1)
    segment = issued(table, 0, 0, moded=[(key, False)])
    table.issue_moded(segment, [(key, True), (key, False)])
    assert table.moded_holders([(key, True)]) == [segment]
    table.release(segment)
    assert len(table) == 0


def test_a_segment_is_released_once() -> None:
    table = LockTable()
    segment = issued(table, 0, 0, [(0, "a")])
    table.release(segment)
    with pytest.raises(AssertionError, match="twice"):
        table.release(segment)


def test_holders_come_in_the_order_of_the_keys_asked_for() -> None:
    """Never in a set's: it differs in every process, and so would the plan."""
    table = LockTable()
    keys = [(0, f"value {n}") for n in range(50)]
    for n, key in enumerate(keys):
        issued(table, n, n, [key])
    asked = keys[::-1]
    assert list(table.holders(asked)) == asked
