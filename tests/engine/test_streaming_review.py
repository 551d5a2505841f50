"""A large transaction whose end comes late, again and again: each owner waits as long as the one before, and none ends it."""

from engine.effects import CommitBatch, RollbackBatch, StandDown
from engine.events import BatchRolledBack, LogArrived
from tests.engine.test_streaming import Feed, part


def attempt() -> str:
    """One owner: a large part, then 31 s in which the reader passes rows of tables that are not selected, then the end."""
    feed, answered = Feed(), 0
    for first in range(0, 12, 2):
        answered = feed.until_room(answered)
        feed.step(LogArrived([part(first, 2)]))
    while answered < len(feed.sent):
        answered = feed.answer(answered)
    feed.step(passed=1_000)
    feed.step(passed=31_000_000)
    if isinstance(feed.sent[-1], RollbackBatch):
        feed.step(BatchRolledBack(feed.sent[-1].id))
        answered = len(feed.sent)
    feed.step(LogArrived([part(12, 2, last=True)]))
    while answered < len(feed.sent):
        answered = feed.answer(answered)
    if isinstance(feed.sent[-1], StandDown):
        return "again"
    assert isinstance(feed.sent[-1], CommitBatch)
    return "committed"


def test_a_long_stretch_of_other_tables_does_not_keep_it_from_ever_being_applied():
    assert [attempt() for _ in range(3)][-1] == "committed"
