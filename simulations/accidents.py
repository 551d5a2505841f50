"""Accidents of one feed.  A function a fault; it returns False where that cannot strike now."""

from __future__ import annotations

from collections.abc import Callable

from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.events import SourceFailed
from tidelock.simulations.feed import Feed


def befall(feed: Feed) -> None:
    """Lets happen what chance says for this step, if anything."""
    fault = feed.faults.draw()
    if fault is not None and FAULTS[fault](feed):
        feed.tell(f"-- {fault}")
        feed.faults.struck(fault)


def _crash(feed: Feed) -> bool:
    feed.owner.alive = False
    feed.take_over()
    return True


def _crash_amid(feed: Feed) -> bool:
    feed.owner.dies_at = feed.chance.choice((0, 0, 1, 2, 4))
    return True


def _rival(feed: Feed) -> bool:
    feed.take_over()
    return True


def _hang(feed: Feed) -> bool:
    feed.owner.hangs = feed.chance.choice((5, 20, 100))
    return True


def _clock(feed: Feed) -> bool:
    feed.owner.skew += feed.chance.choice((-1_000_000, 2_000_000, 3_600_000_000))
    return True


def _disconnected(feed: Feed) -> bool:
    if feed.owner.reader is None:
        return False
    feed.owner.reader = None
    feed.owner.post(SourceFailed(Alarm("connection", "connection lost", "wait"), retryable=True))
    return True


def _purged(feed: Feed) -> bool:
    return _ends_for_good(feed, Alarm("purged", "the source has no log from there on", "copy the tables anew"))


def _unreadable(feed: Feed) -> bool:
    return _ends_for_good(feed, Alarm("unreadable", "an event of type 0x99 is not understood", "report it"))


def _ends_for_good(feed: Feed, alarm: Alarm) -> bool:
    if feed.owner.reader is None:
        return False
    feed.owner.reader = None
    feed.owner.post(SourceFailed(alarm, retryable=False))
    return True


def _other_log(feed: Feed) -> bool:
    return _served_otherwise(feed, feed.log.replace)


def _moved_log(feed: Feed) -> bool:
    return _served_otherwise(feed, feed.log.move)


def _served_otherwise(feed: Feed, change: Callable[[Position], str]) -> bool:
    """All readers lose their connections to what was there."""
    what = change(feed.target.stored.durable) if feed.owner.reader is not None else ""
    if not what:
        return False
    feed.coverage[f"log: {what}"] += 1
    feed.tell(f"-- the source's log: {what}")
    lose_readers(feed)
    return True


def lose_readers(feed: Feed) -> None:
    """All owners' readers lose their connections."""
    for owner in feed.owners:
        if owner.alive and owner.reader is not None:
            owner.reader = None
            owner.post(SourceFailed(Alarm("connection", "connection lost", "wait"), retryable=True))


def _forgotten(feed: Feed) -> bool:
    feed.target.forget()
    return True


FAULTS: dict[str, Callable[[Feed], bool]] = {
    "crash": _crash,
    "crash_amid": _crash_amid,
    "rival": _rival,
    "hang": _hang,
    "clock": _clock,
    "disconnected": _disconnected,
    "purged": _purged,
    "unreadable": _unreadable,
    "forgotten": _forgotten,
    "other_log": _other_log,
    "moved_log": _moved_log,
    "lost": lambda feed: feed.owner.lose(),
    "repeated": lambda feed: feed.owner.repeat(feed.chance),
    "reordered": lambda feed: feed.owner.reorder(),
    "rewound": lambda feed: feed.owner.rewind(feed.chance),
}
