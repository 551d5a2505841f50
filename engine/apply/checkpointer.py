"""The checkpointer: when the place up to which all is committed is stored at the target, and what waits for that.

One checkpoint is on its way at a time: two could be stored in either order, and the older one would go back.  A merge
and the begin of a copy save one with them (`copy.machine`), so they and this one exclude each other.
"""

from __future__ import annotations

from tidelock.engine.apply.step_context import StepContext
from tidelock.engine.batch.scheduler import BatchScheduler
from tidelock.engine.copy.machine import CopyMachine
from tidelock.engine.log.watermark import Watermark
from tidelock.engine.model.errors import Hindrance, Policy, policy
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import CaughtUp, EffectId, SaveCheckpoint
from tidelock.engine.protocol.events import CheckpointFailed, CheckpointSaved

_RETRY_US = 200_000


class Checkpointer:
    """Saves checkpoints: soon while rows flow, at once at the end, rarely while idle.

    `goal`: the place at which the feed has caught up, if somebody wants to know.
    `hindrance`: why a checkpoint is not stored just now, though that is tried.
    `saved_here`: this owner has stored one.
    """

    def __init__(
        self,
        options: Options,
        watermark: Watermark,
        batches: BatchScheduler,
        copying: CopyMachine,
        context: StepContext,
        goal: Position | None,
    ) -> None:
        self.goal = goal
        self.hindrance: Hindrance | None = None
        self.saved_here = False
        self._options = options
        self._watermark = watermark
        self._batches = batches
        self._copying = copying
        self._context = context
        self._saving: SaveCheckpoint | None = None  # on its way
        self._saved_at = 0
        self._retry_at = 0

    @property
    def saving(self) -> bool:
        """Tells whether a checkpoint is on its way."""
        return self._saving is not None

    @property
    def settled(self) -> bool:
        """Tells whether all that is committed is below the stored checkpoint, and none is on its way."""
        return self._saving is None and self._watermark.position == self._watermark.saved

    def save(self, *, hurry: bool) -> None:
        """Save when there is something to say; `hurry`: without a wait, as something waits for it.

        What an operator asked for moves no position, yet a checkpoint must follow it: until then the target may forget
        it.
        """
        mark, now = self._watermark, self._context.now
        news = mark.position != mark.saved or self._batches.unpositioned_receipt is not None
        if self._saving is None and news and now >= self._retry_at:
            wait = self._options.checkpoint_us if mark.receipts else self._options.idle_checkpoint_us
            hurry = hurry or (self.goal is not None and mark.position.order >= self.goal.order) or self._far_behind()
            if hurry or now - self._saved_at >= wait:
                self._saving = SaveCheckpoint(self._context.next_id(), mark.position, mark.droppable())
                self._context.emit(self._saving)

    def _far_behind(self) -> bool:
        """Tells whether the source keeps much of its log for a checkpoint that is idle."""
        place, stored, most = self._watermark.position, self._watermark.saved, self._options.idle_checkpoint_bytes
        return 0 < most <= place.offset - stored.offset and place.file == stored.file

    def saved(self, event: CheckpointSaved) -> Position | None:
        """Take the answer; returns the checkpoint, None where the answer is stale."""
        saving = self._saving
        if saving is None or event.id != saving.id:
            return None
        self._saving = self.hindrance = None
        self.stored(saving.position, saving.drop)
        return saving.position

    def failed(self, event: CheckpointFailed) -> None:
        """Try again a little later, or end this owner."""
        if self._saving is None or event.id != self._saving.id:
            return
        self._saving = None
        self.hindrance = Hindrance.after(self.hindrance, self._context.now, event.failure.message)
        self._retry_at = self._context.now + _RETRY_US
        if policy(event.failure) is not Policy.RETRY:
            self._context.give_up(event.failure, self._watermark.position)

    def stored(self, position: Position, drop: tuple[EffectId, ...]) -> None:
        """Note that the target holds this checkpoint, and these receipts no more."""
        self._saved_at = self._context.now
        self._watermark.saved = position
        self.saved_here = True
        self._watermark.dropped(drop)
        if self._batches.unpositioned_receipt in drop:
            self._batches.unpositioned_receipt = None

    def reach_goal(self) -> None:
        """Tell once all at or below the goal is committed and below the checkpoint.

        Only places of the log that is read now compare with the goal.  The checkpoint that the takeover found may be of
        another server, until this owner has stored one, or has read that there is nothing behind it.
        """
        if self.goal is None or self._batches.parked_retry.requested or self._batches.unpositioned_receipt:
            return
        if self._copying:
            return
        mark = self._watermark
        comparable = self.saved_here or (mark.window >= 0 and mark.position == mark.saved)
        if comparable and mark.saved.order >= self.goal.order:
            self.goal = None
            self._context.emit(CaughtUp())
