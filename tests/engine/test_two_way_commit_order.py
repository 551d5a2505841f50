"""`latest` by times of commits: what tells which is later, and what does not."""

import pytest

from tests.engine.test_batch_blind_steps import BINDING
from tidelock.engine.model.conflict_options import CommitClock, GroupWords, TableWords
from tidelock.engine.protocol.steps import DecideChange, ParkedRow
from tidelock.engine.two_way.commit_order import commit_time, is_later
from tidelock.engine.two_way.conflicts import Holder, Met, Writer, WrittenBy
from tidelock.engine.two_way.deciding import judged
from tidelock.engine.two_way.decisions import Outcome

CLOCK = CommitClock(spoke="us", arbiter="eu")
BY_TIME = TableWords("latest")


@pytest.mark.parametrize(
    ("writers", "later"),
    [
        ([Writer(WrittenBy.ARBITER, 9)], True),
        ([Writer(WrittenBy.ARBITER, 11)], False),
        ([Writer(WrittenBy.SPOKE, 11)], True),
        ([Writer(WrittenBy.SPOKE)], True),
        ([Writer(WrittenBy.ANOTHER, 9)], True),
        ([Writer(WrittenBy.ANOTHER, 10)], None),
        ([Writer(WrittenBy.ANOTHER, 11)], None),
        ([Writer(WrittenBy.UNKNOWN, 9)], True),
        ([Writer(WrittenBy.UNKNOWN, 11)], None),
        ([Writer(WrittenBy.ARBITER)], None),
        ([Writer(WrittenBy.ARBITER, 11), Writer(WrittenBy.UNKNOWN)], False),
        ([Writer(WrittenBy.ARBITER, 9), Writer(WrittenBy.UNKNOWN)], None),
        ([], True),
    ],
)
def test_a_change_that_was_committed_at_10(writers: list[Writer], later: bool | None) -> None:
    assert is_later(CLOCK, 10, writers) is later


def test_of_equal_times_the_greater_name_is_later() -> None:
    same = [Writer(WrittenBy.ARBITER, 10)]
    assert is_later(CLOCK, 10, same) is True
    assert is_later(CommitClock(spoke="eu", arbiter="us"), 10, same) is False


def test_without_a_time_of_the_change_only_the_spokes_own_row_is_earlier() -> None:
    assert is_later(CLOCK, 0, [Writer(WrittenBy.ARBITER, 1)]) is None
    assert is_later(CLOCK, 0, [Writer(WrittenBy.SPOKE, 1)]) is True


def test_mariadb_logs_when_a_statement_began() -> None:
    assert commit_time("0-101", 5) == 0
    assert commit_time("3e11fa47-71ca-11e1-9e33-c80aa9429562", 5) == 5 == commit_time("7312/shop", 5)


def decided(words: TableWords, met: Met, commit_us: int) -> Outcome:
    parked = ParkedRow("s", 1, 0, "shop", "t", "id=1", "", b"")
    one = DecideChange(BINDING, (1, "a", "x"), (1, "b", "y"), words, parked, clock=CLOCK, commit_us=commit_us)
    return judged(one, met).outcome


def test_what_nothing_tells_is_parked() -> None:
    """Of the row of its key, and of one that holds a unique value."""
    for at_us, outcome in ((9, Outcome.WRITE), (11, Outcome.VERDICT), (0, Outcome.PARK)):
        writer = Writer(WrittenBy.ARBITER, at_us)
        met = Met((1, "a", "z"), unseen=True, writer=writer)
        assert decided(BY_TIME, met, 10) is outcome
        held = Met((1, "a", "x"), holders=(Holder((1,), (2, "b", "x"), writer),), writer=Writer(WrittenBy.SPOKE))
        assert decided(BY_TIME, held, 10) is outcome
    assert decided(BY_TIME, Met(), 0) is Outcome.WRITE, "no row has no time"
    unknown = Met((1, "a", "z"), unseen=True)
    assert decided(TableWords("latest", {"update_origin_differs": "arbiter"}), unknown, 10) is Outcome.VERDICT


@pytest.mark.parametrize(
    ("words", "by_time"),
    [
        (BY_TIME, True),
        (TableWords("stop", {"insert_exists": "latest"}), True),
        (TableWords("latest", version="v"), False),
        (TableWords("arrival", groups=(GroupWords(("a",), "arrival"),)), False),
    ],
)
def test_only_tables_whose_latest_has_no_version_ask_for_times(words: TableWords, by_time: bool) -> None:
    assert words.by_time is by_time
