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
        @ ApplyMachine._checkpoint
        - SaveCheckpoint(self._next_id(), mark.position, mark.droppable())
        + SaveCheckpoint(self._next_id(), self._chain.last, mark.droppable())
        """,
        "the checkpoint follows what was read, not what is committed",
        case="position ahead of the sink (debezium 7531)",
    ),
    Mutant(
        "receipts-dropped-ahead",
        """
        @ ApplyMachine._checkpoint
        - SaveCheckpoint(self._next_id(), mark.position, mark.droppable())
        + SaveCheckpoint(self._next_id(), mark.saved, mark.droppable())
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
        @ ApplyMachine._checkpoint
        - self._saving is None and news and self._now >= self._save_after
        + news and self._now >= self._save_after
        """,
        "a checkpoint is written while another is on its way, and may come first",
        case="checkpoint going back (ticdc 6045)",
    ),
    Mutant(
        "caught-up-before-saved",
        """
        @ ApplyMachine._reach_goal
        - mark.saved.order
        + mark.position.order
        """,
        "the feed says that it has caught up before the checkpoint does",
    ),
    Mutant(
        "caught-up-by-another-servers-places",
        """
        @ ApplyMachine._reach_goal
        - comparable and mark.saved.order >= self._goal.order
        + mark.saved.order >= self._goal.order
        """,
        "a checkpoint of one server is compared with a goal of another",
        case="a replica promoted",
    ),
    Mutant(
        "caught-up-with-wishes-open",
        """
        @ ApplyMachine._reach_goal
        - self.batches.wishing
        + False
        """,
        "the feed says that it has caught up with a retry on its way",
    ),
    Mutant(
        "caught-up-with-a-wish-unsaved",
        """
        @ ApplyMachine._reach_goal
        - self.batches.granted
        + False
        """,
        "the feed says that it has caught up with a retry that the target may still forget",
    ),
    Mutant(
        "wish-without-a-checkpoint",
        """
        @ ApplyMachine._checkpoint
        - self.batches.granted is not None
        + False
        """,
        "a retry on an idle feed is never followed by a checkpoint",
    ),
    Mutant(
        "halt-before-saved",
        """
        @ ApplyMachine._checkpoint
        - mark.position == mark.saved
        + True
        """,
        "the feed halts at a statement with the checkpoint far before it",
    ),
    Mutant(
        "idle-checkpoints-hurry",
        """
        @ ApplyMachine._checkpoint
        - self.options.checkpoint_us if mark.receipts else self.options.idle_checkpoint_us
        + self.options.checkpoint_us
        """,
        "positions without rows are checkpointed at once: two idle feeds keep each other awake",
        row=16,
    ),
)
