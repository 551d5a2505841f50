"""Bugs of `consistency: transaction`: the order of commits, whole transactions, and an order that is stuck."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

COMMIT_ORDER = (
    Mutant(
        "commit-when-ready",
        "tidelock.engine.batch.scheduler",
        """
          elif self._options.atomic:
        -     self._head()
        +     self._commit(attempt)
        """,
        "transactions commit as soon as they can",
    ),
    Mutant(
        "head-of-those-sent",
        "tidelock.engine.batch.scheduler",
        """
        - return self._order[0] if self._order and self._order[0].order == self._committed_segments else None
        + return self._order[0] if self._order else None
        """,
        "the first transaction that was sent commits, though an earlier one waits for its lane",
    ),
    Mutant(
        "order-as-sent",
        "tidelock.engine.batch.scheduler",
        """
        - self._order.sort(key=lambda a: a.order)
        """,
        "transactions stand in the order in which lanes sent them",
    ),
    Mutant(
        "stuck-order-not-broken",
        "tidelock.engine.batch.scheduler",
        """
        - if waits and self.now - self._head_since > self._options.commit_bound_us:
        + if False:
        """,
        "an early transaction that a later one blocks waits for ever",
        row=13,
    ),
    Mutant(
        "stuck-order-not-seen-while-resting",
        "tidelock.engine.batch.scheduler",
        """
        - waits = head is not None and head.phase in (Phase.RUNNING, Phase.RESTING)  # a lock timeout makes it rest
        + waits = head is not None and head.phase is Phase.RUNNING  # a lock timeout makes it rest
        """,
        "an early transaction that times out on a later one's lock waits for ever",
        row=13,
    ),
    Mutant(
        "stuck-order-next-one-only",
        "tidelock.engine.batch.scheduler",
        """
        - for later in self._order[1:]:
        + for later in self._order[1:2]:
        """,
        "of the later transactions only the next is rolled back",
        row=13,
    ),
    Mutant(
        "transaction-cut-by-the-log",
        "tidelock.engine.apply.machine",
        """
        - if self.options.atomic and not self._inbox.whole:
        + if False:
        """,
        "a window begins with a transaction whose end has not arrived",
    ),
    Mutant(
        "transaction-cut-by-the-window",
        "tidelock.engine.log.log_buffer",
        """
        - if self._atomic and taken and not open_ and not self.whole:
        + if False:
        """,
        "a window goes on into a transaction whose end has not arrived",
    ),
    Mutant(
        "transaction-cut-by-the-limit",
        "tidelock.engine.log.log_buffer",
        """
        - if rows and not open_ and rows + len(batch.rows) > limit:
        + if rows and rows + len(batch.rows) > limit:
        """,
        "a window ends at its limit inside a transaction",
    ),
    Mutant(
        "transaction-closed-by-an-empty-batch",
        "tidelock.engine.log.log_buffer",
        """
        - return not batch.transactions[-1].complete if batch.transactions else before
        + return not batch.transactions[-1].complete if batch.transactions else False
        """,
        "a batch without rows ends the transaction that it is in the middle of",
    ),
)
