"""Bugs around exactly once: receipts, the fence after a takeover, batches and checkpoints in doubt."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

FENCE = (
    Mutant(
        "fence-skipped",
        """
        @ WindowPlanner._effective
        - changes, spent = self._fence.admit(changes)
        + spent = self._fence.admit(changes)[1]
        """,
        "rows that receipts cover are applied again after a takeover",
        row=3,
    ),
    Mutant(
        "fence-for-the-first-window",
        """
        @ WindowPlanner._effective
        - end.order >= self._log_end.order
        + True
        """,
        "the fence closes with the first window that it let through",
        row=4,
    ),
    Mutant(
        "fence-closed-on-arrival",
        """
        @ WindowPlanner._effective
        - end.order
        + self._intake._chain.last.order
        """,
        "the fence closes when the log has arrived, though rows before its end are not planned",
        row=4,
    ),
    Mutant(
        "fence-never-closed",
        """
        @ WindowPlanner._effective
        - spent += self._fence.close()
        """,
        "receipts that straddle the checkpoint are kept for ever",
    ),
    Mutant(
        "fence-whole-transactions",
        """
        @ Fence.__init__
        - self._rows[source, number, first] = receipt.id
        + self._rows[source, number, 0] = receipt.id

        @ Fence.admit
        - self._rows.pop((change.source, change.number, change.ordinal), None)
        + self._rows.get((change.source, change.number, 0))
        """,
        "a receipt is taken to cover all rows of its transactions",
    ),
    Mutant(
        "fence-without-source",
        """
        @ Fence.__init__
        - self._rows[source, number, first] = receipt.id
        + self._rows["", number, first] = receipt.id

        @ Fence.admit
        - self._rows.pop((change.source, change.number, change.ordinal), None)
        + self._rows.pop(("", change.number, change.ordinal), None)
        """,
        "transactions of two sources with one number are taken for one",
        case="a replica promoted",
    ),
    Mutant(
        "receipt-spent-by-its-first-row",
        """
        @ Fence.admit
        - self._left[id_] -= 1
        - if self._left[id_] == 0:
        -     spent.append(id_)
        + if self._left.pop(id_, None) is not None:
        +     spent.append(id_)
        """,
        "a receipt may go when the first of its rows has come by",
        row=4,
    ),
    Mutant(
        "receipt-spent-in-the-window-before",
        """
        @ WindowPlanner._effective
        - self._watermark.upcoming()
        + self._watermark.window
        """,
        "a receipt goes with a checkpoint before its last row",
        row=4,
    ),
    Mutant(
        "receipt-in-its-lowest-window",
        """
        @ BatchScheduler.send
        - max(s.window for s in segments)
        + min(s.window for s in segments)
        """,
        "receipts are deleted by their lowest position",
        row=4,
    ),
    Mutant(
        "receipt-of-all-pieces",
        """
        @ BatchScheduler._send
        - batch.changes if search is None else search.piece
        + batch.changes
        """,
        "a piece of a split batch says that it covers all of it",
    ),
    Mutant(
        "empty-receipts-forgotten",
        """
        @ Pipeline.__init__
        - watermark.receipt(-1, receipt)
        """,
        "receipts that cover no row are kept for ever after a takeover",
    ),
    Mutant(
        "receipts-of-wishes-forgotten",
        """
        @ BatchScheduler.committed
        - self._watermark.receipt(self._watermark.window, id_)
        """,
        "receipts of retries are kept until the next takeover",
    ),
)

DOUBT = (
    Mutant(
        "doubt-planned-anew",
        """
        @ BatchScheduler.tick
        - self._dispatch(batch)
        + self._send(batch)
        """,
        "a batch whose COMMIT was not answered is sent under a new id",
        row=4,
    ),
    Mutant(
        "doubt-taken-for-committed",
        """
        @ BatchScheduler.failed
        + if failure.kind == "in_doubt":
        +     self.committed(id_)
        +     return
          if policy(failure) is Policy.RETRY: ...
        """,
        "a batch whose COMMIT was not answered counts as committed",
    ),
    Mutant(
        "doubt-split",
        """
        @ policy
        + if failure.kind is ErrorKind.IN_DOUBT:
        +     return Policy.SPLIT
        + ...
        """,
        "a batch whose COMMIT was not answered is searched for a bad row",
        row=4,
    ),
    Mutant(
        "doubtful-wish-planned-anew",
        """
        @ RetryRequests.start
        - if self._batch is not None:
        -     return self._batch
        """,
        "a retry whose COMMIT was not answered is sent under a new id",
        row=4,
    ),
    Mutant(
        "doubtful-checkpoint-taken-for-saved",
        """
        @ Checkpointer.failed
        + self._watermark.saved = self._saving.position
          self._saving = None
        """,
        "a checkpoint that failed counts as saved",
    ),
    Mutant(
        "repeated-answer-counts",
        """
        @ BatchScheduler.committed
        - self._batches.pop(id_, None)
        + self._batches.get(id_)
        """,
        "an answer that comes twice commits a batch twice",
        case="answers repeated by the network",
    ),
    Mutant(
        "any-answer-saves",
        """
        @ Checkpointer.saved
        - event.id != saving.id
        + False
        """,
        "a late answer to an earlier checkpoint confirms the present one",
        case="answers late or repeated by the network",
    ),
    Mutant(
        "fenced-owner-raises-an-alarm",
        """
        @ policy
        + if failure.kind is ErrorKind.FENCED:
        +     return Policy.HALT
        + ...
        """,
        "an owner that was fenced off halts the feed, which has a new owner",
    ),
    Mutant(
        "rewound-target-given-up",
        """
        @ StepContext.give_up
        - failure.kind is not ErrorKind.FENCED
        + failure.kind is ErrorKind.FENCED
        """,
        "an owner whose target lost commits does not take over again, a fenced one does",
        case="a target that lost commits after a crash",
    ),
)
