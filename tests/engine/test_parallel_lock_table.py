"""The lock table against a queue per key."""

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.engine.world import ACCOUNT, change
from tidelock.engine.model.index import digest
from tidelock.engine.model.records import TableName
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_holder import LockHolder
from tidelock.engine.parallel.lock_request import Mode, S, X
from tidelock.engine.parallel.lock_table import LockTable
from tidelock.engine.parallel.segments import Segment

UNIQUE = {
    name: digest(key)
    for name, key in {"email a": (0, "a"), "email b": (0, "b"), "nick a": (1, "a"), "key 1": (2, 1)}.items()
}
MODED = {"parent 1": (3, 1), "parent 2": (3, 2), "table": (4,)}
ONE = change(ACCOUNT.bindings()[0], None, (1, "a", 0))


class LockQueues(RuleBasedStateMachine):
    """Segments are issued in order to lanes, run and commit lane by lane.

    The naive side is the design's own: of each key a queue of all who hold it or wait for it, none of them forgotten
    before it commits; the length of the queue is the key's wait count.
    """

    @initialize(lanes=st.integers(1, 4))
    def start(self, lanes: int) -> None:
        self.lanes = [Lane(n) for n in range(lanes)]
        self.table = LockTable()
        self.queues: dict[str, list[tuple[LockHolder, bool]]] = {}
        self.order = 0

    # ------------------------------------------------------------------ the table is used as the dispatcher uses it

    @rule(
        lane=st.integers(0, 3),
        unique=st.lists(st.sampled_from(sorted(UNIQUE)), max_size=3, unique=True),
        writes=st.lists(st.sampled_from(sorted(MODED)), max_size=2, unique=True),
        reads=st.lists(st.sampled_from(sorted(MODED)), max_size=2, unique=True),
    )
    def issue(self, lane: int, unique: list[str], writes: list[str], reads: list[str]) -> None:
        segment = Segment(self.order, lane % len(self.lanes), 0)
        self.order += 1
        keys, requests = [UNIQUE[name] for name in unique], self.requests(writes, reads)
        before = [*self.table.holders(keys).values(), *self.table.predecessors(requests)]
        for other in dict.fromkeys(before):
            if other.lane != segment.lane:
                segment.holder.wait_for(other)
        segment.keys += keys
        segment.changes.append(ONE)
        self.table.issue_requests(segment.holder, requests)
        self.table.issue(segment.holder)
        self.lanes[segment.lane].append(segment)
        self.join(segment.holder, unique, writes, reads)

    @rule(
        lane=st.integers(0, 3),
        writes=st.lists(st.sampled_from(sorted(MODED)), max_size=2, unique=True),
        reads=st.lists(st.sampled_from(sorted(MODED)), max_size=2, unique=True),
    )
    def one_more_change(self, lane: int, writes: list[str], reads: list[str]) -> None:
        """Adds a change to the lane's last segment, which it may join if it waits for no other lane."""
        queue, requests = self.lanes[lane % len(self.lanes)].queue, self.requests(writes, reads)
        if queue and all(other.lane == queue[-1].lane for other in self.table.predecessors(requests)):
            queue[-1].changes.append(ONE)
            self.table.issue_requests(queue[-1].holder, requests)
            self.join(queue[-1].holder, [], writes, reads)

    def requests(self, writes: list[str], reads: list[str]) -> list:
        return [(MODED[name], False) for name in reads] + [(MODED[name], True) for name in writes]

    def join(self, holder: LockHolder, unique: list[str], writes: list[str], reads: list[str]) -> None:
        for name in reads:
            self.queues.setdefault(name, []).append((holder, False))
        for name in [*unique, *writes]:
            self.queues.setdefault(name, []).append((holder, True))

    @precondition(lambda self: any(lane.ready for lane in self.lanes))
    @rule(pick=st.integers(0, 3), rows=st.integers(1, 3))
    def commit(self, pick: int, rows: int) -> None:
        ready = [lane for lane in self.lanes if lane.ready]
        lane = ready[pick % len(ready)]
        lane.cut(rows)
        for segment in lane.running:
            assert self.may_run(segment.holder), "all it must follow is committed, or before it on its lane"
        for holder in [segment.holder for segment in lane.running]:
            freed = sorted(w.lane for w in holder.successors if w.pending_predecessors == 1)
            assert sorted(self.table.release(holder)) == freed, "every lane with a freed segment is woken"
            for name in list(self.queues):
                self.queues[name] = [(s, x) for s, x in self.queues[name] if s is not holder]
                if not self.queues[name]:
                    del self.queues[name]
        lane.finish()

    @rule()
    def drain(self) -> None:
        while any(lane.ready for lane in self.lanes):
            self.commit(0, 1)
        assert not any(lane.queue for lane in self.lanes), "nothing is stuck"
        assert len(self.table) == 0, "nothing is held"

    # ------------------------------------------------------------------ what the queues say

    def must_follow(self, holder: LockHolder) -> list[LockHolder]:
        """Everyone before it who holds or waits for one of its keys, unless both only read."""
        return [
            other
            for queue in self.queues.values()
            for at, (mine, exclusive) in enumerate(queue)
            if mine is holder
            for other, theirs in queue[:at]
            if other is not holder and (exclusive or theirs)
        ]

    def may_run(self, holder: LockHolder) -> bool:
        return all(other.lane == holder.lane for other in self.must_follow(holder))

    def live(self) -> list[LockHolder]:
        return [segment.holder for lane in self.lanes for segment in lane.queue]

    @invariant()
    def a_lane_may_run_exactly_as_far_as_the_queues_say(self) -> None:
        """A segment behind a blocked one of its lane is held up by the lane, and need not wait itself."""
        for lane in self.lanes:
            runnable = [s.order for s in itertools.takewhile(lambda s: s.runnable, lane.queue)]
            assert runnable == [s.order for s in itertools.takewhile(lambda s: self.may_run(s.holder), lane.queue)]

    @invariant()
    def no_deadlock(self) -> None:
        if self.live():
            assert min(self.live(), key=lambda s: s.order).pending_predecessors == 0, "the earliest never waits"

    @invariant()
    def each_waits_only_for_earlier_ones_that_it_must_follow(self) -> None:
        """So no cycle; and no orphan: whoever is waited for is there, and wakes all who wait for it."""
        live = self.live()
        for holder in live:
            waited = [other for other in live if holder in other.successors]
            assert holder.pending_predecessors == len(waited), "as many pending_predecessors as are still to commit"
            assert all(o.order < holder.order and o.lane != holder.lane for o in waited)
            assert {o.order for o in waited} <= {o.order for o in self.must_follow(holder)}
        assert all(successor in live for holder in live for successor in holder.successors)
        assert self.table.waiting == sum(holder.pending_predecessors > 0 for holder in live)

    @invariant()
    def a_lock_lives_while_someone_holds_it_or_waits(self) -> None:
        """Its wait count is the length of its queue, and it is destroyed at zero."""
        assert len(self.table) == len(self.queues)
        for name, key in UNIQUE.items():
            queue = self.queues.get(name)
            assert self.table.holders([key]) == ({key: queue[-1][0]} if queue else {})
        for name, key in MODED.items():
            queue = self.queues.get(name, [])
            last = max((at for at, (_, exclusive) in enumerate(queue) if exclusive), default=0)
            tail = {s.order: s for s, _ in queue[last:]}
            assert self.table.predecessors([(key, True)]) == [tail[order] for order in sorted(tail)]
        orders = [s.order for s in self.table.predecessors([(key, True) for key in reversed(MODED.values())])]
        assert orders == sorted(set(orders)), "oldest first, each once"


TestLockQueues = LockQueues.TestCase
TestLockQueues.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, derandomize=True, report_multiple_bugs=False
)


@pytest.mark.proof
def test_lock_queues_at_length() -> None:
    run_state_machine_as_test(LockQueues, settings=settings(max_examples=2000, stateful_step_count=60, deadline=None))


def issued(table: LockTable, order: int, lane: int, keys: list = (), requests: list = ()) -> LockHolder:
    holder = LockHolder(order, lane)
    holder.keys += keys
    for other in dict.fromkeys([*table.holders(keys).values(), *table.predecessors(list(requests))]):
        if other.lane != lane:
            holder.wait_for(other)
    table.issue_requests(holder, list(requests))
    table.issue(holder)
    return holder


def test_counter_example_10_a_parent_waits_for_all_its_children_not_only_the_last() -> None:
    table, parent = LockTable(), (5, 1)
    first = issued(table, 0, 0, requests=[(parent, False)])
    second = issued(table, 1, 1, requests=[(parent, False)])
    gone = issued(table, 2, 2, requests=[(parent, True)])
    assert (first.pending_predecessors, second.pending_predecessors, gone.pending_predecessors) == (0, 0, 2)
    assert table.release(second) == []
    assert gone.pending_predecessors == 1
    assert table.release(first) == [2]


def test_counter_example_10_a_second_child_waits_for_the_parent_as_the_first_does() -> None:
    table, parent = LockTable(), (5, 1)
    born = issued(table, 0, 0, requests=[(parent, True)])
    children = [issued(table, n, n, requests=[(parent, False)]) for n in (1, 2)]
    assert [c.pending_predecessors for c in children] == [1, 1]
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
        issued(table, n, n, requests=[(key, False)])
    tail = issued(table, 3, 3, requests=[(key, True)])
    assert table.predecessors([(key, True)]) == [tail] == table.predecessors([(key, False)])


def test_one_segment_that_reads_and_then_writes_a_key_holds_it_once() -> None:
    table, key = LockTable(), (5, 1)
    holder = issued(table, 0, 0, requests=[(key, False)])
    table.issue_requests(holder, [(key, True), (key, False)])
    assert table.predecessors([(key, True)]) == [holder]
    table.release(holder)
    assert len(table) == 0


def test_a_segment_is_released_once() -> None:
    table = LockTable()
    holder = issued(table, 0, 0, [(0, "a")])
    table.release(holder)
    with pytest.raises(AssertionError, match="twice"):
        table.release(holder)


def test_holders_come_in_the_order_of_the_keys_asked_for() -> None:
    """Never in a set's: it differs in every process, and so would the plan."""
    table = LockTable()
    keys = [(0, f"value {n}") for n in range(50)]
    for n, key in enumerate(keys):
        issued(table, n, n, [key])
    asked = keys[::-1]
    assert list(table.holders(asked)) == asked


NAMES = [TableName("shop", f"table_{n}") for n in range(2)]


def had(table: LockTable, order: int, lane: int, mode: Mode) -> LockHolder:
    holder = LockHolder(order, lane)
    table.lock_tables(holder, NAMES, mode)
    table.issue(holder)
    return holder


def test_a_lane_may_have_a_table_whole_where_nobody_else_has_any_of_it() -> None:
    table = LockTable()
    assert table.only_on(NAMES[0], 1) and not table.tables
    first = had(table, 0, 1, X)
    assert (table.table_lock_holder(NAMES[1]), table.table_lock_holder(TableName("shop", "other"))) == (first, None)
    assert (table.only_on(NAMES[0], 1), table.only_on(NAMES[0], 2), len(table)) == (True, False, 2)
    shared = [had(table, 1, 1, S), had(table, 2, 2, S)]
    table.release(first)
    assert table.table_lock_holder(NAMES[0]) is None and table.tables
    assert not table.only_on(NAMES[0], 1) and not table.only_on(NAMES[0], 2)
    table.release(shared[1])
    assert table.only_on(NAMES[0], 1)
    table.release(shared[0])
    assert len(table) == 0 and not table.tables


def test_nobody_may_while_somebody_does_not_tell_its_tables() -> None:
    table = LockTable()
    untold = issued(table, 0, 0, [5])
    assert (table.without_tables, table.only_on(NAMES[0], 0)) == (1, False)
    table.release(untold)
    assert (table.without_tables, table.only_on(NAMES[0], 0)) == (0, True)


def test_a_segment_is_told_its_tables_once() -> None:
    table = LockTable()
    with pytest.raises(AssertionError, match="locked once"):
        table.lock_tables(had(table, 0, 0, X), NAMES, X)
