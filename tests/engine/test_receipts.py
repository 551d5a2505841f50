import msgspec
from hypothesis import given
from hypothesis import strategies as st

from engine.effects import EffectId
from engine.events import Receipt
from engine.receipts import NOTHING, Fence, decode, encode
from engine.segments import Change
from tests.engine.world import ACCOUNT, change

(ACCOUNTS,) = ACCOUNT.bindings()
PLACES = st.tuples(st.sampled_from(["0-1", "0-2", "bin.000007"]), st.integers(0, 2**63), st.integers(0, 5))


def at(place: tuple[str, int, int]) -> Change:
    source, number, ordinal = place
    return change(ACCOUNTS, None, (1, "a", 0), ordinal=ordinal, number=number, source=source)


@given(st.lists(PLACES, unique=True))
def test_what_is_encoded_is_decoded_in_any_order(places: list) -> None:
    assert sorted(decode(encode(map(at, places)))) == sorted(places)


@given(st.lists(PLACES, unique=True), st.randoms())
def test_the_bytes_do_not_depend_on_the_order_within_a_source(places: list, random) -> None:
    by_source = sorted(places, key=lambda p: p[0])
    mixed = sorted(random.sample(places, len(places)), key=lambda p: p[0])
    assert encode(map(at, by_source)) == encode(map(at, mixed))


def test_a_receipt_is_small() -> None:
    rows = [("0-101", 1_000_000_000 + n, 0) for n in range(1000)]
    assert len(encode(map(at, rows))) < 3 * 1000


def test_nothing_covers_nothing() -> None:
    assert decode(NOTHING) == [] == decode(encode([]))
    assert msgspec.msgpack.decode(NOTHING) == {}


@given(st.lists(st.lists(PLACES, max_size=4), max_size=6), st.lists(PLACES, max_size=12, unique=True), st.data())
def test_a_fence_drops_each_covered_row_once_and_tells_when_a_receipt_is_spent(
    receipts: list, log: list, data: st.DataObject
) -> None:
    seen: set = set()
    apart = [[p for p in dict.fromkeys(r) if not (p in seen or seen.add(p))] for r in receipts]
    fence = Fence(Receipt(EffectId(1, n), encode(map(at, places))) for n, places in enumerate(apart))
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


def test_counter_example_4_a_row_is_dropped_only_once() -> None:
    """The same place a second time (a rewind asked for on purpose) is a row of its own."""
    place = ("0-1", 5, 0)
    fence = Fence([Receipt(EffectId(1, 1), encode([at(place)]))])
    assert fence.admit([at(place)])[0] == []
    (again,), spent = fence.admit([at(place)])
    assert again.number == 5 and spent == []


def test_a_receipt_means_the_same_whatever_tables_are_selected() -> None:
    """Ordinals count all rows of a transaction: the third row is the third, also where the first are not taken."""
    fence = Fence([Receipt(EffectId(1, 1), encode([at(("0-1", 5, 2))]))])
    fresh, spent = fence.admit([at(("0-1", 5, n)) for n in (0, 2, 3)])
    assert [c.ordinal for c in fresh] == [0, 3] and spent == [EffectId(1, 1)]


def test_a_receipt_that_straddles_the_checkpoint_is_spent_once_the_log_is_past_it() -> None:
    """Its lower rows never come by again: without this it would stay at the target for ever."""
    below, above = ("0-1", 5, 0), ("0-1", 6, 0)
    fence = Fence([Receipt(EffectId(1, 1), encode([at(below), at(above)]))])
    assert fence.admit([at(above)]) == ([], [])
    assert fence.close() == [EffectId(1, 1)]
    assert len(fence) == 0 and fence.close() == []
