"""A lane runs what stands in its queue in log order, a batch at a time, and never past a blocked segment."""

import pytest
from hypothesis import given, settings
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
from tidelock.engine.model.origin import Origin
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.segments import Provenance, Segment

(ACCOUNTS,) = ACCOUNT.bindings()


def segment(order: int, rows: int, pending_predecessors: int = 0) -> Segment:
    made = Segment(order, 0, 0)
    made.changes += [change(ACCOUNTS, None, (n, None, 0)) for n in range(rows)]
    made.holder.pending_predecessors = pending_predecessors
    return made


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans())), st.integers(1, 12))
def test_a_batch_is_a_runnable_prefix_of_at_most_the_limit_or_one_segment(sizes: list, limit: int) -> None:
    lane = Lane(0)
    queued = [segment(n, rows, int(blocked)) for n, (rows, blocked) in enumerate(sizes)]
    for one in queued:
        lane.append(one)
    assert lane.ready == (bool(queued) and queued[0].holder.pending_predecessors == 0)
    total = lane.rows
    lane.cut(limit)
    batch = list(lane.running)
    assert batch == queued[: len(batch)]
    assert all(one.holder.pending_predecessors == 0 for one in batch)
    assert len(batch) <= 1 or sum(len(one.changes) for one in batch) <= limit
    rest = queued[len(batch) :]
    taken = sum(len(one.changes) for one in batch)
    stopped = not rest or rest[0].holder.pending_predecessors > 0 or taken + len(rest[0].changes) > limit
    assert stopped and (batch or not queued or queued[0].holder.pending_predecessors)
    assert lane.rows == total == sum(len(one.changes) for one in queued)
    assert list(lane.queue) == rest


def test_a_batch_ends_before_a_segment_of_another_origin() -> None:
    lane = Lane(0)
    for n, origin in enumerate([None, None, Origin(("a",)), Origin(("a",)), None]):
        one = segment(n, 1)
        one.provenance = Provenance(origin)
        lane.append(one)
    batches = []
    while lane.ready:
        lane.cut(100)
        batches.append([one.order for one in lane.running])
        lane.finish()
    assert batches == [[0, 1], [2, 3], [4]]


def test_counter_example_10_a_lane_stays_in_log_order() -> None:
    lane = Lane(0)
    lane.append(segment(2, 1))
    with pytest.raises(AssertionError, match="log order"):
        lane.append(segment(1, 1))


def test_one_batch_a_lane() -> None:
    lane = Lane(3)
    for n in range(3):
        lane.append(segment(n, 1))
    lane.cut(2)
    assert [one.order for one in lane.running] == [0, 1]
    assert not lane.ready
    with pytest.raises(AssertionError, match="one batch"):
        lane.cut(2)
    lane.finish()
    assert lane.ready and lane.rows == 1
    with pytest.raises(AssertionError, match="nothing"):
        lane.finish()


class OneLane(RuleBasedStateMachine):
    """The naive side is a list of words, one a row: which segment it is of, in log order, and where it stands."""

    @initialize()
    def start(self) -> None:
        self.lane = Lane(0)
        self.segments: list[Segment] = []
        self.rows: list[int] = []  # queued or running, by the order of their segment
        self.running = 0  # so many of them, from the first, are at the target
        self.blocked: list[int] = []
        self.done: list[int] = []

    @rule(rows=st.integers(1, 4), pending_predecessors=st.sampled_from([0, 0, 1, 2]))
    def append(self, rows: int, pending_predecessors: int) -> None:
        order = len(self.segments)
        self.segments.append(segment(order, rows, pending_predecessors))
        self.lane.append(self.segments[-1])
        self.rows += [order] * rows
        self.blocked += [order] * pending_predecessors

    @rule()
    def append_what_is_older(self) -> None:
        if self.lane.queue:
            with pytest.raises(AssertionError, match="log order"):
                self.lane.append(segment(self.lane.queue[-1].order, 1))

    @precondition(lambda self: self.blocked)
    @rule(pick=st.integers(0, 9))
    def a_blocker_commits(self, pick: int) -> None:
        order = self.blocked.pop(pick % len(self.blocked))
        self.segments[order].holder.pending_predecessors -= 1

    @rule(limit=st.integers(1, 5))
    def cut(self, limit: int) -> None:
        if self.running:
            with pytest.raises(AssertionError, match="one batch"):
                self.lane.cut(limit)
            return
        self.lane.cut(limit)
        batch = [one.order for one in self.lane.running]
        want: list[int] = []
        for order in dict.fromkeys(self.rows):
            size = self.rows.count(order)
            if order in self.blocked or (want and sum(map(self.rows.count, want)) + size > limit):
                break
            want.append(order)
        assert batch == want
        self.running = sum(map(self.rows.count, want))

    @rule()
    def finish(self) -> None:
        if not self.running:
            with pytest.raises(AssertionError, match="nothing"):
                self.lane.finish()
            return
        self.done += [one.order for one in self.lane.running]
        self.lane.finish()
        del self.rows[: self.running]
        self.running = 0

    @invariant()
    def every_row_is_queued_running_or_done(self) -> None:
        assert self.lane.rows == len(self.rows)
        assert [s.order for s in self.lane.running] == list(dict.fromkeys(self.rows[: self.running]))
        assert [s.order for s in self.lane.queue] == list(dict.fromkeys(self.rows[self.running :]))
        assert self.done == list(range(len(self.done))), "each once, in log order"
        assert self.lane.ready == (not self.running and bool(self.rows) and self.rows[0] not in self.blocked)


TestOneLane = OneLane.TestCase
TestOneLane.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, derandomize=True, report_multiple_bugs=False
)


@pytest.mark.proof
def test_one_lane_at_length() -> None:
    run_state_machine_as_test(OneLane, settings=settings(max_examples=3000, stateful_step_count=50, deadline=None))
