"""Changes of several origins are planned in groups of one each, which keep the order of what shares a key."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.world import ACCOUNT, change
from tidelock.engine.apply.machine import ApplyMachine, Options
from tidelock.engine.apply.window_planner import origins_of, seen_of
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Position, RowChange, Transaction
from tidelock.engine.parallel.provenance import groups, least, runs
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.events import BatchCommitted, LogArrived, TakenOver
from tidelock.simulations.catalogue import BY_NAME, linked, shape
from tidelock.simulations.scenario import position

(ACCOUNTS,) = ACCOUNT.bindings()
(TABLE,) = BY_NAME["account"]
NORTH, SOUTH = Origin(("north", "hub")), Origin(("south", "hub"))
PLACES = st.sampled_from([None, NORTH, SOUTH])
KEYS = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=3)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.lists(st.tuples(PLACES, KEYS), max_size=14))
def test_groups_have_one_origin_and_keep_the_order_of_what_conflicts(told: list) -> None:
    changes = [change(ACCOUNTS, None, (n, None, 0), number=n) for n in range(len(told))]
    origins = {("0-1", n): origin for n, (origin, _) in enumerate(told) if origin is not None}
    keys = [[(key.encode(), alone) for key, alone in own] for _, own in told]
    made = groups(changes, origins, keys)
    assert all(origin == told[one.number][0] for origin, group in made for one in group)
    order = [one.number for _, group in made for one in group]
    assert sorted(order) == list(range(len(told)))
    for at, later in enumerate(order):
        for earlier in order[at + 1 :]:
            free = all(a != b or not (x or y) for a, x in keys[earlier] for b, y in keys[later])
            assert earlier > later or free, f"{earlier} and {later} share a key"
    if not any(keys):
        assert len(made) <= 3, "what shares nothing makes one group for each origin"


def test_whole_transactions_are_cut_where_the_origin_changes() -> None:
    changes = [change(ACCOUNTS, None, (n, None, 0), number=n // 2) for n in range(8)]
    made = runs(changes, {("0-1", 1): NORTH, ("0-1", 2): NORTH})
    assert [(origin, [one.number for one in run]) for origin, run in made] == [
        (None, [0, 0]), (NORTH, [1, 1, 2, 2]), (None, [3, 3])
    ]  # fmt: skip


def place(offset: int, proof: str = "") -> Position:
    return Position("log.000001", offset, proof=proof)


def test_what_was_seen_is_the_least_of_a_window_and_nothing_where_that_is_not_known() -> None:
    def batch(seen: Position | None, *rows: int) -> LogBatch:
        return LogBatch(place(0), place(1), tuple(Transaction("0-1", n, 0) for n in rows), seen=seen)

    assert seen_of([batch(place(9), 1), batch(place(7), 2), batch(None)]) == place(7)
    assert seen_of([batch(place(9), 1), batch(None, 2)]) is None
    assert least([]) is None


class Feed:
    """A machine of two lanes with the table `account`, told transactions of one row each, with their origins."""

    def __init__(self, atomic: bool = False) -> None:
        self.machine = ApplyMachine(Options(lanes=2, atomic=atomic, checkpoint_us=10**12, idle_checkpoint_us=10**12))
        self.machine.step(0, [TakenOver(1, position(0), tables=linked(TABLE))])
        self.number = 0

    def tell(self, *told: tuple[int, Origin | None], seen: Position | None = None) -> list[ApplyBatch]:
        origins = (NORTH, SOUTH)
        rows, transactions = [], []
        first = self.number
        for key, origin in told:
            self.number += 1
            number = 0 if origin is None else origins.index(origin) + 1
            transactions.append(Transaction("0-1", self.number, len(rows), origin=number))
            rows.append(RowChange(0, None, (key, str(self.number), ""), 0))
        shapes = {} if first else {0: shape(TABLE)}
        batch = LogBatch(
            position(first), position(self.number), tuple(transactions), tuple(rows), shapes,
            resent=not first, origins=origins, seen=seen,
        )  # fmt: skip
        return self.sent(LogArrived([batch]))

    def sent(self, event: object) -> list[ApplyBatch]:
        effects = self.machine.step(0, [event])
        while self.machine.planning_deferred:
            effects += self.machine.step(0, [])
        return [effect for effect in effects if isinstance(effect, ApplyBatch)]

    def drain(self, sent: list[ApplyBatch]) -> list[ApplyBatch]:
        done: list[ApplyBatch] = []
        while sent:
            done.append(sent.pop(0))
            sent += self.sent(BatchCommitted(done[-1].id))
        return done


def test_a_batch_has_one_origin_and_changes_of_one_row_keep_their_order() -> None:
    feed = Feed()
    told = [(1, None), (2, NORTH), (1, SOUTH), (3, None), (2, None), (1, NORTH)]
    done = feed.drain(feed.tell(*told, seen=place(40)))
    assert sum(batch.rows for batch in done) == len(told)
    assert {batch.origin for batch in done} == {None, NORTH, SOUTH} and {batch.seen for batch in done} == {place(40)}
    written = [batch.origin for batch in done if any((r[0], r[2]) == (1, "") for s in batch.steps for r in s.rows)]
    assert written == [None, SOUTH, NORTH]


def test_later_windows_of_another_origin_do_not_join_a_batch() -> None:
    feed = Feed()
    sent = feed.tell((1, NORTH))
    assert not feed.tell((1, SOUTH), seen=place(9)) and not feed.tell((1, SOUTH)), "they wait for the row"
    done = feed.drain(sent)
    assert [(batch.origin, batch.rows) for batch in done] == [(NORTH, 1), (SOUTH, 2)]
    assert done[1].seen is None, "nobody knows what the last one had seen"


def test_what_a_feed_of_one_site_sends_has_no_origin() -> None:
    (batch,) = Feed().tell((1, None), (1, None))
    assert (batch.origin, batch.seen, batch.rows) == (None, None, 2)
    assert origins_of([LogBatch(place(0), place(1))]) == {}
