"""Planned windows on lanes, committed in any order: the log's order where it matters, and no clash at the target."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.engine.planned_lanes import Planned, planned, together
from tests.engine.world import (
    ACCOUNT,
    FOLDED,
    OPAQUE,
    TWO_UNIQUES,
    WORLDS,
    Database,
    Draft,
    History,
    World,
    bind,
    change,
    conflict,
    drafts,
    linked,
    refers,
    table,
)
from tidelock.engine.batch.merge import Ranks, merge
from tidelock.engine.model.options import Options
from tidelock.engine.parallel.keyspace import Keyspace
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_keys import compile_keys
from tidelock.engine.parallel.segments import Change, Segment


class Replication(RuleBasedStateMachine):
    """Source → log → windows → lanes → target.  A queue per key, kept naively, says who must come before whom."""

    whole = 0  # rows that a segment may have whatever a batch may

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[int, list[Change]] = {}

    @initialize(
        world=st.sampled_from(WORLDS),
        lanes=st.integers(2, 3),
        postgres=st.booleans(),
        batch_rows=st.sampled_from([1, 2, 1000]),
        min_rows_per_lane=st.sampled_from([0, 1, 3]),
        digests=st.sampled_from([0, 0, 2, 5]),
    )
    def start(
        self, world: World, lanes: int, postgres: bool, batch_rows: int, min_rows_per_lane: int, digests: int
    ) -> None:
        self.world = world
        self.sizes = {"batch_rows": batch_rows, "min_rows_per_lane": min_rows_per_lane, "digests": digests}
        self.longest = self.whole or batch_rows
        self.history = History(world)
        self.target = Database(world, world.dialects[-1 if postgres else 0])
        self.planned = Planned(world, self.history.bindings, lanes, **self.sizes)
        self.pending: list[Change] = []
        self.committed: set[int] = set()  # indexes in the log
        self.ranks = Ranks(world.tables, {})

    @rule(some=drafts(6, 3))
    def write(self, some: list[Draft]) -> None:
        self.pending += [one for draft in some if (one := self.history.take(draft)) is not None]

    @precondition(lambda self: self.pending)
    @rule(size=st.integers(1, 6))
    def plan(self, size: int) -> None:
        self.planned.plan(self.pending[:size])
        del self.pending[:size]

    @precondition(lambda self: any(lane.ready for lane in self.planned.lanes))
    @rule(pick=st.integers(0, 2), limit=st.integers(1, 4))
    def begin(self, pick: int, limit: int) -> None:
        ready = [lane for lane in self.planned.lanes if lane.ready]
        lane = ready[pick % len(ready)]
        lane.cut(limit)
        cut = [one for segment in lane.running for one in segment.changes]
        batch = [one.number for one in cut]
        for tables in self.planned.ordered:
            numbers = [one.number for one in cut if one.binding in tables]
            assert numbers == sorted(numbers), "log order in the lane, of each table and of all that share locks"
        assert all(len(segment.changes) <= self.longest for segment in lane.running)
        for late in batch:
            for early in range(late):
                if early not in self.committed and early not in batch:
                    log = self.history.log
                    assert not conflict(self.world, log[early], log[late]), f"{early} must come before {late}"

    @precondition(lambda self: any(lane.running for lane in self.planned.lanes))
    @rule(pick=st.integers(0, 2))
    def commit(self, pick: int) -> None:
        running = self.may_commit()
        lane = running[pick % len(running)]
        changes = [one for segment in lane.running for one in segment.changes]
        self.target.run(merge(changes, self.ranks))
        self.committed.update(one.number for one in changes)
        for segment in lane.running:
            self.planned.locks.release(segment.holder)
        lane.finish()

    def may_commit(self) -> list[Lane]:
        return [lane for lane in self.planned.lanes if lane.running]

    @rule(lanes=st.integers(1, 4))
    def crash(self, lanes: int) -> None:
        """A new owner plans all that is not committed, on another number of lanes."""
        self.planned = Planned(self.world, self.history.bindings, lanes, **self.sizes)
        self.pending = [one for one in self.history.log if one.number not in self.committed]

    @invariant()
    def some_lane_can_always_go_on(self) -> None:
        lanes = self.planned.lanes
        if any(lane.queue for lane in lanes):
            assert any(lane.ready or lane.running for lane in lanes), "deadlock"

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        if self.pending:
            self.plan(len(self.pending))
        for turn in itertools.count():
            if any(lane.ready for lane in self.planned.lanes):
                self.begin(turn, 3)
            elif any(lane.running for lane in self.planned.lanes):
                self.commit(turn)
            else:
                break
            self.some_lane_can_always_go_on()
        assert len(self.planned.locks) == 0, "the table is empty once all is committed"
        assert self.target.content() == self.history.database.content()


class Transactions(Replication):
    """`consistency: transaction`: a window is a run of whole transactions, committed in source order."""

    whole = 1_000_000

    @precondition(lambda self: self.pending)
    @rule(size=st.integers(1, 4))
    def plan(self, size: int) -> None:
        assert self.planned.plan_transactions(self.pending[:size]) == 1
        del self.pending[:size]

    @precondition(lambda self: any(lane.ready for lane in self.planned.lanes))
    @rule(pick=st.integers(0, 2))
    def begin(self, pick: int, limit: int = 1) -> None:
        super().begin(pick, 1)

    @precondition(lambda self: self.may_commit())
    @rule(pick=st.integers(0, 2))
    def commit(self, pick: int) -> None:
        super().commit(pick)

    def may_commit(self) -> list[Lane]:
        waiting = [s.order for lane in self.planned.lanes for s in (*lane.running, *lane.queue)]
        return [lane for lane in self.planned.lanes if lane.running and lane.running[0].order == min(waiting)]


MANY = World(
    "many tables",
    linked(
        *(table(f"table_{n}", ["id", "u", "note"], ["id"], [["u"]]) for n in range(4)),
        table("mother", ["id", "u", "note"], ["id"], [["u"]]),
        table("child", ["id", "mother", "note"], ["id"], [], [refers("child", ["mother"], "mother", ["id"])]),
    ),
    {"id": (1, 2, 3), "u": ("a", "b", None), "note": (0, 1), "mother": (1, 2, None)},
)


class ManyTables(Replication):
    """More tables than lanes, so that lanes have tables whole while other windows share them out."""

    @initialize(
        lanes=st.integers(1, 3),
        postgres=st.booleans(),
        batch_rows=st.sampled_from([1, 3, 1000]),
        min_rows_per_lane=st.sampled_from([0, 3]),
        digests=st.sampled_from([0, 0, 5]),
        whole_lanes=st.sampled_from([0, 1]),
    )
    def start(
        self, lanes: int, postgres: bool, batch_rows: int, min_rows_per_lane: int, digests: int, whole_lanes: int
    ) -> None:
        super().start(MANY, lanes, postgres, batch_rows, min_rows_per_lane, digests)
        self.sizes["whole_lanes"] = whole_lanes
        self.planned = Planned(MANY, self.history.bindings, lanes, **self.sizes)

    @rule(some=drafts(12, 6))
    def write(self, some: list[Draft]) -> None:
        self.pending += [one for draft in some if (one := self.history.take(draft)) is not None]

    @precondition(lambda self: self.pending)
    @rule(size=st.integers(1, 24))
    def plan(self, size: int) -> None:
        self.planned.plan(self.pending[:size])
        del self.pending[:size]

    @precondition(lambda self: self.pending)
    @rule(table=st.integers(0, 3))
    def plan_of_one_table(self, table: int) -> None:
        """As if the others had not come yet: its rows are shared out."""
        some = [one for one in self.pending if one.binding is self.history.bindings[table]]
        self.pending = [one for one in self.pending if one.binding is not self.history.bindings[table]]
        if some:
            self.planned.plan(some)


TestReplication = Replication.TestCase

TestReplication.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)

TestManyTables = ManyTables.TestCase

TestManyTables.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)

TestTransactions = Transactions.TestCase

TestTransactions.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)

(ACCOUNTS,) = ACCOUNT.bindings()


def test_delete_and_insert_of_one_unique_value_mysql_86078() -> None:
    log = [change(ACCOUNTS, None, (1, "lucy", 0)), change(ACCOUNTS, (1, "lucy", 0), None), change(ACCOUNTS, None, (2, "lucy", 0))]  # fmt: skip  # noqa: E501
    assert together(ACCOUNT, *log)


def test_counter_example_1_an_update_that_leaves_the_value_alone_follows_its_row() -> None:
    """Row 2 was written on row 1's lane, for the sake of `a`; its update takes no lock on `a`, only on its key."""
    log = [
        change(ACCOUNTS, (1, "a", 0), None),
        change(ACCOUNTS, None, (2, "a", 0)),
        change(ACCOUNTS, (2, "a", 0), (2, "a", 1)),
    ]
    for second in range(2, 30):  # some of these would hash to another lane
        log[1:] = [change(ACCOUNTS, None, (second, "a", 0)), change(ACCOUNTS, (second, "a", 0), (second, "a", 1))]
        assert together(ACCOUNT, *log)


def test_counter_example_2_a_move_that_becomes_an_insert_waits_for_the_value() -> None:
    """insert(3,a) was dropped, so at the target the move 3→2 is an insert, which takes `a`."""
    gone, born = change(ACCOUNTS, (1, "a", 0), None), change(ACCOUNTS, None, (2, "a", 0))
    assert together(ACCOUNT, gone, born)


def test_primary_key_chain_over_several_windows_tiflow_10918() -> None:
    assert together(ACCOUNT, change(ACCOUNTS, (2, "b", 0), (3, "b", 0)), change(ACCOUNTS, (1, "a", 0), (2, "a", 0)))


def test_unrelated_rows_spread_over_all_lanes() -> None:
    log = [change(ACCOUNTS, None, (n, f"user {n}", 0)) for n in range(400)]
    made = planned(ACCOUNT, log[:200], log[200:])
    assert made.waits() == 0
    assert all(60 <= lane.rows <= 140 for lane in made.lanes)


def test_few_rows_make_one_batch_and_the_next_ones_take_the_next_lane() -> None:
    windows = [[change(ACCOUNTS, None, (n, f"user {n}", 0)) for n in range(at, at + 50)] for at in range(0, 400, 50)]
    made = planned(ACCOUNT, *windows, min_rows_per_lane=100)
    assert [lane.rows for lane in made.lanes] == [100] * 4
    assert [[len(s.changes) for s in lane.queue] for lane in made.lanes] == [[50, 50]] * 4
    many = [change(ACCOUNTS, None, (n, f"user {n}", 0)) for n in range(200)]
    assert sum(lane.rows > 0 for lane in planned(ACCOUNT, many, min_rows_per_lane=100).lanes) == 2


def test_a_lane_gets_no_longer_segment_than_a_batch_may_be_and_equal_ones() -> None:
    log = [change(ACCOUNTS, None, (n, f"user {n}", 0)) for n in range(25)]
    (lane,) = planned(ACCOUNT, log, lanes=1, batch_rows=10).lanes
    assert [len(segment.changes) for segment in lane.queue] == [9, 9, 7]
    assert [segment.holder.pending_predecessors for segment in lane.queue] == [0, 0, 0]


def test_of_many_tables_those_with_few_rows_stay_whole() -> None:
    """Three tables on two lanes: 40 rows are shared out, twice 6 are not."""
    tables = linked(*(table(name, ("id", "name"), ("id",)) for name in ("few", "some", "many")))
    world = World("three tables", tables, {})
    rows = [
        [change(binding, None, (n, "a")) for n in range(40 if binding.name.table == "many" else 6)]
        for binding in world.bindings()
    ]
    made = planned(world, [one for some in rows for one in some], lanes=2)
    assert [len({made.where(one) for one in some}) for some in rows] == [1, 1, 2]


def test_tables_that_stay_whole_share_the_lanes_that_two_windows_fill_always_the_same() -> None:
    """On all eight they would be batches of a few rows each, and on others now and then, opened by other sessions."""
    tables = linked(*(table(f"table_{n}", ("id", "name"), ("id",)) for n in range(40)))
    world = World("forty tables", tables, {})
    bindings = world.bindings()
    for min_rows_per_lane, lanes in ((0, 8), (400, 2), (300, 4), (200, 4), (100, 8)):
        options = Options(lanes=8, window_rows=400, min_rows_per_lane=min_rows_per_lane)
        assert options.whole_lanes == lanes
        windows = [
            [change(binding, None, (n * 1000 + m, "a")) for binding in bindings for m in range(rows)]
            for n, rows in enumerate((10, 1, 80))
        ]
        made = planned(world, *windows, lanes=8, min_rows_per_lane=min_rows_per_lane, whole_lanes=lanes)
        assert [lane.number for lane in made.lanes if lane.queue] == list(range(lanes))
        for one, other, third in zip(*(window[:: len(window) // 40] for window in windows), strict=True):
            assert made.where(one) == made.where(other) == made.where(third)


FIVE = World("five tables", linked(*(table(f"table_{n}", ("id", "u"), ("id",), [("u",)]) for n in range(5))), {})


def five(count: int = 4, *, first: int = 0, tables: int = 5) -> list[Change]:
    """So many changes of each table, one after the other."""
    return [change(binding, None, (first + n, f"{n}")) for n in range(count) for binding in BINDINGS[:tables]]


BINDINGS = FIVE.bindings()


def made_of(*windows: list[Change], **sizes: int) -> Planned:
    made = Planned(FIVE, BINDINGS, 2, **sizes)
    for window in windows:
        made.plan(window)
    return made


def segments(made: Planned) -> list[Segment]:
    return sorted((s for lane in made.lanes for s in lane.queue), key=lambda s: s.order)


def test_a_lane_that_has_a_table_whole_takes_none_of_its_keys_and_waits_for_nobody() -> None:
    made = made_of(five(), five(first=100))
    assert [s.keys for s in segments(made)] == [[]] * 4 and made.waits() == 0
    assert all(len({made.where(one) for one in five_of}) == 1 for five_of in by_table(made))
    assert len(made.locks) == 5
    for segment in segments(made):
        made.locks.release(segment.holder)
    assert len(made.locks) == 0


def by_table(made: Planned) -> list[list[Change]]:
    changes = [one for s in segments(made) for one in s.changes]
    return [[one for one in changes if one.binding is binding] for binding in BINDINGS]


def test_rows_of_a_table_that_another_lane_has_whole_wait_for_it_once_a_lane() -> None:
    many = [change(BINDINGS[0], None, (n, f"v{n}")) for n in range(100, 140)]
    made = made_of(five(), many)
    first = made.where(by_table(made)[0][0])
    rows = segments(made)[2:]
    assert sorted(s.lane for s in rows) == [0, 1]
    assert {s.lane: s.holder.pending_predecessors for s in rows} == {first: 0, 1 - first: 1}


def test_a_table_with_rows_on_other_lanes_is_not_had_whole() -> None:
    many = [change(BINDINGS[0], None, (n, f"v{n}")) for n in range(100, 140)]
    made = made_of(many, five())
    whole = [s for s in segments(made) if not s.keys]
    assert whole and all(change.binding is not BINDINGS[0] for s in whole for change in s.changes)
    for segment in segments(made)[:2]:
        made.locks.release(segment.holder)
        made.lanes[segment.lane].queue.popleft()
    made.plan(five(first=200))
    assert not segments(made)[-1].keys and not segments(made)[-2].keys


def test_what_was_planned_when_there_were_few_tables_is_waited_out() -> None:
    made = Planned(FIVE, BINDINGS[:2], 2)
    made.plan(five(20, tables=2))
    space = Keyspace()
    for binding in BINDINGS[2:]:
        made.dispatcher.bind(binding, compile_keys(binding, space, FIVE.tables))
    before = segments(made)
    made.plan(five(first=100))
    assert made.locks.without_tables == len(before) and all(s.keys for s in segments(made))


def test_a_table_under_two_shapes_in_one_window_is_not_had_whole() -> None:
    other = bind(BINDINGS[0].target, number=9)
    made = Planned(FIVE, [*BINDINGS, other], 2)
    made.plan([*five(), change(other, None, (100, "v"))])
    of = {change.binding: bool(s.keys) for s in segments(made) for change in s.changes}
    assert of[BINDINGS[0]] and of[other] and not of[BINDINGS[1]]


def test_a_table_that_comes_under_another_shape_is_not_had_whole_by_two_lanes() -> None:
    other = bind(BINDINGS[0].target, number=9)
    made = Planned(FIVE, [*BINDINGS, other], 2)
    made.plan(five())
    first = made.where(by_table(made)[0][0])
    last = [change(other if one.binding is BINDINGS[0] else one.binding, None, one.after) for one in five(first=100)]
    made.plan([one for one in last if one.binding is not BINDINGS[1]])  # so the other lane has fewer, and gets it
    assert any(made.where(one) != first for one in last if one.binding is other)
    behind = [s for s in segments(made) if any(one.binding is other for one in s.changes)]
    assert behind and all(s.lane == first or (s.keys and s.holder.pending_predecessors) for s in behind)


def test_a_lane_has_tables_whole_in_segments_as_long_as_a_batch_may_be() -> None:
    made = made_of(five(7), batch_rows=3)
    assert all(len(s.changes) <= 3 and not s.keys for s in segments(made))
    assert sorted(one.after for s in segments(made) for one in s.changes) == sorted(one.after for one in five(7))


def test_case_insensitive_values_meet_ghost_1285() -> None:
    word, _ = FOLDED.bindings()
    for low, high in (("lucy", "LUCY"), ("a", "a ")):
        assert together(FOLDED, change(word, (low, None, 0), None), change(word, None, (high, None, 0)))


def test_values_that_cannot_be_folded_exactly_wait_for_all() -> None:
    word, _ = FOLDED.bindings()
    plain = [change(word, None, (f"word {n}", None, 0)) for n in range(40)]
    odd = change(word, None, ("ñandú", None, 0))
    made = planned(FOLDED, plain, [odd])
    assert made.lanes[made.where(odd)].queue[-1].holder.pending_predecessors == 3


def test_prefix_index_makes_one_lane_tiflow_3467() -> None:
    (account,) = OPAQUE.bindings()
    log = [change(account, None, (n, f"user {n}", 0)) for n in range(20)]
    assert together(OPAQUE, *log)


def test_a_group_joins_the_lane_that_has_most_of_its_predecessors() -> None:
    (seat,) = TWO_UNIQUES.bindings()
    first = [change(seat, (n, f"u{n}", f"v{n}", 0), None) for n in range(30)]
    made = planned(TWO_UNIQUES, first)
    lane_of = {n: made.where(one) for n, one in enumerate(first)}
    a = 0
    b = next(n for n in lane_of if lane_of[n] == lane_of[a] and n != a)
    other = next(n for n in lane_of if lane_of[n] != lane_of[a])
    last = change(seat, (a, f"u{other}", f"v{b}", 0), (a, f"u{b}", f"v{other}", 1))
    made.plan([last])
    assert made.where(last) == lane_of[a]
    assert made.lanes[lane_of[a]].queue[-1].holder.pending_predecessors == 1


def test_without_locks_rows_only_go_home() -> None:
    """The switch of the one test that shows what the locks are for."""
    log = [change(ACCOUNTS, (1, "a", 0), None)] + [change(ACCOUNTS, None, (n, "a", 0)) for n in range(2, 20)]
    made = Planned(ACCOUNT, [ACCOUNTS], 4, locking=False)
    made.plan(log)
    assert len({made.where(one) for one in log}) > 1 and made.waits() == 0 == len(made.locks)


_PLAN = """
from tests.engine.planned_lanes import Planned
from tests.engine.world import TWO_UNIQUES, change
(seat,) = TWO_UNIQUES.bindings()
made = Planned(TWO_UNIQUES, [seat], 4)
made.plan([change(seat, (n, f"u{n}", f"v{n}", 0), None) for n in range(200)])
made.plan([change(seat, None, (1000 + n, f"u{n}", f"v{(n * 7) % 200}", 0)) for n in range(200)])
print([(l.number, s.order, s.holder.pending_predecessors, [w.order for w in s.holder.successors],
        [c.before or c.after for c in s.changes])
       for l in made.lanes for s in l.queue])
"""


def test_keys_that_share_a_digest_are_ordered() -> None:
    """Python's own collision: that of -1 is that of -2."""
    assert together(ACCOUNT, change(ACCOUNTS, None, (-1, "lucy", 0)), change(ACCOUNTS, None, (-2, "bob", 0)))
    assert not together(ACCOUNT, change(ACCOUNTS, None, (-3, "lucy", 0)), change(ACCOUNTS, None, (-2, "bob", 0)))


def test_the_same_plan_in_every_process() -> None:
    """Hashes of text differ in every process; the plan must not."""
    root = Path(__file__).parents[2]
    plans = {
        subprocess.run(
            [sys.executable, "-c", _PLAN],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
            cwd=root,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(plans) == 1 and b"(3, " in plans.pop()


@pytest.mark.parametrize("lanes", [1, 3, 8])
def test_everything_planned_is_queued_once_in_log_order(lanes: int) -> None:
    log = [change(ACCOUNTS, None, (n, f"user {n % 50}", 0), number=n) for n in range(200)]
    made = planned(ACCOUNT, log[:90], log[90:], lanes=lanes)
    queued = [[c.number for s in lane.queue for c in s.changes] for lane in made.lanes]
    assert all(numbers == sorted(numbers) for numbers in queued)
    assert sorted(itertools.chain.from_iterable(queued)) == list(range(200))
