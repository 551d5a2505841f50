"""Bugs of the checkpoint: too far, too early, back, twice at once; and of what waits for it."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

CHECKPOINT = (
    Mutant(
        "checkpoint-one-too-far",
        """
        @ Watermark.open
        - if segments: ...
        + if segments > 1: ...

        - self._left[window] = segments
        + self._left[window] = segments - 1

        @ Watermark.done
        - assert self._left.get(window), f"a segment more than window {window} has"
        + if window not in self._left:
        +     return
        """,
        "a window is done one segment early",
    ),
    Mutant(
        "checkpoint-past-open-windows",
        """
        @ Watermark.open
          self._waits = waits
        + if not segments:
        +     self.position = end
        """,
        "a window without rows moves the watermark past those that are open",
    ),
    Mutant(
        "checkpoint-as-read",
        """
        @ Checkpointer.save
        - SaveCheckpoint(self._context.next_id(), mark.position, mark.droppable())
        + SaveCheckpoint(
        +     self._context.next_id(), mark._open[-1][1] if mark._open else mark.position, mark.droppable()
        + )
        """,
        "the checkpoint follows what was read, not what is committed",
        case="position ahead of the sink (debezium 7531)",
    ),
    Mutant(
        "receipts-dropped-ahead",
        """
        @ Checkpointer.save
        - SaveCheckpoint(self._context.next_id(), mark.position, mark.droppable())
        + SaveCheckpoint(self._context.next_id(), mark.saved, mark.droppable())
        """,
        "receipts are dropped by the checkpoint in memory, not by the one that is written",
        row=4,
    ),
    Mutant(
        "receipts-dropped-one-window-early",
        """
        @ Watermark.droppable
        - self.window
        + self.window + 1
        """,
        "the receipts of one more window go than the checkpoint passes",
        row=4,
    ),
    Mutant(
        "receipts-never-dropped",
        """
        @ Watermark.droppable
        + return ()
        """,
        "receipts pile up at the target",
    ),
    Mutant(
        "two-checkpoints-at-once",
        """
        @ Checkpointer.save
        - self._saving is None and news and now >= self._retry_at
        + news and now >= self._retry_at
        """,
        "a checkpoint is written while another is on its way, and may come first",
        case="checkpoint going back (ticdc 6045)",
    ),
    Mutant(
        "caught-up-before-saved",
        """
        @ Checkpointer.reach_goal
        - mark.saved.order
        + mark.position.order
        """,
        "the feed says that it has caught up before the checkpoint does",
    ),
    Mutant(
        "caught-up-by-another-servers-places",
        """
        @ Checkpointer.reach_goal
        - comparable and mark.saved.order >= self.goal.order
        + mark.saved.order >= self.goal.order
        """,
        "a checkpoint of one server is compared with a goal of another",
        case="a replica promoted",
    ),
    Mutant(
        "caught-up-with-wishes-open",
        """
        @ Checkpointer.reach_goal
        - self._batches.parked_retry.requested
        + False
        """,
        "the feed says that it has caught up with a retry on its way",
    ),
    Mutant(
        "caught-up-with-a-wish-unsaved",
        """
        @ Checkpointer.reach_goal
        - self._batches.unpositioned_receipt
        + False
        """,
        "the feed says that it has caught up with a retry that the target may still forget",
    ),
    Mutant(
        "wish-without-a-checkpoint",
        """
        @ Checkpointer.save
        - self._batches.unpositioned_receipt is not None
        + False
        """,
        "a retry on an idle feed is never followed by a checkpoint",
    ),
    Mutant(
        "halt-before-saved",
        """
        @ Checkpointer.settled
        - self._watermark.position == self._watermark.saved
        + True
        """,
        "the feed halts at a statement with the checkpoint far before it",
    ),
    Mutant(
        "idle-checkpoints-hurry",
        """
        @ Checkpointer.save
        - self._options.checkpoint_us if mark.receipts else self._options.idle_checkpoint_us
        + self._options.checkpoint_us
        """,
        "positions without rows are checkpointed at once: two idle feeds keep each other awake",
        row=16,
    ),
)
