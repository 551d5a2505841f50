"""Rows set aside, what is blocked by them, and what a new owner makes of them."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.engine.world import ACCOUNT, COMPOSITE, FOLDED, KEYLESS, World, change, comparable, shape_of
from tidelock.engine.batch.parked_rows import BLOCKED, ParkedChange, ParkedRows, decode_change, parked_row
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Equality
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import ParkedKey

(ACCOUNTS,) = ACCOUNT.bindings()
WORDS, _ = FOLDED.bindings()
ID = EffectId(3, 9)
NUMBERS = st.integers(-(2**63), 2**64 - 1)
VALUES = st.one_of(st.none(), NUMBERS, st.text(max_size=5), st.binary(max_size=5), st.floats(allow_nan=False))
ROWS = st.none() | st.tuples(VALUES, VALUES, VALUES)
MOVES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.booleans()), max_size=20)


def at(number: int, before: tuple | None, after: tuple | None) -> Change:
    return change(ACCOUNTS, before, after, number=number, ordinal=2)


def place(number: int) -> tuple[str, int, int]:
    return ("0-1", number, 2)


def parked_rows(*parked: Change) -> ParkedRows:
    made = ParkedRows()
    for one in parked:
        made.park(one)
    return made


def test_what_is_parked_for_some_rows() -> None:
    made = parked_rows(at(1, (1, "a", 0), (1, "b", 0)), at(2, (1, "b", 0), None), at(3, None, (2, "a", 0)))
    table = ACCOUNTS.target
    assert made.of_rows(table, [(1,), (3,)]) == [place(1), place(2)]
    assert made.of_rows(table, [(9,)]) == [] and ParkedRows().of_rows(table, [(1,)]) == []


def test_what_is_parked_for_some_rows_and_for_others_cannot_be_told_apart() -> None:
    made = parked_rows(at(1, (1, "a", 0), (2, "a", 0)))
    assert made.of_rows(ACCOUNTS.target, [(1,)]) is None
    assert made.of_rows(ACCOUNTS.target, [(1,), (2,)]) == [place(1)]


def test_a_parked_row_whose_key_does_not_fold_may_be_any() -> None:
    table = WORDS.target
    assert parked_rows(word(1, "é")).of_rows(table, [("a",)]) is None
    assert parked_rows(word(1, "a")).of_rows(table, [("é",)]) is None
    assert parked_rows(word(1, "a")).of_rows(table, [("A",)]) == [place(1)]
    assert ParkedRows().of_rows(table, [("é",)]) == []


def word(number: int, name: str) -> Change:
    return change(WORDS, None, (name, None, 0), number=number, ordinal=2)


def stored(one: Change, n: int = 0) -> ParkedKey:
    """As a new owner reads it."""
    row = parked_row(one, "refused", ID, n)
    return ParkedKey(row.source, row.number, row.ordinal, TableName(row.schema, row.table), row.change)


@given(ROWS, ROWS.filter(bool))
def test_a_parked_change_can_be_retried_without_the_log(before: tuple | None, after: tuple) -> None:
    row = parked_row(at(9, before, after), "refused", ID, 4)
    assert decode_change(row.change) == ParkedChange(shape_of(ACCOUNTS.target), before, after, (3, 9, 4))


def test_what_is_stored_of_a_parked_row() -> None:
    parked = parked_row(at(9, (1, "a", 0), (2, "b", 0)), "duplicate key", ID, 0)
    assert (parked.source, parked.number, parked.ordinal) == ("0-1", 9, 2)
    assert (parked.schema, parked.table, parked.error, parked.key) == ("shop", "account", "duplicate key", "id=2")
    assert parked_row(at(9, (1, "a", 0), None), "", ID, 0).key == "id=1"


def test_a_key_is_spelled_for_people() -> None:
    (place,), visit = COMPOSITE.bindings(), KEYLESS.bindings()[0]
    assert parked_row(change(place, None, (1, 2, "a", "x")), "", ID, 0).key == "id=1, w=2"
    assert parked_row(change(visit, (3, "n" * 99), None), "", ID, 0).key == "id=3, note=" + "n" * 60


def test_later_changes_of_a_parked_row_are_held() -> None:
    held = parked_rows(at(1, None, (1, "a", 0)))
    assert held.holds(at(2, (1, "a", 0), (1, "b", 0)))
    assert held.holds(at(2, (3, "a", 0), (1, "b", 0))), "and one that moves there"
    assert not held.holds(at(2, (2, "a", 0), None))
    assert not held.holds(change(COMPOSITE.bindings()[0], None, (1, 1, "a", "x"))), "another table"
    assert place(1) in held and place(2) not in held and len(held) == 1


def test_a_row_that_moved_is_held_under_both_keys() -> None:
    held = parked_rows(at(1, (1, "a", 0), (2, "a", 0)))
    assert held.holds(at(2, None, (1, "z", 0))) and held.holds(at(2, (2, "a", 0), None))


@given(st.text("aAé b", max_size=3), st.text("aAé b", max_size=3))
def test_rows_are_the_same_if_the_targets_key_says_so_ghost_1285(one: str, other: str) -> None:
    equality = WORDS.target.columns[0].equality
    if comparable(one, equality) == comparable(other, equality) or not (one + other).isascii():
        assert parked_rows(word(1, one)).holds(word(2, other))
    else:
        assert not parked_rows(word(1, one)).holds(word(2, other))


def test_what_follows_from_row_to_row_is_sifted() -> None:
    bad, moved, after, free = (
        at(1, None, (1, "a", 0)),
        at(2, (1, "a", 0), (2, "a", 0)),
        at(3, (2, "a", 0), None),
        at(4, None, (3, "c", 0)),
    )
    empty = ParkedRows()
    run, parked = empty.sift([bad, moved, after, free], {bad: "refused"})
    assert run == [free]
    assert parked == [(bad, "refused"), (moved, BLOCKED), (after, BLOCKED)]
    assert len(empty) == 0, "parked once the batch commits, not before"
    assert parked_rows(bad).sift([after, moved], {}) == ([after], [(moved, BLOCKED)])


def test_a_change_before_the_bad_one_runs() -> None:
    before, bad = at(1, None, (1, "a", 0)), at(2, (1, "a", 0), (1, "b", 0))
    assert ParkedRows().sift([before, bad], {bad: "refused"}) == ([before], [(bad, "refused")])


def test_a_batch_sent_again_parks_the_same_places() -> None:
    held = parked_rows(at(1, None, (1, "a", 0)), at(1, None, (1, "a", 0)))
    assert len(held) == 1
    held.release([place(1)])
    assert len(held) == 0 and not held.holds(at(2, (1, "a", 0), None))
    words = parked_rows(word(1, "a"), word(1, "a"))
    words.release([place(1)])
    assert not words.holds(word(2, "é")), "nothing of the table is parked, whatever the key may be"


def test_a_row_is_free_when_its_last_parked_change_is() -> None:
    held = parked_rows(at(1, None, (1, "a", 0)), at(2, (1, "a", 0), (2, "a", 0)))
    held.release([place(1), ("0-9", 9, 9)])
    assert held.holds(at(3, (1, "b", 0), None)) and held.holds(at(3, (2, "b", 0), None))
    held.release([place(2)])
    assert not held.holds(at(3, (1, "b", 0), None)) and not held.holds(at(3, (2, "b", 0), None))


@pytest.mark.parametrize("world", [ACCOUNT, COMPOSITE, KEYLESS, FOLDED], ids=lambda w: w.name)
def test_a_new_owner_holds_what_the_target_says_is_parked(world: World) -> None:
    binding = world.bindings()[0]
    width = len(binding.shape.columns)
    rows = [tuple(f"{name}{i}" for i in range(width)) for name in "xyz"]
    one = change(binding, rows[0], rows[1], number=5, ordinal=2)
    held = ParkedRows()
    held.load([stored(one)], world.tables)
    for row, is_held in zip(rows, (True, True, False), strict=True):
        assert held.holds(change(binding, row, None)) is is_held
    assert len(held) == 1
    held.release([place(5)])
    assert not held.holds(change(binding, rows[0], None))


def test_a_row_parked_under_another_key_may_be_any_primary_key_changed_tiflow_10890() -> None:
    """The table's key was changed since: its new key columns are not in what was parked."""
    narrow = change(KEYLESS.bindings()[0], None, (1, 0))
    row = parked_row(narrow, "", ID, 0)
    held = ParkedRows()
    held.load([ParkedKey("0-1", 5, 2, TableName("shop", "place"), row.change)], COMPOSITE.tables)
    assert held.holds(change(COMPOSITE.bindings()[0], None, (7, 7, "a", "x")))


def test_without_a_key_a_row_parked_under_other_columns_may_be_any() -> None:
    visit = KEYLESS.bindings()[0]
    other = change(visit, (2, "z"), None, number=9)
    held = parked_rows(change(visit, None, (1, "n")))
    assert not held.holds(other)
    held.widen(visit.name)
    assert held.holds(other) and len(held) == 1


def test_a_change_that_follows_one_that_stays_parked() -> None:
    """Retried alone it would be written before what it stands on."""
    first, second, other = at(1, None, (1, "a", 0)), at(2, (1, "a", 0), (2, "a", 0)), at(3, None, (3, "c", 0))
    held = parked_rows(first, second, other)
    assert held.follows([place(2)])
    assert not held.follows([place(1)]) and not held.follows([place(1), place(2)]) and not held.follows([place(3)])
    held.release([place(1)])
    assert not held.follows([place(2)])


@pytest.mark.parametrize(("one", "other"), [("é", "e"), ("e", "é"), ("a", "A")])
def test_a_key_that_may_be_any_row_is_followed_by_all(one: str, other: str) -> None:
    assert parked_rows(word(1, one), word(2, other)).follows([place(2)])
    assert not parked_rows(word(1, one), word(2, other)).follows([place(1)])


def test_the_order_of_parking_is_kept_over_a_takeover() -> None:
    """Places in the log do not tell it, where transactions come from several sources."""
    late, early = at(1, None, (1, "a", 0)), at(2, None, (1, "b", 0))
    held = ParkedRows()
    held.load([stored(late, n=1), stored(early, n=0)], ACCOUNT.tables)
    assert held.follows([place(1)]) and not held.follows([place(2)])


@given(MOVES)
def test_held_is_exactly_what_a_parked_change_touches(moves: list) -> None:
    held, parked = ParkedRows(), {}
    for number, (one, other, free) in enumerate(moves):
        if free and parked:
            gone = next(iter(parked))
            del parked[gone]
            held.release([place(gone)])
        else:
            parked[number] = {one, other}
            held.park(at(number, (one, "a", 0), (other, "a", 0)))
        for key in range(1, 5):
            assert held.holds(at(99, (key, "q", 9), None)) == any(key in keys for keys in parked.values())


# ------------------------------------------------------------------ parked, blocked, released, read back

TABLES = ACCOUNT.tables | FOLDED.tables | KEYLESS.tables
BINDINGS = {"account": ACCOUNTS, "word": WORDS, "visit": KEYLESS.bindings()[0]}
KEYS = {"account": [1, 2], "word": ["a", "A ", "b", "á"], "visit": [1, 2]}
CHANGES = [
    (table, before, after)
    for table, keys in KEYS.items()
    for before in (None, *keys)
    for after in (None, *keys)
    if before is not None or after is not None
]


class Parked(msgspec.Struct, frozen=True):
    place: tuple[str, int, int]
    table: str
    keys: tuple[object, ...]

    def may_be_a_row_of(self, other: "Parked") -> bool:
        """One key of each may be the same; what is not plain ASCII may be any key of its table."""
        return self.table == other.table and any(
            comparable(a, Equality.FOLDED_PADDED) == comparable(b, Equality.FOLDED_PADDED)
            or any(isinstance(k, str) and not k.isascii() for k in (a, b))
            for a in self.keys
            for b in other.keys
        )


class Lot(RuleBasedStateMachine):
    """Changes come by in log order; some are refused and parked, what follows them too, until they are released.

    The naive side is the list of the parked ones in order.
    """

    @initialize()
    def start(self) -> None:
        self.parked_rows = ParkedRows()
        self.parked: list[Parked] = []
        self.stored: dict[tuple[str, int, int], ParkedKey] = {}
        self.batches = 0
        self.number = 0

    def come(self, table: str, before: object, after: object) -> tuple[Change, Parked]:
        """The next change of the log; numbers fall, as where a source's numbers follow another's."""
        self.number -= 1
        images = [
            key if key is None else ((key, None, 0) if table != "visit" else (key, 0)) for key in (before, after)
        ]
        one = change(BINDINGS[table], *images, number=1000 + self.number)
        return one, Parked((one.source, one.number, 0), table, tuple(k for k in (before, after) if k is not None))

    def blocked(self, one: Parked, ahead: Sequence[Parked] = ()) -> bool:
        return any(one.may_be_a_row_of(other) for other in (*self.parked, *ahead))

    @rule(
        those=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=5),
        bad=st.lists(st.integers(0, 4), max_size=2),
        new_owner=st.booleans(),
    )
    def a_batch(self, those: list, bad: list[int], new_owner: bool) -> None:
        """Some of it is refused; then perhaps another owner takes over and reads what is parked in any order."""
        batch = [self.come(*one) for one in those]
        refused = {batch[n][0]: "refused" for n in sorted(set(bad)) if n < len(batch)}
        for one, as_parked in batch:
            assert self.parked_rows.holds(one) is self.blocked(as_parked)
        run, parked = self.parked_rows.sift([one for one, _ in batch], refused)
        want_run, want_parked = [], []
        for one, as_parked in batch:
            if one in refused or self.blocked(as_parked, [p for _, p, _ in want_parked]):
                want_parked.append((one, as_parked, refused.get(one, BLOCKED)))
            else:
                want_run.append(one)
        assert run == want_run and parked == [(one, error) for one, _, error in want_parked]
        self.batches += 1
        for n, (one, as_parked, error) in enumerate(want_parked):
            self.parked_rows.park(one)
            self.parked.append(as_parked)
            row = parked_row(one, error, EffectId(1, self.batches), n)
            self.stored[as_parked.place] = ParkedKey(
                row.source, row.number, row.ordinal, TableName(row.schema, row.table), row.change
            )
        if new_owner:
            self.parked_rows = ParkedRows()
            self.parked_rows.load(sorted(self.stored.values(), key=lambda row: row.number), TABLES)

    @rule(picks=st.lists(st.integers(0, 9), min_size=1, max_size=3))
    def release(self, picks: list[int]) -> None:
        """Retried or skipped; refused before, if one of them comes after another of its row that would stay."""
        own = [self.parked[n % len(self.parked)] for n in picks if self.parked]
        stay = [one for one in self.parked if one not in own]
        follows = any(
            one.may_be_a_row_of(other)
            for one in own
            for other in stay
            if self.parked.index(other) < self.parked.index(one)
        )
        places = [one.place for one in own]
        assert self.parked_rows.follows(places) is follows
        self.parked_rows.release(places)
        self.parked = stay
        for place in places:
            self.stored.pop(place, None)

    @invariant()
    def as_many_as_are_parked(self) -> None:
        assert len(self.parked_rows) == len(self.parked)
        assert all(one.place in self.parked_rows for one in self.parked)


TestLot = Lot.TestCase
TestLot.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None, derandomize=True, report_multiple_bugs=False
)


@pytest.mark.proof
def test_a_lot_at_length() -> None:
    run_state_machine_as_test(Lot, settings=settings(max_examples=4000, stateful_step_count=40, deadline=None))
