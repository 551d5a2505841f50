"""Hold: rows of the arbiter wait for the spoke's own changes to be covered."""

from tidelock.simulations.two_way.holding import Hold, Waiting

K, L = ((0, 1, 0),), ((0, 2, 0),)


def held() -> Hold:
    hold = Hold("us", [((1,), K)])
    assert hold.offer(K, (1, "old"), ((), (5,))) is None
    return hold


def test_a_row_waits_for_changes_of_its_key_alone() -> None:
    hold = held()
    assert hold.offer(L, (2, "b"), ((5,), (6,))) == Waiting(L, (2, "b"), (((5,), (6,)),))
    assert hold.waiting() == (Waiting(K, (1, "old"), (((), (5,)),)),)


def test_what_is_covered_is_applied_with_all_that_it_stands_for() -> None:
    hold = held()
    assert hold.offer(K, (1, "newer"), ((6,), (7,))) is None
    assert hold.covered("us", [(1,)]) == [Waiting(K, (1, "newer"), (((), (5,)), ((6,), (7,))))]
    assert hold.waiting() == ()


def test_the_echo_replaces_what_waits() -> None:
    hold = held()
    assert hold.covered("us", [(1,)], replaced=K) == []
    assert hold.offer(K, (1, "own"), ((5,), (8,))) == Waiting(K, (1, "own"), (((), (5,)), ((5,), (8,))))


def test_a_second_change_of_the_spoke_keeps_it_waiting() -> None:
    hold = held()
    hold.wrote((2,), K)
    assert hold.covered("us", [(1,)]) == []
    assert [each.row for each in hold.covered("us", [(2,)])] == [(1, "old")]


def test_receipts_of_another_log_cover_nothing() -> None:
    hold = held()
    assert hold.covered("us, before the failover", [(1,)]) == []
    assert len(hold.waiting()) == 1


def test_no_checkpoint_passes_what_waits() -> None:
    hold = Hold("us", [((1,), K)])
    assert hold.checkpoint((9,)) == (9,)
    hold.offer(K, (1, "old"), ((4,), (5,)))
    assert hold.checkpoint((9,)) == (4,)
