"""Tells whether a feed's changes topic is the one that the feed has published to."""

from __future__ import annotations

from tidelock.adapters.kafka.control import SeenControl
from tidelock.adapters.kafka.topics import Topic


def replaced(there: Topic | None, seen: SeenControl) -> str | None:
    """Returns what is in the place of the topic that was published to, in words that follow its end ('': nothing is);
    None: it is still there, or nothing was published.
    """
    plan, log = seen.plan, seen.log
    if plan is None:
        return None
    if there is None:
        return ""
    if there.partitions < plan.partitions:
        has = f"{there.partitions} partition{'s' * (there.partitions != 1)} instead of {plan.partitions}"
        return f": another topic of that name, with {has}, is in its place"
    if log is not None and log.topic_id and there.id and log.topic_id != there.id:
        return ": another topic of that name was made anew in its place"
    return None
