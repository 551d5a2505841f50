"""Bugs in how rows are compared before they are written (`verify: image`), in the engine and at the target."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

LOOKING = (
    Mutant(
        "null-is-not-null",
        """
        @ same
        - old == new
        + old == new and old is not None
        """,
        "an image is compared with `=`, which NULL is never equal to: rows that nobody touched are blamed",
    ),
    Mutant(
        "doubt-blamed-on-the-image",
        """
        @ Lanes._execute
        - effect.id in self.state.receipts
        + effect.id in self.state.receipts and not any(step.checks for step in effect.steps)
        """,
        "a batch that was committed without an answer is compared before its receipt is asked, and refused",
    ),
    Mutant(
        "later-change-passes-a-locked-row",
        """
        @ ParkedRows.holds
        - change.binding.name in self._parked and self._meets(_keys(change))
        + change.before is not None and change.binding.name in self._parked and self._meets(_keys(change))
        """,
        "an insert does not wait behind the failed changes of its row, and takes the place of one that is gone",
    ),
    Mutant(
        "insert-over-a-row-that-is-there",
        """
        @ _with_images_of
        - UpsertRows(table, step.rows, fresh=True, absent=True)
        + UpsertRows(table, step.rows, fresh=True)

        @ image_steps_in_order
        - step.absent = True
        + pass
        """,
        "an insert writes over a row that somebody else has put there",
    ),
    Mutant(
        "image-of-the-last-change-of-a-fold",
        """
        @ _with_first_images
        - {binding.key_of(before): before for before, _ in rows.values() if before is not None}
        + {binding.key_of(c.before): c.before for c in changes if c.binding is binding and c.before is not None}
        """,
        "of a row that changes twice in a batch the later before-image is compared",
    ),
    Mutant(
        "log-order-compares-nothing",
        """
        @ image_steps_in_order
        - _is_compared(step.table)
        + False
        """,
        "the search for the bad row writes over it",
    ),
    Mutant(
        "an-equal-version-is-written",
        """
        @ looking.newer
        - new > old
        + new >= old
        """,
        "a row that has the same version at the target is written over",
    ),
    Mutant(
        "retry-compares-nothing",
        """
        @ RetryRequests.start
        - self._make_steps(self.changes, ranks)
        + merge(self.changes, ranks)
        """,
        "a failed row that is tried again is written over whatever is there",
    ),
)
