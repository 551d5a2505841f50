"""Bugs of the checkpoint: too far, too early, back, twice at once; and of what waits for it."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

CHECKPOINT = (
    Mutant(
        "checkpoint-one-too-far",
        "tidelock.engine.log.watermark",
        """
        - if segments:
        -     self._left[window] = segments
        + if segments > 1:
        +     self._left[window] = segments - 1

        - assert self._left.get(window), f"a segment more than window {window} has"
        + if window not in self._left:
        +     return
        """,
        "a window is done one segment early",
    ),
    Mutant(
        "checkpoint-past-open-windows",
        "tidelock.engine.log.watermark",
        """
          self._waits = waits
        + if not segments:
        +     self.position = end
        """,
        "a window without rows moves the watermark past those that are open",
    ),
    Mutant(
        "checkpoint-as-read",
        "tidelock.engine.apply.machine",
        """
        - self._saving = SaveCheckpoint(self._next_id(), mark.position, mark.droppable())
        + self._saving = SaveCheckpoint(self._next_id(), self._chain.last, mark.droppable())
        """,
        "the checkpoint follows what was read, not what is committed",
        case="position ahead of the sink (debezium 7531)",
    ),
    Mutant(
        "receipts-dropped-ahead",
        "tidelock.engine.apply.machine",
        """
        - self._saving = SaveCheckpoint(self._next_id(), mark.position, mark.droppable())
        + self._saving = SaveCheckpoint(self._next_id(), mark.saved, mark.droppable())
        """,
        "receipts are dropped by the checkpoint in memory, not by the one that is written",
        row=4,
    ),
    Mutant(
        "receipts-dropped-one-window-early",
        "tidelock.engine.log.watermark",
        """
        - return tuple(sorted(receipt for window, receipt in self._receipts if window <= self.window))
        + return tuple(sorted(receipt for window, receipt in self._receipts if window <= self.window + 1))
        """,
        "the receipts of one more window go than the checkpoint passes",
        row=4,
    ),
    Mutant(
        "receipts-never-dropped",
        "tidelock.engine.log.watermark",
        """
        - return tuple(sorted(receipt for window, receipt in self._receipts if window <= self.window))
        + return ()
        """,
        "receipts pile up at the target",
    ),
    Mutant(
        "two-checkpoints-at-once",
        "tidelock.engine.apply.machine",
        """
        - if self._saving is None and news and self._now >= self._save_after:
        + if news and self._now >= self._save_after:
        """,
        "a checkpoint is written while another is on its way, and may come first",
        case="checkpoint going back (ticdc 6045)",
    ),
    Mutant(
        "caught-up-before-saved",
        "tidelock.engine.apply.machine",
        """
        - if comparable and mark.saved.order >= self._goal.order:
        + if comparable and mark.position.order >= self._goal.order:
        """,
        "the feed says that it has caught up before the checkpoint does",
    ),
    Mutant(
        "caught-up-by-another-servers-places",
        "tidelock.engine.apply.machine",
        """
        - if comparable and mark.saved.order >= self._goal.order:
        + if mark.saved.order >= self._goal.order:
        """,
        "a checkpoint of one server is compared with a goal of another",
        case="a replica promoted",
    ),
    Mutant(
        "caught-up-with-wishes-open",
        "tidelock.engine.apply.machine",
        """
        - if self._goal is None or self.state is not State.FLOWING or self.batches.wishing or self.batches.granted:
        + if self._goal is None or self.state is not State.FLOWING or self.batches.granted:
        """,
        "the feed says that it has caught up with a retry on its way",
    ),
    Mutant(
        "caught-up-with-a-wish-unsaved",
        "tidelock.engine.apply.machine",
        """
        - if self._goal is None or self.state is not State.FLOWING or self.batches.wishing or self.batches.granted:
        + if self._goal is None or self.state is not State.FLOWING or self.batches.wishing:
        """,
        "the feed says that it has caught up with a retry that the target may still forget",
    ),
    Mutant(
        "wish-without-a-checkpoint",
        "tidelock.engine.apply.machine",
        """
        - news = mark.position != mark.saved or self.batches.granted is not None
        + news = mark.position != mark.saved
        """,
        "a retry on an idle feed is never followed by a checkpoint",
    ),
    Mutant(
        "halt-before-saved",
        "tidelock.engine.apply.machine",
        """
        - if self._halting is not None and self._saving is None and mark.position == mark.saved:
        + if self._halting is not None and self._saving is None:
        """,
        "the feed halts at a statement with the checkpoint far before it",
    ),
    Mutant(
        "idle-checkpoints-hurry",
        "tidelock.engine.apply.machine",
        """
        - wait = self.options.checkpoint_us if mark.receipts else self.options.idle_checkpoint_us
        + wait = self.options.checkpoint_us
        """,
        "positions without rows are checkpointed at once: two idle feeds keep each other awake",
        row=16,
    ),
)
