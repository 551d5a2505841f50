"""A journal (`runtime.journal`) as a log for Spark: what arrived at an apply machine, taken as the machine took it.

The file is on the driver's machine, and executors may be elsewhere.  So the records travel with the task that reads
them, up to `CARRIED_BYTES` of a file; a larger one must be where executors find it too.

One partition, 0.  A journal holds one run of a feed: the next run begins it anew, and a stream goes on over that only
if the new run's log has a cut at the stream's position.  It is read from its beginning each time, so it is for looking
at a run, not for following one for days.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from socket import gethostname
from typing import Final

import msgspec

from tidelock.adapters.runtime import journal
from tidelock.adapters.spark_stream.log import ChangesError, LogPlace, Slice, another_log, gap, named_alike, same_place
from tidelock.engine.log.chain import Chain, Verdict
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, Shape, TableName
from tidelock.engine.protocol.events import LogArrived, SourceFailed, TakenOver

CARRIED_BYTES: Final = 16 << 20


class Recording(msgspec.Struct, frozen=True):
    """A journal as `adapters.spark_stream.log.ChangeLog`; its records are numbered from 0."""

    path: str

    def first(self) -> dict[int, LogPlace]:
        """Returns where the journal begins."""
        for event in self._events():
            if isinstance(event, TakenOver):
                return {0: LogPlace(event.checkpoint, 0)}
        return {}

    def last(self, start: dict[int, LogPlace], most: int | None) -> dict[int, LogPlace]:
        """Returns where the journal ends, or `most` records behind `start`."""
        first = self.first()
        if not first:
            return start
        begin = start.get(0, first[0])
        end, count = None, 0
        for number, batch in self._taken():
            if end is None and not same_place(batch.prev, begin.position):
                continue
            if count == most:
                break
            end = LogPlace(batch.last, number + 1)
            count += 1
        if end is None and not same_place(self._end(), begin.position):
            raise self._begun_anew(begin)
        return {0: end or begin}

    def slices(self, start: dict[int, LogPlace], end: dict[int, LogPlace]) -> list[Slice]:
        """Returns the one slice between two places."""
        begin = start or self.first()
        if not end or same_place(begin[0].position, end[0].position):
            return []
        part = Slice(0, begin[0], end[0])
        small = Path(self.path).stat().st_size <= CARRIED_BYTES
        return [msgspec.structs.replace(part, carried=tuple(self._between(part)))] if small else [part]

    def read(self, part: Slice) -> Iterator[tuple[int, LogBatch]]:
        """Yields batches with their numbers.  Runs in a task of Spark."""
        return self._between(part) if part.carried is None else iter(part.carried)

    def _between(self, part: Slice) -> Iterator[tuple[int, LogBatch]]:
        stood: Position | None = None
        for number, batch in self._taken():
            if stood is None and not same_place(batch.prev, part.start.position):
                continue
            yield number, batch
            stood = batch.last
            if same_place(stood, part.end.position):
                return
        if stood is not None:
            raise gap(0, stood, part.end.position)
        raise self._begun_anew(part.start)

    def shape(self, table: TableName) -> Shape:
        """Returns the columns of a table as the journal used them last."""
        found = None
        for _, batch in self._taken():
            found = next((shape for shape in batch.shapes.values() if shape.name == table), found)
        if found is None:
            raise ChangesError(f"{self.path} holds no change of {table}", "`table` is schema.table as at the target")
        return found

    def _end(self) -> Position:
        end = self.first()[0].position
        for _, batch in self._taken():
            end = batch.last
        return end

    def _begun_anew(self, place: LogPlace) -> ChangesError:
        for _, batch in self._taken():
            for found in (batch.prev, batch.last):
                if named_alike(place.position, found):
                    return another_log(self.path, place.position, found)
        return ChangesError(
            f"{self.path} has no record that begins at {place.position}",
            "Another run of the feed has begun the journal anew: begin a new checkpoint too",
        )

    def _taken(self) -> Iterator[tuple[int, LogBatch]]:
        """Yields batches in the order of the chain, each with all shapes so far, numbered."""
        chain: Chain | None = None
        gap_at: Position | None = None
        shapes: dict[int, Shape] = {}
        number = 0
        for event in self._events():
            match event:
                case TakenOver():
                    chain = Chain(event.checkpoint)
                case SourceFailed(retryable=True) if chain is not None:
                    chain.expect_resend()
                case LogArrived() if chain is not None:
                    for batch in event.batches:
                        reader = chain.reader if event.reader is None else event.reader
                        match chain.judge(batch.prev, batch.last, reader, resent=batch.resent):
                            case Verdict.NEXT:
                                shapes = {**shapes, **batch.shapes}
                                batch.shapes = shapes
                                yield number, batch
                                number += 1
                            case Verdict.GAP if gap_at == chain.last:
                                raise gap(0, chain.last, batch.prev)
                            case Verdict.GAP:
                                gap_at = chain.last
                                chain.expect_resend()

    def _events(self) -> Iterator[object]:
        try:
            for step in journal.read(Path(self.path)):
                if isinstance(step, tuple):
                    yield from step[1]
        except journal.JournalError as error:
            raise ChangesError(str(error), "Read it with the version of Tidelock that wrote it") from None
        except OSError as error:
            raise ChangesError(
                f"{self.path} on {gethostname()}: {error.strerror or error}",
                "Is this the feed's `journal`? A large one must be at the same place on all machines of a cluster",
            ) from None
