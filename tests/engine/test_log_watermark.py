"""The watermark is the prefix of the log that is committed, and receipts go only at or below the checkpoint."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tidelock.engine.log.watermark import Watermark
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import EffectId


def at(n: int) -> Position:
    return Position("bin.000001", n)


@dataclasses.dataclass
class Planned:
    """A segment of `window` with changes of the windows `covers`.  `receipt`: what covers it, once it is committed."""

    window: int
    covers: frozenset[int]
    receipt: EffectId | None = None


class Prefix(RuleBasedStateMachine):
    """Windows are planned, some of their changes wait, batches commit segments of one window or several, checkpoints
    are written in between.

    The naive side keeps every segment of the log with the receipt that covers it, if it is committed: the watermark is
    counted from the start each time, and a receipt may go if no segment of it is above the checkpoint.
    """

    @initialize()
    def start(self) -> None:
        self.mark = Watermark(at(0))
        self.segments: list[Planned] = []
        self.waiting: list[int] = []  # the window of each change that waits
        self.ends: list[int] = []  # of each window
        self.ends_us: list[int] = []
        self.standing: dict[EffectId, list[int]] = {}  # receipts at the target, and the windows they cover
        self.saving: tuple[int, tuple[EffectId, ...]] | None = None  # window of the position, receipts to delete
        self.saved = -1
        self.counter = 0

    def prefix(self) -> int:
        """The last window before the first that is not all committed; where changes waited, a segment may hold those
        of any window since the first of them came."""
        open_ = [min(one.covers) for one in self.segments if one.receipt is None]
        return min([*open_, *self.waiting, len(self.ends)]) - 1

    def receipt(self) -> EffectId:
        """In the order of their ids batches are sent, not committed."""
        self.counter += 1
        return EffectId(1, self.counter + (1 if self.counter % 2 else -1))

    def plan(self, segments: int, leaving: int, staying: int) -> tuple[int, int | None, int | None]:
        """So many segments in the next window: the first holds `leaving` of the changes that wait, too; `staying` of
        the window's own wait.  Returns how many, and the first windows of what waited and of what waits."""
        number = len(self.ends)
        first = min(self.waiting, default=None)
        left, self.waiting = self.waiting[:leaving], [*self.waiting[leaving:], *[number] * staying]
        segments = max(segments, bool(left))
        covers = frozenset({number} if first is None else {first, *left, number})
        self.segments += [Planned(number, covers) for _ in range(segments)]
        return segments, first, min(self.waiting, default=None)

    @rule(
        segments=st.integers(0, 3),
        end_us=st.sampled_from([0, 7, 9]),
        leaving=st.integers(0, 2),
        staying=st.sampled_from([0, 0, 1, 2]),
    )
    def open(self, segments: int, end_us: int, leaving: int = 0, staying: int = 0) -> None:
        number = len(self.ends)
        assert self.mark.upcoming() == number
        segments, first, waits = self.plan(segments, leaving, staying)
        self.ends.append(10 * (number + 1))
        self.ends_us.append(end_us)
        assert self.mark.open(at(self.ends[-1]), segments, end_us, first=first, waits=waits) == number

    @precondition(lambda self: self.waiting)
    @rule(leaving=st.integers(1, 3))
    def open_again(self, leaving: int) -> None:
        """Plans what waited, and nothing of the log with it."""
        number = len(self.ends)
        segments, first, waits = self.plan(0, leaving, 0)
        self.ends.append(self.ends[-1])
        self.ends_us.append(self.ends_us[-1])
        assert self.mark.open_again(segments, first=first, waits=waits) == number

    def left(self) -> list[Planned]:
        return [one for one in self.segments if one.receipt is None]

    @precondition(lambda self: self.left())
    @rule(most=st.integers(1, 3), newest_first=st.booleans())
    def commit(self, most: int, newest_first: bool) -> None:
        """A batch of one lane: a segment each of some windows; its receipt is counted by the highest."""
        first_of = {one.window: one for one in reversed(self.left())}
        batch = [first_of[window] for window in sorted(first_of, reverse=newest_first)[:most]]
        id_ = self.receipt()
        self.mark.receipt(max(one.window for one in batch), id_)
        self.standing[id_] = sorted({window for one in batch for window in one.covers})
        for one in sorted(batch, key=lambda one: one.window):
            one.receipt = id_
            self.mark.done(one.window)

    def end(self, window: int) -> Position:
        return at(self.ends[window]) if window >= 0 else at(0)

    @rule()
    def rows_that_an_old_receipt_covers(self) -> None:
        """They come by again after a takeover: the receipt is spent with the window that is planned next."""
        id_ = self.receipt()
        self.mark.receipt(self.mark.upcoming(), id_)
        self.standing[id_] = [len(self.ends)]

    @precondition(lambda self: self.saving is None)
    @rule()
    def begin_to_save(self) -> None:
        drop = self.mark.droppable()
        assert list(drop) == sorted(id_ for id_, covered in self.standing.items() if max(covered) <= self.prefix())
        self.saving = self.prefix(), drop

    @precondition(lambda self: self.saving is not None)
    @rule(stored=st.sampled_from([True, True, False]), meanwhile=st.booleans())
    def the_checkpoint(self, stored: bool, meanwhile: bool = False) -> None:
        """One transaction writes it and deletes the receipts it makes needless, or nothing."""
        if meanwhile and self.left():
            self.commit(2, newest_first=False)
        (window, drop), self.saving = self.saving, None
        if not stored:
            return
        assert window >= self.saved, "it never goes back"
        for id_ in drop:
            assert max(self.standing.pop(id_)) <= window, "never a receipt above it (counter-example 4)"
        self.saved, self.mark.saved = window, self.end(window)
        self.mark.dropped(drop)

    @rule()
    def all_is_done(self) -> None:
        while self.waiting:
            self.open_again(2)
        while self.left():
            self.commit(3, newest_first=True)
        self.open(0, 0)
        self.saving = None
        self.begin_to_save()
        self.the_checkpoint(stored=True)
        assert not self.standing and self.mark.receipts == 0, "no receipt is left for ever"
        assert self.mark.pending == 0 and self.mark.saved == self.mark.position

    @invariant()
    def it_is_the_committed_prefix(self) -> None:
        last = self.prefix()
        assert self.mark.window == last
        assert self.mark.position == self.end(last)
        known = [us for us in self.ends_us[: last + 1] if us]
        assert self.mark.end_us == (known[-1] if known else 0)
        assert self.mark.pending == len(self.ends) - 1 - last

    @invariant()
    def what_is_above_the_checkpoint_is_covered_by_a_receipt(self) -> None:
        """Else a restart would apply it again."""
        assert self.mark.receipts == len(self.standing)
        for one in self.segments:
            above = max(one.covers) > self.saved
            assert one.receipt is None or one.receipt in self.standing or not above


TestPrefix = Prefix.TestCase
TestPrefix.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, derandomize=True, report_multiple_bugs=False
)


@pytest.mark.proof
def test_prefix_at_length() -> None:
    run_state_machine_as_test(Prefix, settings=settings(max_examples=3000, stateful_step_count=50, deadline=None))


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
