"""The thread of the publisher process that reads the source: its batches → the flush buffer.

A source that keeps its log for the feed alone hears from here how far every group has stored its checkpoint: as batches
come, which an idle source sends each second, and while the buffer takes none, as before a statement, or without Kafka.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from tidelock.adapters.ports.capture_messages import CaptureOrder, Failed, Learned, Unanswered
from tidelock.adapters.ports.source import LogReader
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.wiring.sources import source_of
from tidelock.adapters.workers.group_commit import FlushBuffer, TooLarge
from tidelock.engine.cluster.log_partitioner import NoGroup
from tidelock.engine.model.records import Position

_MAKE_IT: Final = (
    "Create {} at the target (`tidelock init` prints the statement) or leave it out of `tables`, then "
    "`tidelock run FEED`"
)


class Capturing:
    """`stored`: returns the checkpoint that every group has stored or passed; None: that is not known.  `tell`: takes a
    transaction that is prepared for long.  `learned`: takes forms of tables; what it returns is set once they are kept.
    """

    def __init__(
        self,
        order: CaptureOrder,
        buffer: FlushBuffer,
        stored: Callable[[], Position | None],
        tell: Callable[[Unanswered], None],
        learned: Callable[[Learned], threading.Event],
    ) -> None:
        self._order = order
        self._buffer = buffer
        self._stored = stored
        self._tell = tell
        self._learned = learned
        self._noted = order.stored
        self._unanswered = Unanswered()

    def run(self) -> None:
        """Reads until that fails; then the buffer says why."""
        fail = self._buffer.fail
        try:
            if self._order.keeps_forms:
                self._learned(Learned()).wait()  # what was learned by those before is settled then
            self._read(source_of(self._order.source).reader(self._order))
        except SourceError as error:
            fail(Failed.of(error))
        except TooLarge as error:
            fail(Failed("TooLarge", str(error), error.hint, retryable=False))
        except NoGroup as error:
            fail(Failed("NoGroup", str(error), _MAKE_IT.format(error.table), retryable=False))
        except Exception as error:  # a bug: the parent must hear of it, whatever it is
            fail(Failed(type(error).__name__, f"the capture failed: {error!r}", "Please report this", False))
            raise

    def _read(self, reader: LogReader) -> None:
        for batch in reader.batches():
            if (learned := reader.take_learned()).forms:
                self._wait(reader, self._learned(learned).wait)
            self._wait(reader, self._buffer.has_room)
            self._buffer.add(batch)
            self._note_stored(reader)
            if (now := reader.unanswered) != self._unanswered:
                self._unanswered = now
                self._tell(now)

    def _wait(self, reader: LogReader, done: Callable[[float | None], bool]) -> None:
        """Returns once that is so; the source hears of us meanwhile.  `done`: waits for so many seconds."""
        while not done(reader.seconds_left):
            self._note_stored(reader)
            reader.tend()

    def _note_stored(self, reader: LogReader) -> None:
        stored = self._stored()
        if stored is not None and stored != self._noted:
            self._noted = stored
            reader.note_stored(stored)
