"""Finds the end of the log, where a publisher goes on.  To be read only once every older publisher is fenced."""

from __future__ import annotations

import msgspec

from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.process.way_out import COPY_ANEW
from tidelock.engine.model.lineage import server_of
from tidelock.engine.model.records import Position
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.model.table_partitioning import TablePartitioning


class LogEnd(msgspec.Struct, frozen=True):
    """The end of the log.  `statement`: the last record, if it is one: behind it nothing was published yet."""

    position: Position
    end_us: int = 0
    statement: Ddl | None = None


class Uneven(Exception):
    """The partitions do not end at one position, which the publisher always leaves them at."""

    def __init__(self, ends: list[tuple[int, Position]]) -> None:
        told = ", ".join(f"partition {number} at {position}" for number, position in ends)
        super().__init__(f"the partitions of the changes topic do not end at the same position: {told}")
        self.hint = (
            "Something else wrote to the topic, or a broker lost committed records (see its log; unclean leader "
            f"election must be off). What it held is not known: {COPY_ANEW}"
        )


class Short(Exception):
    """The log ends before a place that all groups have reached: a broker has lost records, or was put back to an older
    state.  The text is the log's end.
    """

    def __init__(self, end: Position) -> None:
        super().__init__(str(end))


async def read_end(
    places: Places, plan: TablePartitioning, start: Position, reached: Position | None = None
) -> LogEnd:
    """Returns where all partitions end; `start` if none holds a record.  A new partition is empty, and begins there.

    `start`, `reached`: all groups have been there, as they told, and as the target has it.

    Raises Uneven, Short, KafkaError, WireError.
    """
    found = [(partition, await places.last_record(partition)) for partition in range(plan.partitions)]
    records = [(partition, record.batch) for partition, record in found if record is not None]
    if not records:
        return LogEnd(start)
    end = records[0][1]
    if any(batch.last != end.last for _, batch in records):
        raise Uneven([(partition, batch.last) for partition, batch in records])
    if any(_is_before(end.last, place) for place in (start, reached) if place is not None):
        raise Short(end.last)
    statement = end.ddl if end.ddl is not None and end.ddl.kind is not DdlKind.UNRELATED else None
    return LogEnd(end.last, end.end_us, statement)


def _is_before(end: Position, place: Position) -> bool:
    return server_of(end.proof) == server_of(place.proof) and end.order < place.order
