"""Protocol of a log for the data source: where it begins and ends, and the records between two places of a partition.

A *place* is a position of the source's log, which says by itself where reading goes on.  Beside it is kept where the
record behind it was found last, a hint that saves the search.  Places of all partitions, as JSON, are Spark's offsets:
`{"0": {"file": "binlog.000003", "offset": 4567, "rows": 0, "gtids": "", "at": 81}}`.

*Exactness*: a reader from one place to another walks the chain (`engine.log.chain`).  A record that came before is
dropped.  A missing record is an error, and so is a chain that does not end where it should.  So is a place of another
log, even under the same name (`engine.model.lineage`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import msgspec

from tidelock.adapters.ports.history_words import told
from tidelock.engine.log.chain import Chain, Verdict
from tidelock.engine.model.lineage import agree, decode
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position


class ChangesError(Exception):
    """The changes cannot be read: what is wrong and, in `hint`, what to do.  Holds no secret."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}. {hint}" if hint else message)
        self.message, self.hint = message, hint

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.hint)


class UntoldValue(ChangesError):
    """A row after an update is not told whole: the update left a long value as it was."""


class LogPlace(msgspec.Struct, frozen=True):
    """A place behind `position`.  `at`: number of the next record (Kafka: its offset); -1: to be looked for."""

    position: Position
    at: int = -1


class Slice(msgspec.Struct, frozen=True):
    """The work of one task: a partition's records from one place to another.

    `carried`: these records, with their numbers, where they are on the driver's machine only.
    """

    partition: int
    start: LogPlace
    end: LogPlace
    carried: tuple[tuple[int, LogBatch], ...] | None = None


class ChangeLog(Protocol):
    """A log of changes.  It can be pickled.  Every method raises ChangesError."""

    def first(self) -> dict[int, LogPlace]:
        """Returns where each partition begins; one that never held a record is left out."""
        ...

    def last(self, start: dict[int, LogPlace], most: int | None) -> dict[int, LogPlace]:
        """Returns where each partition ends, or `most` records behind its `start`, where that is earlier."""
        ...

    def slices(self, start: dict[int, LogPlace], end: dict[int, LogPlace]) -> list[Slice]:
        """Returns the work between two offsets."""

    def read(self, part: Slice) -> Iterator[tuple[int, LogBatch]]:
        """Yields records with their numbers: each once, in order, none missing."""
        ...


def offsets(places: dict[int, LogPlace]) -> dict[str, dict[str, Any]]:
    """Returns places as Spark stores them."""
    return {
        str(partition): {**msgspec.structs.asdict(place.position), "at": place.at}
        for partition, place in sorted(places.items())
    }


def places(stored: Any) -> dict[int, LogPlace]:
    """Parses places as Spark stores them; `at` may be missing.  Raises ChangesError."""
    try:
        return {int(number): _place(dict(fields)) for number, fields in stored.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise ChangesError(
            f"no offsets of this source: {error}",
            'They look like {"0": {"file": "binlog.000003", "offset": 4567}}, with "rows" and "gtids" where not empty',
        ) from None


def _place(fields: dict[str, Any]) -> LogPlace:
    at = int(fields.pop("at", -1))
    return LogPlace(Position(**fields), at)


def follow(records: Iterable[tuple[int, LogBatch]], part: Slice) -> Iterator[tuple[int, LogBatch]]:
    """Yields the records of the slice out of those that were read from its start on.  Raises ChangesError."""
    chain = Chain(part.start.position)
    begun = False
    for number, batch in records:
        if not begun:
            if batch.prev.order < part.start.position.order:
                continue
            batch.resent = True
        match chain.judge(batch.prev, batch.last, 0, resent=batch.resent):
            case Verdict.NEXT:
                begun = True
                yield number, batch
            case Verdict.GAP:
                raise gap(part.partition, chain.last, batch.prev)
    if not same_place(chain.last, part.end.position):
        raise gap(part.partition, chain.last, part.end.position)


def named_alike(one: Position, other: Position) -> bool:
    """Returns whether places are of two logs that bear one name."""
    return one.order == other.order and not agree(one.proof, other.proof)


def same_place(one: Position, other: Position) -> bool:
    """Returns whether two places are one, as the chain sees it where reading begins."""
    if not agree(one.proof, other.proof):
        return False
    if one.gtids and other.gtids:
        return one.gtids == other.gtids and one.rows == other.rows
    return one.order == other.order


def gap(partition: int, stood: Position, found: Position) -> ChangesError:
    """Returns the error about missing records."""
    if named_alike(stood, found):
        return another_log(f"partition {partition} of the log", stood, found)
    return ChangesError(
        f"partition {partition} of the log has a gap: behind {stood} the next record begins at {found}",
        "Records are missing: something else wrote to the log, or lost a part of it. Nothing behind it can be read "
        "exactly: copy the tables anew, and begin a new checkpoint",
    )


def another_log(where: str, stood: Position, found: Position) -> ChangesError:
    """Returns the error that `where` was read up to `stood`, and now has another log's place of that name."""
    before, now = decode(stood.proof), decode(found.proof)
    assert before is not None and now is not None, "else they agree"
    return ChangesError(
        f"{where} is of another log than the one that was read up to {stood}: that was {told(stood, before)}; here is "
        f"{told(found, now)}",
        "The source's log was reset, or it was put back from a backup, or another server has its name. Nothing behind "
        "that place can be read exactly: copy the tables anew, and begin a new checkpoint",
    )
