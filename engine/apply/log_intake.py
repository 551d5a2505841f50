"""The intake: batches of the log as they arrive, checked for order and kept until a window is planned of them.

A batch that is not next is asked for again, from a new reader, behind all that was taken; what is in flight goes on.  A
gap that the new reader shows too is no accident of the way: the feed halts.
"""

from __future__ import annotations

from tidelock.engine.apply.step_context import StepContext
from tidelock.engine.apply.streaming import Streaming
from tidelock.engine.copy.machine import CopyMachine
from tidelock.engine.log.chain import Chain, Verdict
from tidelock.engine.log.log_buffer import LogBuffer
from tidelock.engine.log.receipts import Fence
from tidelock.engine.model.errors import RESYNC, Alarm, Hindrance
from tidelock.engine.model.records import LogBatch, Position
from tidelock.engine.protocol.effects import RequestResend
from tidelock.engine.protocol.events import LogArrived, SourceFailed


class LogIntake:
    """Takes the log from one reader at a time.

    `buffer`: what is taken and not planned.  `hindrance`: why the source is not read just now, though that is tried.
    """

    def __init__(
        self,
        begin: Position,
        fence: Fence,
        streaming: Streaming,
        copying: CopyMachine,
        context: StepContext,
        *,
        atomic: bool,
    ) -> None:
        self.buffer = LogBuffer(atomic=atomic)
        self.hindrance: Hindrance | None = None
        self._chain = Chain(begin)
        self._fence = fence
        self._streaming = streaming
        self._copying = copying
        self._context = context
        self._gap_at: Position | None = None  # where a resend was asked for because of a gap

    def arrived(self, event: LogArrived) -> None:
        """Take the batches that are next, in order."""
        self.hindrance = None
        self.buffer.observe_size(event.size, sum(len(batch.rows) for batch in event.batches))
        for batch in event.batches:
            self._arrive(batch, self._chain.reader if event.reader is None else event.reader)

    def _arrive(self, batch: LogBatch, reader: int) -> None:
        match self._chain.judge(batch, reader):
            case Verdict.NEXT:
                self.buffer.put(batch)
                self._streaming.heard()
            case Verdict.DUPLICATE | Verdict.LATE:
                pass
            case Verdict.GAP if self._gap_at == self._chain.last:
                self._context.halt(_gap(self._chain.last, batch.prev))
            case Verdict.GAP:
                self._gap_at = self._chain.last
                self._resend()

    def source_failed(self, event: SourceFailed) -> None:
        """Ask for another reader, or halt where the log cannot be read on."""
        if event.retryable:
            self.hindrance = Hindrance.after(self.hindrance, self._context.now, event.alarm.message)
            self._resend()
        else:
            self._context.halt(event.alarm)

    def _resend(self) -> None:
        behind = self._chain.last
        self._context.emit(RequestResend(*self._chain.expect_resend(), self._fence.furthest(behind)))
        self._copying.interrupted()


def _gap(last: Position, prev: Position) -> Alarm:
    return Alarm(
        "gap",
        f"the log has a gap: {last} was followed by a record after {prev}",
        f"A resend did not close it: `tidelock run FEED` tries once more; if it stops here again, {RESYNC}",
        str(last),
    )
