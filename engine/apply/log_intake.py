"""The intake: order among the batches of the log as they arrive.

It goes by their positions; the batches themselves go to its `buffer`, where they are until a window is planned of them.

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
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import RequestResend
from tidelock.engine.protocol.events import SourceFailed


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

    def arrived(self, size: int, rows: int) -> None:
        """Note that the source is read: so many rows came in so many bytes (0: it is not known)."""
        self.hindrance = None
        self.buffer.observe_size(size, rows)

    def admits(self, prev: Position, last: Position, reader: int | None, *, resent: bool) -> bool:
        """Tells whether the batch between these positions is next.

        Then it belongs into the buffer; behind a gap, a resend is asked for.  `reader`: number of the one that sent it;
        None: of the one that was asked for last.
        """
        match self._chain.judge(prev, last, self._chain.reader if reader is None else reader, resent=resent):
            case Verdict.NEXT:
                self._streaming.heard()
                return True
            case Verdict.DUPLICATE | Verdict.LATE:
                pass
            case Verdict.GAP if self._gap_at == self._chain.last:
                self._context.halt(_gap(self._chain.last, prev))
            case Verdict.GAP:
                self._gap_at = self._chain.last
                self._resend()
        return False

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
