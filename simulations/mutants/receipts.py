"""Bugs around exactly once: receipts, the fence after a takeover, batches and checkpoints in doubt."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

FENCE = (
    Mutant(
        "fence-skipped",
        "tidelock.engine.apply.machine",
        """
        - changes, spent = self._fence.admit(changes)
        + spent = self._fence.admit(changes)[1]
        """,
        "rows that receipts cover are applied again after a takeover",
        row=3,
    ),
    Mutant(
        "fence-for-the-first-window",
        "tidelock.engine.apply.machine",
        """
        - if self._log_end is not None and end.order >= self._log_end.order:
        + if self._log_end is not None:
        """,
        "the fence closes with the first window that it let through",
        row=4,
    ),
    Mutant(
        "fence-closed-on-arrival",
        "tidelock.engine.apply.machine",
        """
        - if self._log_end is not None and end.order >= self._log_end.order:
        + if self._log_end is not None and self._chain.last.order >= self._log_end.order:
        """,
        "the fence closes when the log has arrived, though rows before its end are not planned",
        row=4,
    ),
    Mutant(
        "fence-never-closed",
        "tidelock.engine.apply.machine",
        """
        - spent += self._fence.close()
        + pass
        """,
        "receipts that straddle the checkpoint are kept for ever",
    ),
    Mutant(
        "fence-whole-transactions",
        "tidelock.engine.log.receipts",
        """
        - self._rows[source, number, first] = receipt.id
        + self._rows[source, number, 0] = receipt.id

        - id_ = self._rows.pop((change.source, change.number, change.ordinal), None)
        + id_ = self._rows.get((change.source, change.number, 0))
        """,
        "a receipt is taken to cover all rows of its transactions",
    ),
    Mutant(
        "fence-without-source",
        "tidelock.engine.log.receipts",
        """
        - self._rows[source, number, first] = receipt.id
        + self._rows['', number, first] = receipt.id

        - id_ = self._rows.pop((change.source, change.number, change.ordinal), None)
        + id_ = self._rows.pop(('', change.number, change.ordinal), None)
        """,
        "transactions of two sources with one number are taken for one",
        case="a replica promoted",
    ),
    Mutant(
        "receipt-spent-by-its-first-row",
        "tidelock.engine.log.receipts",
        """
        - self._left[id_] -= 1
        - if self._left[id_] == 0:
        + if self._left.pop(id_, None) is not None:
        """,
        "a receipt may go when the first of its rows has come by",
        row=4,
    ),
    Mutant(
        "receipt-spent-in-the-window-before",
        "tidelock.engine.apply.machine",
        """
        - self.watermark.receipt(self.watermark.upcoming(), receipt)
        + self.watermark.receipt(self.watermark.window, receipt)
        """,
        "a receipt goes with a checkpoint before its last row",
        row=4,
    ),
    Mutant(
        "receipt-in-its-lowest-window",
        "tidelock.engine.batch.in_flight_batch",
        """
        - self.window = max(s.window for s in segments)
        + self.window = min(s.window for s in segments)
        """,
        "receipts are deleted by their lowest position",
        row=4,
    ),
    Mutant(
        "receipt-of-all-pieces",
        "tidelock.engine.batch.scheduler",
        """
        - covered = attempt.changes if isolation is None else isolation.piece
        + covered = attempt.changes
        """,
        "a piece of a split batch says that it covers all of it",
    ),
    Mutant(
        "empty-receipts-forgotten",
        "tidelock.engine.apply.machine",
        """
        - self.watermark.receipt(-1, receipt)
        + pass
        """,
        "receipts that cover no row are kept for ever after a takeover",
    ),
    Mutant(
        "receipts-of-wishes-forgotten",
        "tidelock.engine.batch.scheduler",
        """
        - self._watermark.receipt(self._watermark.window, id_)
        """,
        "receipts of retries are kept until the next takeover",
    ),
)

DOUBT = (
    Mutant(
        "doubt-planned-anew",
        "tidelock.engine.batch.scheduler",
        """
          for attempt in due:
        -     self._dispatch(attempt)
        +     self._send(attempt)
        """,
        "a batch whose COMMIT was not answered is sent under a new id",
        row=4,
    ),
    Mutant(
        "doubt-taken-for-committed",
        "tidelock.engine.batch.scheduler",
        """
        + if failure.trouble == "in_doubt":
        +     self.committed(id_)
        +     return
          if policy(failure) is Policy.RETRY:
              self.retries += 1
        """,
        "a batch whose COMMIT was not answered counts as committed",
    ),
    Mutant(
        "doubt-split",
        "tidelock.engine.model.errors",
        """
        - case Trouble.TRANSIENT | Trouble.IN_DOUBT:
        + case Trouble.TRANSIENT:

        - case Trouble.ROW:
        + case Trouble.ROW | Trouble.IN_DOUBT:
        """,
        "a batch whose COMMIT was not answered is searched for a bad row",
        row=4,
    ),
    Mutant(
        "doubtful-wish-planned-anew",
        "tidelock.engine.batch.parked_retry",
        """
        - if self._batch is not None:
        -     return self._batch
        """,
        "a retry whose COMMIT was not answered is sent under a new id",
        row=4,
    ),
    Mutant(
        "doubtful-checkpoint-taken-for-saved",
        "tidelock.engine.apply.machine",
        """
          if self._saving is not None and event.id == self._saving.id:
        +     self.watermark.saved = self._saving.position
        """,
        "a checkpoint that failed counts as saved",
    ),
    Mutant(
        "repeated-answer-counts",
        "tidelock.engine.batch.scheduler",
        """
        - attempt = self._attempts.pop(id_, None)
        + attempt = self._attempts.get(id_)
        """,
        "an answer that comes twice commits a batch twice",
        case="answers repeated by the network",
    ),
    Mutant(
        "any-answer-saves",
        "tidelock.engine.apply.machine",
        """
        - if saving is None or event.id != saving.id:
        + if saving is None:
        """,
        "a late answer to an earlier checkpoint confirms the present one",
        case="answers late or repeated by the network",
    ),
    Mutant(
        "fenced-owner-raises-an-alarm",
        "tidelock.engine.model.errors",
        """
        - case Trouble.FENCED | Trouble.REWOUND:
        + case Trouble.REWOUND:

        - case Trouble.TARGET:
        + case Trouble.TARGET | Trouble.FENCED:
        """,
        "an owner that was fenced off halts the feed, which has a new owner",
    ),
    Mutant(
        "rewound-target-given-up",
        "tidelock.engine.apply.machine",
        """
        - self._effects.append(StandDown(failure.message, failure.trouble is Trouble.REWOUND))
        + self._effects.append(StandDown(failure.message, failure.trouble is Trouble.FENCED))
        """,
        "an owner whose target lost commits does not take over again, a fenced one does",
        case="a target that lost commits after a crash",
    ),
)
