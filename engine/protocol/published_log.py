"""The coordinator's word on the log in the changes topic: what tells it from another, and where its records begin."""

from __future__ import annotations

import msgspec

from tidelock.engine.model.records import Position


class PublishedLog(msgspec.Struct, frozen=True):
    """The log that workers read.  Key `log`.

    `number` rises by one each time that the source is published again from the least checkpoint.  `topic_id`: Kafka's
    id of the topic, '' where the broker has none.  `bases`: by partition, the offset where its records begin; those
    before are of an earlier log, or somebody else's (0 for partitions beyond).
    `is_open` False: the groups are being stopped, and nobody reads on before it is told anew.  `places`: where the
    groups stood then, in the order of their numbers, and the end of the log before where that is known: the log has a
    cut at each.
    """

    number: int
    topic_id: str = ""
    bases: tuple[int, ...] = ()
    is_open: bool = True
    places: tuple[Position, ...] = ()
