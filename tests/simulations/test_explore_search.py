"""The search, by a system that is nothing but a graph."""

from collections.abc import Sequence

import pytest

from tidelock.simulations.explore.hunt import hunt
from tidelock.simulations.explore.search import Broken, Move, search


class Counter:
    """Adds 2 or 3; breaks at `wrong`, is stuck at `stuck`, ends at 9 or more."""

    def __init__(self, value: int = 0, *, wrong: int = -1, stuck: int = -1) -> None:
        self.value, self.wrong, self.stuck = value, wrong, stuck

    def key(self) -> int:
        return self.value

    def moves(self) -> Sequence[Move]:
        if self.value == self.stuck:
            raise Broken("stuck")
        return [("add", 2), ("add", 3)] if self.value < 9 else []

    def take(self, move: Move) -> None:
        self.value += move[1]
        if self.value == self.wrong:
            raise Broken("wrong")

    def fork(self) -> "Counter":
        return Counter(self.value, wrong=self.wrong, stuck=self.stuck)


def test_sees_every_state_and_every_transition_once() -> None:
    outcome = search(Counter(), set())
    assert (outcome.way, outcome.states) == (None, 11)  # 0, 2 to 11
    assert outcome.transitions == 2 * 8


def test_finds_a_shortest_way_to_what_breaks() -> None:
    outcome = search(Counter(wrong=8), set())
    assert outcome.error == "wrong"
    assert outcome.way is not None and sorted(outcome.way) == [("add", 2), ("add", 3), ("add", 3)]


def test_finds_what_is_stuck() -> None:
    outcome = search(Counter(stuck=5), set())
    assert outcome.error == "stuck" and outcome.way is not None and len(outcome.way) == 2


def test_goes_no_further_than_asked() -> None:
    assert search(Counter(wrong=9), set(), most_moves=2).way is None
    assert search(Counter(wrong=9), set(), most_moves=3).way is not None


def test_what_was_seen_is_not_seen_to_again() -> None:
    seen: set[object] = set()
    search(Counter(), seen)
    assert search(Counter(2), seen).states == 0


@pytest.mark.parametrize(("starts", "way"), [((0, 4), 2), ((4, 0), 2)])
def test_the_hunt_takes_the_shortest_of_a_size(starts: tuple[int, int], way: int) -> None:
    found = hunt([starts, (7,)], lambda start: Counter(start, wrong=9))
    assert (found.start, len(found.way)) == (4, way)


def test_the_hunt_goes_to_the_next_size_when_one_is_clean() -> None:
    assert hunt([(0,), (1,)], lambda start: Counter(start, wrong=1 + 2)).start == 0
    assert hunt([(4,), (1,)], lambda start: Counter(start, wrong=3)).start == 1
    assert hunt([(4,), (5,)], lambda start: Counter(start, wrong=3)).start is None


def test_an_assertion_of_the_engine_breaks_it_too() -> None:
    class Asserting(Counter):
        def take(self, move: Move) -> None:
            super().take(move)
            assert self.value != 4

        def fork(self) -> "Asserting":
            return Asserting(self.value)

    assert search(Asserting(), set()).way == (("add", 2), ("add", 2))
