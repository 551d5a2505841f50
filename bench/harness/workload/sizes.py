"""*small* and *huge*: the changes of *mix*, in transactions of one row each, and in a single one.

*small* is what a busy web shop logs, and costs the most for each row: each has a transaction's events.  *huge* is a
nightly job: a replicator that keeps transactions whole holds all of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.harness.workload.mix import Mix
from bench.harness.workload.workload import LARGE_TRANSACTION_ROWS, Transaction

HUGE_CHANGES_AT_MOST = 300_000  # it travels in one packet, and a server takes 64 MB


class Small(Mix):
    """One-row transactions only."""

    name = "small"

    def transactions(self, changes: int, seed: int) -> Iterator[Transaction]:
        self.seed(seed)
        for _ in range(changes):
            yield self.transaction(1)


class Huge(Mix):
    """All changes of a run in one transaction, in the statements of 50-row transactions."""

    name = "huge"

    def transactions(self, changes: int, seed: int) -> Iterator[Transaction]:
        """Raises ValueError for more changes than a packet holds."""
        if changes > HUGE_CHANGES_AT_MOST:
            raise ValueError(f"{changes} changes in one transaction: at most {HUGE_CHANGES_AT_MOST} travel in a packet")
        self.seed(seed)
        whole = Transaction([], [])
        while len(whole.kinds) < changes:
            part = self.transaction(min(LARGE_TRANSACTION_ROWS, changes - len(whole.kinds)))
            whole.statements += part.statements
            whole.kinds += part.kinds
        yield whole
