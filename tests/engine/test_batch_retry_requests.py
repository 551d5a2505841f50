"""Parked rows wanted back: all of a table in one batch, the same batch under the same id until it is answered."""

import msgspec
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

from tests.engine.world import ACCOUNT, FAMILY, Database, History, change, drafts
from tidelock.engine.batch.merge import Ranks
from tidelock.engine.batch.parked_rows import decode_change, parked_row
from tidelock.engine.batch.retry_requests import RetryRequests
from tidelock.engine.log.receipts import NOTHING
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import ParkedKey
from tidelock.engine.protocol.steps import DeleteRows, UpsertRows

NAME = TableName("shop", "account")
(ACCOUNTS,) = ACCOUNT.bindings()
TABLES, RANKS = ACCOUNT.tables, Ranks(ACCOUNT.tables, {})
ONE, TWO, THREE = EffectId(1, 1), EffectId(1, 2), EffectId(1, 3)


def stored(one: Change, n: int, wish: str = "retry") -> ParkedKey:
    row = parked_row(one, "refused", EffectId(1, 0), n)
    return ParkedKey(row.source, row.number, row.ordinal, TableName(row.schema, row.table), row.change, wish)


def parked(
    number: int, before: tuple | None, after: tuple | None, wish: str = "retry", binding: Binding = ACCOUNTS
) -> ParkedKey:
    return stored(change(binding, before, after, number=number), number, wish)


SWAP = (parked(1, (1, "a", 0), (1, "b", 0)), parked(2, (2, "b", 0), (2, "a", 0)))


def test_counter_example_15_both_rows_of_a_swap_go_in_one_batch() -> None:
    """One of them alone never succeeds."""
    retries = RetryRequests()
    retries.add(SWAP[::-1])
    batch = retries.start(ONE, TABLES, RANKS)
    delete, upsert = batch.steps
    assert isinstance(delete, DeleteRows) and delete.keys == [(1,), (2,)]
    assert isinstance(upsert, UpsertRows) and upsert.rows == [(1, "b", 0), (2, "a", 0)]
    assert (batch.id, batch.covered, batch.rows, batch.parked) == (ONE, NOTHING, 0, ())
    assert batch.unparked == (("0-1", 1, 0), ("0-1", 2, 0))


def untried(number: int) -> ParkedKey:
    row = parked_row(change(ACCOUNTS, None, (number, None, 0), number=number), "", EffectId(1, 0), number, untried=True)
    return ParkedKey(row.source, row.number, row.ordinal, NAME, row.change, "retry")


def test_untried_rows_that_are_refused_are_split_until_the_bad_one_stands_alone() -> None:
    retries = RetryRequests()
    retries.add([untried(n) for n in (1, 2, 3)])
    batch = retries.start(ONE, TABLES, RANKS)
    assert len(batch.unparked) == 3 and retries.split()
    batch = retries.start(TWO, TABLES, RANKS)
    assert batch.id == TWO and batch.unparked == (("0-1", 1, 0),)
    assert not retries.split(), "it stands alone"
    retries.refuse(THREE, "bad")
    retries.finish()
    assert retries.start(ONE, TABLES, RANKS).unparked == (("0-1", 2, 0), ("0-1", 3, 0))


def test_what_an_operator_wants_back_is_not_split() -> None:
    retries = RetryRequests()
    retries.add([*SWAP, untried(3)])
    retries.start(ONE, TABLES, RANKS)
    assert not retries.split()


@given(some=drafts(12, 3), first=drafts(6))
def test_all_parked_rows_of_a_table_end_where_the_log_ends(some: list, first: list) -> None:
    history = History(ACCOUNT)
    for draft in first:
        history.take(draft)
    target, begun = history.database, len(history.log)
    for draft in some:
        history.take(draft)
    rows = [stored(c, n) for n, c in enumerate(history.log[begun:])]
    retries = RetryRequests()
    retries.add(rows[::-1])
    if rows:
        target.run(retries.start(ONE, TABLES, RANKS).steps)
        retries.finish()
    assert target.content() == history.database.content()
    assert not retries


def test_skipping_writes_no_row() -> None:
    retries = RetryRequests()
    retries.add([parked(1, None, (1, "a", 0), wish="skip")])
    batch = retries.start(ONE, TABLES, RANKS)
    assert batch.steps == [] and batch.unparked == (("0-1", 1, 0),)


def test_a_row_without_a_wish_stays() -> None:
    retries = RetryRequests()
    retries.add([parked(1, None, (1, "a", 0), wish="")])
    assert not retries


def test_tables_and_wishes_go_apart_one_after_another() -> None:
    mother, _ = FAMILY.bindings()
    retries = RetryRequests()
    retries.add([parked(1, None, (1, "a", 0), binding=mother), parked(2, None, (2, "b", 0)), parked(3, None, (3, "c", 0), "skip")])  # fmt: skip  # noqa: E501
    tables = {**TABLES, **FAMILY.tables}
    seen = []
    while retries:
        batch = retries.start(EffectId(1, len(seen)), tables, Ranks(tables, {}))
        seen.append([number for _, number, _ in batch.unparked])
        assert retries.finish() == list(batch.unparked)
    assert seen == [[2], [3], [1]]


def test_a_wish_read_twice_is_carried_out_once() -> None:
    retries = RetryRequests()
    retries.add(SWAP)
    retries.add(SWAP)
    retries.start(ONE, TABLES, RANKS)
    retries.add(SWAP)
    retries.finish()
    assert not retries
    retries.add(SWAP[:1])
    assert retries, "a new wish for a row that was parked anew"


def test_counter_example_4_in_doubt_the_identical_batch_goes_again() -> None:
    """Under another id its receipt could not answer, and the rows would be written twice."""
    retries = RetryRequests()
    retries.add(SWAP)
    batch = retries.start(ONE, TABLES, RANKS)
    assert retries.running and retries.answers(ONE) and not retries.answers(TWO)
    retries.again()
    assert not retries.running and not retries.answers(ONE)
    again = retries.start(TWO, TABLES, RANKS)
    assert again is batch and again.id == ONE and retries.answers(ONE)
    retries.finish()
    retries.add(SWAP)
    assert retries.start(THREE, TABLES, RANKS).id == THREE


def test_a_batch_that_fails_leaves_its_rows_parked_with_the_new_error() -> None:
    retries = RetryRequests()
    retries.add(SWAP)
    retries.start(ONE, TABLES, RANKS)
    refused = retries.refuse(TWO, "duplicate key")
    assert refused.id == TWO and refused.steps == [] == list(refused.unparked)
    assert [(p.number, p.table, p.error) for p in refused.parked] == [(1, "account", "duplicate key"), (2, "account", "duplicate key")]  # fmt: skip  # noqa: E501
    assert decode_change(refused.parked[0].change) == decode_change(SWAP[0].change)
    assert retries.answers(TWO) and not retries.answers(ONE)
    retries.again()
    assert retries.start(THREE, TABLES, RANKS) is refused, "the new error too is written once"
    assert retries.finish() == [], "nothing was released"
    retries.add(SWAP)
    assert retries, "the operator may wish again"


def test_rows_of_a_table_that_is_gone_or_changed_are_refused() -> None:
    retries = RetryRequests()
    retries.add([parked(1, None, (1, "a", 0))])
    batch = retries.start(ONE, {}, Ranks({}, {}))
    assert batch.steps == [] and "has no table shop.account" in batch.parked[0].error
    assert retries.answers(ONE) and retries.finish() == []
    retries.add([parked(1, None, (1, "a", 0), binding=FAMILY.bindings()[0])])
    narrow = {TableName("shop", "mother"): FAMILY.tables[TableName("shop", "child")]}
    batch = retries.start(TWO, narrow, Ranks(narrow, {}))
    assert "has no column u, note" in batch.parked[0].error


def test_rows_go_in_the_order_they_were_parked() -> None:
    """Not by their places: two sources, and the second's transaction came first."""
    rows = [
        stored(change(ACCOUNTS, None, (1, "a", 0), number=9, source="0-2"), 0),
        stored(change(ACCOUNTS, (1, "a", 0), (1, "b", 0), number=1, source="0-1"), 1),
    ]
    retries = RetryRequests()
    retries.add(rows[::-1])
    (upsert,) = retries.start(ONE, TABLES, RANKS).steps
    assert upsert.rows == [(1, "b", 0)] and upsert.fresh


def test_only_what_is_to_be_tried_again_has_places() -> None:
    retries = RetryRequests()
    retries.add([parked(1, None, (1, "a", 0)), parked(2, None, (2, "b", 0), "skip")])
    assert retries.places == [("0-1", 1, 0)]
    retries.start(ONE, TABLES, RANKS)
    retries.refuse(TWO, "duplicate key")
    assert retries.places == []
    retries.finish()
    assert retries.places == [], "a skip looks at nothing"


def test_a_model_target_survives_a_swap_retried() -> None:
    target = Database(ACCOUNT)
    target.rows[NAME] = [(1, "a", 0), (2, "b", 0)]
    retries = RetryRequests()
    retries.add(SWAP)
    target.run(retries.start(ONE, TABLES, RANKS).steps)
    assert sorted(target.rows[NAME]) == [(1, "b", 0), (2, "a", 0)]


# ------------------------------------------------------------------ wishes, lost answers, refusals

BOTH = {"account": ACCOUNTS, "mother": FAMILY.bindings()[0]}
BOTH_TABLES = TABLES | FAMILY.tables
BOTH_RANKS = Ranks(BOTH_TABLES, {})


class Wishes(RuleBasedStateMachine):
    """An operator wishes for parked rows, batches go to a target whose answers may be lost.

    The naive side is that target: what is parked there, and which batches it has committed.  `queue`: the groups of
    rows still to be tried or skipped; a refused one stands in it, empty, until its new error is written.
    """

    @initialize(accounts=st.integers(1, 4), mothers=st.integers(0, 2))
    def start(self, accounts: int, mothers: int) -> None:
        self.retries = RetryRequests()
        self.parked: list[ParkedKey] = []
        for name, count in (("account", accounts), ("mother", mothers)):
            for _ in range(count):
                n = len(self.parked)
                self.parked.append(stored(change(BOTH[name], None, (n, None, 0), number=90 - n), n, ""))
        self.rows = {self.place(row): row for row in self.parked}
        self.order = {place: n for n, place in enumerate(self.rows)}
        self.errors: dict[tuple, str] = {}
        self.done: list[tuple] = []
        self.committed: list[EffectId] = []
        self.queue: list[tuple[str, list[tuple]]] = []  # wish, places
        self.sent: EffectId | None = None  # what the target may have committed, or is to be asked again
        self.running = False
        self.ids = 0

    def place(self, row: ParkedKey) -> tuple:
        return row.source, row.number, row.ordinal

    def new_id(self) -> EffectId:
        self.ids += 1
        return EffectId(1, self.ids)

    @rule(
        picks=st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True),
        wish=st.sampled_from(["retry", "retry", "skip"]),
        read=st.sampled_from(["once", "twice", "backwards"]),
    )
    def wish_for(self, picks: list[int], wish: str, read: str) -> None:
        """Rows that wait already, or run, are not taken again; each table goes in a group of its own."""
        rows = [self.parked[n] for n in picks if n < len(self.parked)]
        told = [msgspec.structs.replace(row, wish=wish) for row in rows]
        waiting = [place for _, places in self.queue for place in places]
        for name in sorted(BOTH):
            of = [self.place(r) for r in rows if r.table.table == name and self.place(r) not in waiting]
            if of:
                self.queue.append((wish, sorted(of, key=self.order.__getitem__)))
        self.retries.add(told[::-1] if read == "backwards" else told)
        if read == "twice":
            self.retries.add(told)

    @rule(pick=st.integers(0, 5))
    def park_anew(self, pick: int) -> None:
        """Parks rows again that were done: an operator asked for a rewind, say."""
        over = [place for place in self.done if not self.waits(place)]
        if over:
            place = over[pick % len(over)]
            self.done.remove(place)
            self.parked.append(self.rows[place])

    @precondition(lambda self: self.queue and not self.running)
    @rule()
    def send(self) -> None:
        wish, places = self.queue[0]
        assert self.retries.places == (places if wish == "retry" else [])
        id_ = self.new_id()
        batch = self.retries.start(id_, BOTH_TABLES, BOTH_RANKS)
        assert batch.id == (self.sent or id_), "sent before: the identical batch, so that its receipt can answer"
        self.running, self.sent = True, batch.id
        assert list(batch.unparked) == places and batch.covered == NOTHING
        written = [row for step in batch.steps for row in step.rows]
        images = [self.image(place) for place in places] if wish == "retry" else []
        assert sorted(written) == sorted(images), "all of the group, and nothing where it is to be forgotten"

    def image(self, place: tuple) -> tuple:
        (row,) = (row for row in self.parked if self.place(row) == place)
        return decode_change(row.change).after

    @precondition(lambda self: self.running)
    @rule(how=st.sampled_from(["committed", "committed", "answer lost", "not committed", "refused"]))
    def the_target(self, how: str) -> None:
        """Commits, or not; a batch that it committed before it knows by its receipt."""
        again = self.sent in self.committed
        for old in range(1, self.ids + 3):
            assert self.retries.answers(EffectId(1, old)) is (old == self.sent.counter)
        if how == "refused" and not again and self.queue[0][1]:
            self.refuse()
            return
        if how != "not committed" and not again:
            self.commit()
        self.running = False
        if how == "committed":
            assert self.retries.finish() == self.queue.pop(0)[1]
            self.sent = None
        else:
            self.retries.again()

    def commit(self) -> None:
        self.committed.append(self.sent)
        places = self.queue[0][1]
        self.done += places
        if not places:
            self.errors |= self.refused

    def refuse(self) -> None:
        """Its rows stay parked, and may be wished for again; what runs now writes their new error."""
        _, places = self.queue[0]
        self.sent = self.new_id()
        batch = self.retries.refuse(self.sent, f"refused by {self.sent.counter}")
        assert [(r.source, r.number, r.ordinal) for r in batch.parked] == places and not batch.steps
        assert list(batch.unparked) == []
        self.refused = {place: r.error for place, r in zip(places, batch.parked, strict=True)}
        self.queue[0] = ("", [])

    @rule()
    def come_to_rest(self) -> None:
        while self.queue:
            if not self.running:
                if self.queue[0][1] or self.sent is None:
                    self.send()
                else:
                    assert self.retries.start(self.new_id(), BOTH_TABLES, BOTH_RANKS).id == self.sent
                    self.running = True
            self.the_target("committed")
        assert not self.retries

    @invariant()
    def each_row_is_tried_until_it_is_done_and_not_again(self) -> None:
        assert bool(self.retries) is bool(self.queue)
        assert self.retries.running is self.running
        assert len(self.done) == len(set(self.done)), "no row is written twice"
        self.parked = [row for row in self.parked if self.place(row) not in self.done or self.waits(self.place(row))]

    def waits(self, place: tuple) -> bool:
        return any(place in places for _, places in self.queue)


TestWishes = Wishes.TestCase
TestWishes.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, derandomize=True, report_multiple_bugs=False
)


@pytest.mark.proof
def test_wishes_at_length() -> None:
    run_state_machine_as_test(Wishes, settings=settings(max_examples=4000, stateful_step_count=40, deadline=None))
