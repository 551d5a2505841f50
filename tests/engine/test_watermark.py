"""The watermark is the prefix of the log that is committed, and receipts go only at or below the checkpoint."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.effects import EffectId
from engine.records import Position
from engine.watermark import Watermark


def at(n: int) -> Position:
    return Position("bin.000001", n)


class Prefix(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.mark = Watermark(at(0))
        self.left: list[int] = []  # by window
        self.receipts: dict[EffectId, int] = {}  # at the target, with the window of their highest position
        self.checkpoint = -1
        self.batches = 0

    def prefix(self) -> int:
        """The last window before the first that is not done."""
        return next((n for n, left in enumerate(self.left) if left), len(self.left)) - 1

    @rule(segments=st.integers(0, 3))
    def open(self, segments: int) -> None:
        number = len(self.left)
        assert self.mark.upcoming() == number
        self.left.append(segments)
        assert self.mark.open(at(10 * (number + 1)), segments, end_us=1000 + number) == number

    @precondition(lambda self: any(self.left))
    @rule(pick=st.integers(0, 20))
    def commit(self, pick: int) -> None:
        """A batch: one segment of some window, its receipt counted by that window."""
        windows = [n for n, left in enumerate(self.left) if left]
        window = windows[pick % len(windows)]
        self.batches += 1
        id_ = EffectId(1, self.batches)
        self.mark.receipt(window, id_)
        self.receipts[id_] = window
        self.left[window] -= 1
        self.mark.done(window)

    @rule()
    def save(self) -> None:
        """Written in one transaction: the checkpoint, and the receipts it makes needless."""
        drop = self.mark.droppable()
        assert set(drop) == {id_ for id_, window in self.receipts.items() if window <= self.prefix()}
        assert list(drop) == sorted(drop)
        self.checkpoint = self.mark.window
        self.mark.saved = self.mark.position
        self.mark.dropped(drop)
        for id_ in drop:
            del self.receipts[id_]

    @invariant()
    def it_is_the_committed_prefix(self) -> None:
        last = self.prefix()
        assert self.mark.window == last
        assert self.mark.position == at(10 * (last + 1))
        assert self.mark.end_us == (1000 + last if last >= 0 else 0)
        assert self.mark.pending == len(self.left) - 1 - last

    @invariant()
    def receipts_above_the_checkpoint_stay_counter_example_4(self) -> None:
        assert self.mark.receipts == len(self.receipts)
        assert self.checkpoint <= self.mark.window


TestPrefix = Prefix.TestCase
TestPrefix.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def test_a_window_without_rows_moves_it_debezium_3970() -> None:
    mark = Watermark(at(5))
    mark.open(at(9), 0)
    assert (mark.position, mark.saved, mark.pending) == (at(9), at(5), 0)


def test_an_empty_window_behind_an_open_one_waits() -> None:
    mark = Watermark(at(0))
    first = mark.open(at(1), 1)
    mark.open(at(2), 0)
    assert mark.position == at(0)
    mark.done(first)
    assert mark.position == at(2)


def test_counter_example_4_a_receipt_that_spans_windows_goes_with_its_highest() -> None:
    mark = Watermark(at(0))
    first, second = mark.open(at(1), 1), mark.open(at(2), 1)
    mark.receipt(second, EffectId(1, 1))
    mark.done(first)
    assert mark.droppable() == ()
    mark.done(second)
    assert mark.droppable() == (EffectId(1, 1),)


def test_a_receipt_that_came_while_the_checkpoint_was_written_stays() -> None:
    mark = Watermark(at(0))
    mark.done(mark.open(at(1), 1))
    mark.receipt(0, EffectId(1, 1))
    drop = mark.droppable()
    mark.receipt(0, EffectId(1, 2))
    mark.dropped(drop)
    assert mark.droppable() == (EffectId(1, 2),)


def test_an_unknown_source_time_keeps_the_last_known() -> None:
    mark = Watermark(at(0))
    mark.open(at(1), 0, end_us=77)
    mark.open(at(2), 0)
    assert mark.end_us == 77


def test_more_segments_than_planned_is_a_bug() -> None:
    mark = Watermark(at(0))
    mark.open(at(1), 1)
    mark.open(at(2), 1)
    mark.done(1)
    with pytest.raises(AssertionError):
        mark.done(1)
