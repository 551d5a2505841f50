"""Receipts say which rows are at the target, and the fence keeps them from being applied again."""

import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.engine.world import ACCOUNT, change
from tidelock.engine.log.receipts import NOTHING, Fence, ReceiptBuilder, decode, encode, end_of, furthest
from tidelock.engine.model.lineage import Proof
from tidelock.engine.model.lineage import encode as proven
from tidelock.engine.model.records import Position
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import Receipt

(ACCOUNTS,) = ACCOUNT.bindings()
PLACES = st.tuples(st.sampled_from(["0-1", "0-2", "bin.000007"]), st.integers(0, 2**63), st.integers(0, 5))


def at(place: tuple[str, int, int]) -> Change:
    source, number, ordinal = place
    return change(ACCOUNTS, None, (1, "a", 0), ordinal=ordinal, number=number, source=source)


@given(st.lists(PLACES, unique=True))
def test_what_is_encoded_is_decoded_in_any_order(places: list) -> None:
    assert sorted(decode(encode(places))) == sorted(places)


@given(st.lists(PLACES, unique=True), st.randoms())
def test_the_bytes_do_not_depend_on_the_order_within_a_source(places: list, random) -> None:
    by_source = sorted(places, key=lambda p: p[0])
    mixed = sorted(random.sample(places, len(places)), key=lambda p: p[0])
    assert encode(by_source) == encode(mixed)


def test_a_receipt_is_small() -> None:
    rows = [("0-101", 1_000_000_000 + n, 0) for n in range(1000)]
    assert len(encode(rows)) < 3 * 1000


def test_nothing_covers_nothing() -> None:
    assert decode(NOTHING) == [] == decode(encode([]))
    assert msgspec.msgpack.decode(NOTHING) == {}


@given(st.lists(st.lists(PLACES, max_size=4), max_size=6), st.lists(PLACES, max_size=12, unique=True), st.data())
def test_a_fence_drops_each_covered_row_once_and_tells_when_a_receipt_is_spent(
    receipts: list, log: list, data: st.DataObject
) -> None:
    seen: set = set()
    apart = [[p for p in dict.fromkeys(r) if not (p in seen or seen.add(p))] for r in receipts]
    fence = Fence(Receipt(EffectId(1, n), encode(places)) for n, places in enumerate(apart))
    assert fence.empty == [EffectId(1, n) for n, places in enumerate(apart) if not places]
    assert len(fence) == len(seen)
    stream = list(dict.fromkeys([*log, *data.draw(st.permutations(sorted(seen)))]))
    spent: list[EffectId] = []
    passed: set = set()
    while stream:
        cut = data.draw(st.integers(1, 5))
        window, stream = stream[:cut], stream[cut:]
        fresh, done = fence.admit([at(p) for p in window])
        assert [(c.source, c.number, c.ordinal) for c in fresh] == [p for p in window if p not in seen]
        passed.update(window)
        want = {EffectId(1, n) for n, places in enumerate(apart) if places and passed.issuperset(places)}
        spent += done
        assert set(spent) == want and len(spent) == len(want), "by its last row, not its first (counter-example 4)"
    assert len(fence) == 0
    assert fence.admit([at(p) for p in log])[1] == []


def test_where_rows_are_written_blindly_they_are_written_again_behind_the_first_that_is_new() -> None:
    """Another echo may come, and what the log has behind it is to stand."""
    places = [("0-1", number, 0) for number in (1, 2, 3)]
    first, new, last = map(at, places)
    held = Receipt(EffectId(1, 1), encode([places[0], places[2]]))
    assert Fence([held], blind=True).admit([first, new, last]) == ([new, last], [held.id])
    assert Fence([held]).admit([first, new, last]) == ([new], [held.id])


def test_rows_behind_those_that_an_ended_owner_wrote_again_are_written_again() -> None:
    """It covered an echo and ended before it came to the rows behind, which an older owner had covered."""
    places = [("0-1", number, 0) for number in (1, 2, 3)]
    echo, old, newer = map(at, places)
    held = [Receipt(EffectId(2, 1), encode([places[0], places[2]])), Receipt(EffectId(1, 1), encode([places[1]]))]
    assert Fence(held, blind=True).admit([echo, old, newer])[0] == [old, newer]
    assert Fence(held).admit([echo, old, newer])[0] == []


def test_counter_example_4_a_row_is_dropped_only_once() -> None:
    """The same place a second time (a rewind asked for on purpose) is a row of its own."""
    place = ("0-1", 5, 0)
    fence = Fence([Receipt(EffectId(1, 1), encode([place]))])
    assert fence.admit([at(place)])[0] == []
    (again,), spent = fence.admit([at(place)])
    assert again.number == 5 and spent == []


def test_a_receipt_means_the_same_whatever_tables_are_selected() -> None:
    """Ordinals count all rows of a transaction: the third row is the third, also where the first are not taken."""
    fence = Fence([Receipt(EffectId(1, 1), encode([("0-1", 5, 2)]))])
    fresh, spent = fence.admit([at(("0-1", 5, n)) for n in (0, 2, 3)])
    assert [c.ordinal for c in fresh] == [0, 3] and spent == [EffectId(1, 1)]


def test_a_receipt_that_straddles_the_checkpoint_is_spent_once_the_log_is_past_it() -> None:
    """Its lower rows never come by again: without this it would stay at the target for ever."""
    below, above = ("0-1", 5, 0), ("0-1", 6, 0)
    fence = Fence([Receipt(EffectId(1, 1), encode([below, above]))])
    assert fence.admit([at(above)]) == ([], [])
    assert fence.close() == [EffectId(1, 1)]
    assert len(fence) == 0 and fence.close() == []


ORDINALS = st.lists(st.integers(0, 12), unique=True).map(sorted)
PARTS = st.lists(
    st.tuples(st.sampled_from(["0-1", "0-2"]), st.integers(0, 9), ORDINALS),
    unique_by=lambda part: part[:2],
)


def told(parts: list, cuts: list[int]) -> bytes:
    """The receipt of these, in pieces of these lengths, then in one."""
    places = [(source, number, ordinal) for source, number, ordinals in parts for ordinal in ordinals]
    cover = ReceiptBuilder()
    for cut in [*cuts, len(places)]:
        cover.add([at(place) for place in places[:cut]])
        places = places[cut:]
    return cover.encode()


@given(PARTS, st.lists(st.integers(1, 4)))
def test_a_receipt_that_is_told_piece_by_piece_covers_the_same(parts: list, cuts: list[int]) -> None:
    places = sorted((source, number, ordinal) for source, number, ordinals in parts for ordinal in ordinals)
    assert decode(told(parts, cuts)) == places


def test_a_receipt_of_a_million_rows_in_a_row_is_small() -> None:
    cover = ReceiptBuilder()
    cover.add(at(("0-1", 7, ordinal)) for ordinal in range(100_000))
    assert len(cover.encode()) < 30


def test_a_receipt_that_is_told_piece_by_piece_says_its_log() -> None:
    end = Position("binlog.000001", 900, proof="a proof")
    cover = ReceiptBuilder()
    cover.add(at(("0-1", 7, ordinal)) for ordinal in range(5))
    covered = cover.encode(end)
    assert end_of(covered) == end
    assert decode(covered) == [("0-1", 7, ordinal) for ordinal in range(5)]


@given(PARTS, st.lists(st.integers(1, 4)), st.data())
def test_a_fence_drops_the_rows_of_a_stretch_once_each(parts: list, cuts: list[int], data: st.DataObject) -> None:
    covered = {(source, number, ordinal) for source, number, ordinals in parts for ordinal in ordinals}
    fence = Fence([Receipt(EffectId(1, 1), told(parts, cuts))])
    assert len(fence) == len(covered) and bool(fence) is bool(covered)
    log = [(source, number, ordinal) for source, number, _ in parts for ordinal in range(13)]
    spent: list[EffectId] = []
    while log:
        cut = data.draw(st.integers(1, 20))
        window, log = log[:cut], log[cut:]
        fresh, done = fence.admit([at(place) for place in window])
        assert [(c.source, c.number, c.ordinal) for c in fresh] == [place for place in window if place not in covered]
        assert bool(done) is (not spent and not covered.intersection(log) and bool(covered.intersection(window)))
        spent += done
    assert len(fence) == 0 and not fence


def test_a_stretch_with_rows_of_a_table_that_is_selected_no_more() -> None:
    """They never come by; the others are dropped all the same."""
    fence = Fence([Receipt(EffectId(1, 1), told([("0-1", 5, list(range(9)))], []))])
    assert fence.admit([at(("0-1", 5, n)) for n in (1, 2, 4)]) == ([], [])
    assert fence.admit([at(("0-1", 5, n)) for n in (7, 8)]) == ([], [EffectId(1, 1)])
    open_ended = Fence([Receipt(EffectId(1, 1), told([("0-1", 5, list(range(9)))], []))])
    assert open_ended.admit([at(("0-1", 5, 7))]) == ([], [])
    assert open_ended.close() == [EffectId(1, 1)] and not open_ended


class Takeovers(RuleBasedStateMachine):
    """Rows are read, committed in any order with receipts, checkpoints saved; owners crash and others take over.

    The naive side counts how often each row of the log was applied.
    """

    @initialize()
    def start(self) -> None:
        self.log: list[tuple[str, int, int]] = []
        self.applied: list[tuple[str, int, int]] = []
        self.standing: dict[EffectId, list[tuple[str, int, int]]] = {}  # receipts at the target
        self.checkpoint = 0  # so many rows of the log are before it
        self.epoch = 0
        self.take_over()

    @rule(
        source=st.sampled_from(["0-1", "0-2"]),
        rows=st.integers(1, 4),
        read=st.integers(0, 5),
        commit=st.lists(st.integers(0, 5), max_size=4),
    )
    def traffic(self, source: str, rows: int, read: int, commit: list[int]) -> None:
        """A transaction more in the log; some rows are read, and some that wait committed in one batch."""
        number = 1 + max((n for s, n, _ in self.log if s == source), default=0)
        self.log += [(source, number, 2 * k) for k in range(rows)]  # rows in between are of other tables
        self.read(read)
        self.commit(commit)

    def read(self, rows: int) -> None:
        window = self.log[self.cursor : self.cursor + rows]
        self.cursor += len(window)
        fresh, spent = self.fence.admit([at(place) for place in window])
        admitted = [(c.source, c.number, c.ordinal) for c in fresh]
        assert admitted == [place for place in window if place not in self.applied], "what is there is not done again"
        self.waiting += admitted
        self.spend(spent)

    def spend(self, receipts: list[EffectId]) -> None:
        for id_ in receipts:
            assert id_ not in self.spent, "once"
            assert all(self.log.index(place) < self.cursor for place in self.standing[id_]), "by its last row"
        self.spent += receipts

    def commit(self, picks: list[int]) -> None:
        """Lanes do not keep to the order of the log."""
        batch = [self.waiting.pop(pick % len(self.waiting)) for pick in picks if self.waiting]
        if batch:
            self.counter += 1
            self.standing[EffectId(self.epoch, self.counter)] = batch
            self.spent.append(EffectId(self.epoch, self.counter))
            self.applied += batch

    @rule()
    def save(self) -> None:
        """The checkpoint: the prefix that is read and applied.  Receipts that lie wholly below it go."""
        unread = self.log[self.cursor :]
        done = (place in self.applied and place not in unread for place in self.log)
        self.checkpoint = next((n for n, is_done in enumerate(done) if not is_done), len(self.log))
        below = self.log[: self.checkpoint]
        for id_ in [i for i in self.spent if i in self.standing and all(p in below for p in self.standing[i])]:
            del self.standing[id_]

    @rule(read=st.integers(0, 5), commit=st.lists(st.integers(0, 5), max_size=3))
    def crash(self, read: int, commit: list[int]) -> None:
        """Another owner takes over, and gets on a little."""
        self.take_over()
        self.read(read)
        self.commit(commit)

    def take_over(self) -> None:
        """Forgets what waits; the log is read again from the checkpoint."""
        self.epoch += 1
        self.counter = 0
        self.fence = Fence(Receipt(id_, encode(rows)) for id_, rows in self.standing.items())
        self.cursor, self.waiting, self.log_end = self.checkpoint, [], len(self.log)
        self.spent: list[EffectId] = list(self.fence.empty)

    @rule()
    def come_to_rest(self) -> None:
        while self.cursor < len(self.log):
            self.read(3)
        self.spend(self.fence.close())
        assert self.fence.close() == [] and len(self.fence) == 0
        while self.waiting:
            self.commit([0, 0])
        self.save()
        assert sorted(self.applied) == sorted(self.log), "each row, and each once"
        assert not self.standing, "no receipt stays for ever"

    @invariant()
    def nothing_is_applied_twice(self) -> None:
        assert len(self.applied) == len(set(self.applied))
        covered = [place for rows in self.standing.values() for place in rows]
        above = [place for place in self.applied if place not in self.log[: self.checkpoint]]
        assert set(above) <= set(covered), "what is above the checkpoint has its receipt"


TestTakeovers = Takeovers.TestCase
TestTakeovers.settings = settings(
    max_examples=50, stateful_step_count=30, deadline=None, derandomize=True, report_multiple_bugs=False
)


@pytest.mark.proof
def test_takeovers_at_length() -> None:
    run_state_machine_as_test(Takeovers, settings=settings(max_examples=2500, stateful_step_count=50, deadline=None))


# ---------------------------------------------------------------------- which log they are of


def place(offset: int, server: str = "one", file: str = "bin.000007", gtids: str = "0-1-5") -> Position:
    return Position(file, offset, 0, gtids, proven(Proof(server, 1_700_000_000)))


def held(epoch: int, counter: int, *rows: tuple[str, int, int], end: Position | None) -> Receipt:
    return Receipt(EffectId(epoch, counter), encode(rows, end))


def test_a_receipt_keeps_where_its_last_window_ends() -> None:
    covered = encode([("0-1", 5, 0)], place(4711))
    kept = end_of(covered)
    assert kept is not None
    assert (kept.file, kept.offset, kept.proof, kept.gtids) == ("bin.000007", 4711, place(4711).proof, "")
    assert decode(covered) == [("0-1", 5, 0)]
    assert len(covered) - len(encode([("0-1", 5, 0)])) < 80 + len(kept.proof)


def test_a_place_that_nothing_proves_is_not_kept() -> None:
    rows = [("0-1", 5, 0)]
    assert encode(rows, Position("bin.000007", 4)) == encode(rows)
    assert end_of(encode(rows)) is None and end_of(NOTHING) is None


@pytest.mark.parametrize("offset", [9, 10])  # texts of odd and of even length
def test_an_older_version_finds_its_rows_and_some_that_never_come(offset: int) -> None:
    """As it decoded them: in pairs, whatever source they are under."""
    found: dict[str, list[tuple[int, int]]] = {}
    covered = encode([("0-1", 5, 2)], place(offset))
    for source, flat in msgspec.msgpack.decode(covered, type=dict[str, list[int]]).items():
        found[source] = list(zip(flat[::2], flat[1::2], strict=True))
    assert found.pop("0-1") == [(5, 2)]
    assert list(found) == [""]


def test_the_furthest_place_of_each_owner_and_server() -> None:
    rows = ("0-1", 5, 0)
    receipts = [
        held(1, 1, rows, end=place(300)),
        held(1, 2, rows, end=place(500)),
        held(1, 3, rows, end=place(400)),
        held(1, 4, rows, end=place(90, "two")),
        held(2, 1, rows, end=place(350)),
        held(2, 2, rows, end=None),
        held(2, 3, end=None),
    ]
    offsets = [(p.offset, p.proof) for p in furthest(receipts, place(100))]
    assert offsets == [(500, place(0).proof), (90, place(0, "two").proof), (350, place(0).proof)]
    assert [p.offset for p in furthest(receipts, place(500))] == [90], "of one server, those behind the place alone"
    assert furthest(receipts, place(500, gtids="")) == (), "without GTIDs a file has its name at every server"


def test_a_fence_asks_for_what_has_not_come_by() -> None:
    rows = [("0-1", n, 0) for n in range(4)]
    fence = Fence([held(1, 1, *rows[:2], end=place(200)), held(1, 2, *rows[2:], end=place(400))])
    begin = place(100)
    assert [p.offset for p in fence.furthest(begin)] == [400]
    fence.admit([at(rows[2]), at(rows[3])])
    assert [p.offset for p in fence.furthest(begin)] == [200]
    fence.admit([at(rows[0])])
    assert [p.offset for p in fence.furthest(begin)] == [200]
    fence.admit([at(rows[1])])
    assert fence.furthest(begin) == ()


def test_a_fence_that_is_closed_asks_for_nothing() -> None:
    fence = Fence([held(1, 1, ("0-1", 1, 0), end=place(200))])
    assert fence.furthest(place(100))
    fence.close()
    assert fence.furthest(place(100)) == ()


def test_rows_between_stretches_cost_no_look_at_each_of_them() -> None:
    """A large transaction of which every third row came with a chunk: some 300,000 stretches of a million rows."""
    rows = 300_000
    passing = [at(("0-1", 1, n)) for n in range(rows)]
    cover = ReceiptBuilder()
    cover.add(change for change in passing if change.ordinal % 3)
    fence = Fence([Receipt(EffectId(1, 1), cover.encode())])
    begun = time.process_time()
    fresh, spent = fence.admit(passing)
    assert time.process_time() - begun < 5, "each was looked at"
    assert [change.ordinal for change in fresh] == list(range(0, rows, 3))
    assert spent == [EffectId(1, 1)] and not fence
