"""Looks at what the groups of a scaled-out feed would read next: is it there, and did the publisher write it?

The look is bounded, and a note says what was looked at.  Nothing is written, and no reader's place is moved.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec
from aiokafka.errors import KafkaError

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka.connection import client_options, explained
from tidelock.adapters.kafka.control import SeenControl
from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.kafka.topics import Topic
from tidelock.adapters.kafka.wire import WireError
from tidelock.adapters.ports.finding import Finding, error, note, warning
from tidelock.engine.model.records import Position
from tidelock.engine.model.table_partitioning import TablePartitioning

RECORDS: Final = 100
"""So many records of each partition are looked at."""
RETENTION_SHARE: Final = 0.5
"""Share of the retention after which a group that stands still is told."""


class _Looked(msgspec.Struct):
    """Offsets that were looked at in one partition: from `first` to before `end`."""

    partition: int
    first: int
    end: int

    def __str__(self) -> str:
        return f"partition {self.partition}: " + (
            f"{self.first} to {self.end - 1}" if self.end > self.first else "nothing unread"
        )


async def check_unread(feed: Feed, topic: Topic, seen: SeenControl) -> list[Finding]:
    """Lists records that are not the publisher's, and what is missing, where groups read on.  Raises LogError."""
    assert feed.log_url is not None and seen.plan is not None, "the feed has published to Kafka"
    findings, looked = _late(topic, seen, seen.plan), []
    try:
        async with Places(client_options(feed.log_url), topic.name, seen.skipped, seen.bases) as places:
            for partition in range(seen.plan.partitions):
                found = await _look(places, topic, seen, partition)
                if isinstance(found, _Looked):
                    looked.append(found)
                else:
                    findings.append(found)
    except KafkaError as problem:
        raise explained(feed.log_url, problem) from None
    if looked:
        findings.append(
            note(
                "log-unread",
                f"looked at up to {RECORDS} records of {topic.name} from where each group reads on, by offset: "
                f"{'; '.join(map(str, looked))}: all are the publisher's",
            )
        )
    return findings


async def _look(places: Places, topic: Topic, seen: SeenControl, partition: int) -> Finding | _Looked:
    assert seen.plan is not None, "the feed has published"
    place = _place(seen, seen.plan, partition)
    try:
        first = await places.find(partition, place, to_come=True)
        if first is None or await _emptied(places, seen, partition, place):
            return error(
                "log-lost",
                f"partition {partition} of {topic.name} no longer reaches back to {place}, where its "
                "group stands",
                "Start a worker if none runs: it halts, and `tidelock status FEED` says what helps",
            )
        return _Looked(partition, first, await places.readable(partition, first, RECORDS))
    except WireError as problem:
        return error("log-foreign", f"{topic.name}: {problem}", problem.hint)


async def _emptied(places: Places, seen: SeenControl, partition: int, place: Position) -> bool:
    """Tells whether the partition holds nothing any more, though the log went on behind the place."""
    if seen.state is None or seen.state.published.order <= place.order or await places.last(partition) is not None:
        return False
    return await places.end(partition) > seen.bases.get(partition, 0)


def _place(seen: SeenControl, plan: TablePartitioning, group: int) -> Position:
    """Returns where the group stands, as it told."""
    report = seen.groups.get(group)
    return report.checkpoint if report is not None else plan.since[group]


def _late(topic: Topic, seen: SeenControl, plan: TablePartitioning) -> list[Finding]:
    """Lists groups that have stood still for much of the time after which what they have not read is deleted."""
    retention = int(topic.settings.get("retention.ms", "-1")) / 1000
    findings = []
    for report in seen.groups.values():
        behind = time.time() - report.end_us / 1e6 if report.end_us else 0.0
        if retention > 0 and report.group < plan.partitions and behind > retention * RETENTION_SHARE:
            findings.append(
                warning(
                    "log-retention",
                    f"group {report.group} stands where the source was {behind / 3600:.1f} h ago; {topic.name} deletes "
                    f"what is older than {retention / 3600:.1f} h (retention.ms), read or not",
                    "Let workers run, or raise retention.ms first",
                )
            )
    return findings
