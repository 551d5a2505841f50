"""The echo: a spoke's change goes back where another one of a shared register was sent behind what it had seen."""

from hypothesis import given
from hypothesis import strategies as st

from tidelock.engine.two_way.echo import EchoIndex, Passing, Sending, path_of, sending
from tidelock.engine.two_way.places import NOTHING

K, L, U = (0, 1, 0), (0, 2, 0), (1, "u")


def row(at: int, path: tuple[str, ...], seen: int = 0, *registers: tuple[object, ...]) -> Passing:
    return Passing((at,), path, (seen,) if seen else NOTHING, registers or (K,))


def hows(*rows: Passing, index: EchoIndex | None = None) -> list[str]:
    index = index if index is not None else EchoIndex(100)
    return [sending(index, "us", each).value for each in rows]


def test_a_change_that_had_seen_all_that_was_sent_does_not_go_back() -> None:
    assert hows(row(1, ()), row(2, ("us",), 1)) == ["send", "not"]


def test_one_that_had_not_goes_back() -> None:
    assert hows(row(1, ()), row(2, ("us",))) == ["send", "echo"]


def test_an_echo_counts_as_sent() -> None:
    """History 2: the delete had seen the change before the echo, and not the echo."""
    assert hows(row(1, ()), row(2, ("us",)), row(3, ("us",), 1)) == ["send", "echo", "echo"]


def test_each_row_is_asked_for_alone() -> None:
    """Two rows of one transaction: the one that is concerned goes back, the other does not."""
    assert hows(row(1, ()), row(2, ("us",), 0, L), row(3, ("us",), 0, K)) == ["send", "not", "echo"]


def test_a_shared_value_of_a_unique_index_is_enough() -> None:
    assert hows(row(1, (), 0, K, U), row(2, ("us",), 0, L, U)) == ["send", "echo"]


def test_changes_of_other_spokes_are_sent() -> None:
    assert hows(row(1, ("asia",)), row(2, ("us", "mid")), row(3, ("far", "us"))) == ["send", "not", "echo"]


def test_an_echo_begins_a_new_path() -> None:
    """History 24a: with the old path a site below the spoke would not be sent the echo of its own change."""
    change = row(2, ("far", "us"))
    assert path_of("eu", change, Sending.ECHO) == ("eu",)
    assert path_of("eu", change, Sending.SEND) == ("far", "us", "eu")


def test_below_the_floor_everything_goes_back_and_at_it_nothing_more() -> None:
    assert hows(row(6, ("us",), 4), row(7, ("us",), 5, L), index=EchoIndex(100, (5,))) == ["echo", "not"]


def test_a_change_whose_registers_nobody_knows_concerns_all() -> None:
    index = EchoIndex(100)
    unknown = Passing((1,), (), NOTHING, None)
    assert hows(unknown, row(2, ("us",)), row(3, ("us",), 1, L), index=index) == ["send", "echo", "not"]
    assert hows(Passing((4,), ("us",), (3,), None), index=index) == ["echo"]


def test_a_reader_that_went_back_sends_by_the_floor() -> None:
    """History 12: what the spoke lost is echoed, and does not disturb the order of the index."""
    index = EchoIndex(100)
    hows(row(1, ()), row(2, (), 0, L), index=index)
    index.raise_floor((2,))
    assert hows(row(1, ("us",)), row(2, ("us",), 0, L), index=index) == ["echo", "echo"]
    assert index.entries() == ()


def test_pruning_forgets_from_the_oldest_and_no_further() -> None:
    index = EchoIndex(100)
    hows(row(1, ()), row(2, (), 0, L), row(3, (), 0, K), index=index)
    index.raise_floor((1,))
    assert index.entries() == ((L, (2,)), (K, (3,)))
    index.raise_floor((2,))
    assert index.entries() == ((K, (3,)),)
    index.raise_floor((1,))
    assert index.floor == (2,)


def test_a_full_index_forgets_its_older_half_and_raises_the_floor() -> None:
    index = EchoIndex(4)
    for n in range(1, 6):
        index.send((n,), ((0, n, 0),))
    assert (len(index), index.floor) == (2, (3,))


CHANGES = st.lists(
    st.tuples(st.booleans(), st.integers(0, 20), st.sets(st.sampled_from([K, L, U]), min_size=1).map(sorted)),
    max_size=20,
)


@given(CHANGES, st.integers(1, 3), st.sets(st.integers(0, 20)))
def test_a_bounded_and_pruned_index_echoes_all_that_an_endless_one_does(
    changes: list[tuple[bool, int, list[tuple[object, ...]]]], limit: int, prunes: set[int]
) -> None:
    bounded, sent = EchoIndex(limit), []
    for at, (own, seen, found) in enumerate(changes, 1):
        place, had = (at,), (min(seen, at - 1),) if seen else NOTHING
        needed = own and any(set(found) & set(other) for other_at, other in sent if (other_at,) > had)
        how = sending(bounded, "us", Passing(place, ("us",) if own else (), had, tuple(found)))
        assert how is not Sending.NOT or not needed
        if how is not Sending.NOT:
            sent.append((at, found))
        assert len(bounded) <= max(limit, len(found))
        if at in prunes:
            bounded.raise_floor((at,))


@given(CHANGES)
def test_an_endless_index_echoes_nothing_more(changes: list[tuple[bool, int, list[tuple[object, ...]]]]) -> None:
    index, sent = EchoIndex(100), []
    for at, (own, seen, found) in enumerate(changes, 1):
        had = (min(seen, at - 1),) if seen else NOTHING
        needed = any(set(found) & set(other) for other_at, other in sent if (other_at,) > had)
        how = sending(index, "us", Passing((at,), ("us",) if own else (), had, tuple(found)))
        assert how is (Sending.SEND if not own else Sending.ECHO if needed else Sending.NOT)
        if how is not Sending.NOT:
            sent.append((at, found))
