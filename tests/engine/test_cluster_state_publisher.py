"""When a feed's state is told, and that its positions never go back."""

from typing import Any

from tidelock.engine.cluster.state_publisher import StatePublisher
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.group_reports import FeedState

SECOND = 1_000_000


def feed(at: int, **more: Any) -> FeedState:
    place = Position("log.000001", at)
    return FeedState(
        **{
            "epoch": 1, "worker": "w1", "state": "running", "plan": 1,
            "resolved": place, "checkpoint": place, "published": place, **more,
        }
    )  # fmt: skip


def test_the_first_word_and_all_news_are_told_at_once() -> None:
    announcer = StatePublisher(None)
    assert announcer.observe(0, feed(4)) == feed(4)
    assert announcer.observe(1, feed(4, state="halted")) == feed(4, state="halted")


def test_positions_wait_for_half_a_second_and_silence_for_five() -> None:
    announcer = StatePublisher(None)
    announcer.observe(0, feed(4))
    assert announcer.observe(SECOND // 2 - 1, feed(5)) is None
    assert announcer.observe(SECOND // 2, feed(5)) == feed(5)
    assert announcer.observe(SECOND * 5, feed(5)) is None
    assert announcer.observe(SECOND // 2 + SECOND * 5, feed(5)) == feed(5)


def test_no_position_is_told_lower_than_before_whoever_told_it() -> None:
    told = StatePublisher(feed(50)).observe(10 * SECOND, feed(20, epoch=2, checkpoint=Position("log.000001", 60)))
    assert told is not None
    assert (told.epoch, told.resolved.offset, told.checkpoint.offset, told.published.offset) == (2, 50, 60, 50)
