"""Bugs of `consistency: transaction`: the order of commits, whole transactions, and an order that is stuck."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

COMMIT_ORDER = (
    Mutant(
        "commit-when-ready",
        """
        @ BatchScheduler.ready
        - self._commit_next(batch.turn)
        + batch.turn.enter(Phase.COMMITTING)
        + self._emit(CommitBatch(batch.effect.id))
        """,
        "transactions commit as soon as they can",
    ),
    Mutant(
        "head-of-those-sent",
        """
        @ CommitOrder.head
        - self._turns[0].order == self._committed_segments
        + True
        """,
        "the first transaction that was sent commits, though an earlier one waits for its lane",
    ),
    Mutant(
        "order-as-sent",
        """
        @ CommitOrder.sent
        - self._turns.sort(key=lambda one: one.order)
        """,
        "transactions stand in the order in which lanes sent them",
    ),
    Mutant(
        "stuck-order-not-broken",
        """
        @ CommitOrder.to_roll_back
        - not waits or now - self._head_since <= self._bound_us
        + True
        """,
        "an early transaction that a later one blocks waits for ever",
        row=13,
    ),
    Mutant(
        "stuck-order-not-seen-while-resting",
        """
        @ CommitOrder.to_roll_back
        - head.phase in (Phase.RUNNING, Phase.BACKOFF)
        + head.phase is Phase.RUNNING
        """,
        "an early transaction that times out on a later one's lock waits for ever",
        row=13,
    ),
    Mutant(
        "stuck-order-next-one-only",
        """
        @ CommitOrder.to_roll_back
        - self._turns[1:]
        + self._turns[1:2]
        """,
        "of the later transactions only the next is rolled back",
        row=13,
    ),
    Mutant(
        "transaction-cut-by-the-log",
        """
        @ WindowPlanner.plan
        - self._options.atomic and not self._buffer.has_complete_transaction
        + False
        """,
        "a window begins with a transaction whose end has not arrived",
    ),
    Mutant(
        "transaction-cut-by-the-window",
        """
        @ LogBuffer.window
        - self._atomic and taken and not open_ and not self.has_complete_transaction
        + False
        """,
        "a window goes on into a transaction whose end has not arrived",
    ),
    Mutant(
        "transaction-cut-by-the-limit",
        """
        @ LogBuffer.window
        - rows and not open_ and rows + len(batch.rows) > limit
        + rows and rows + len(batch.rows) > limit
        """,
        "a window ends at its limit inside a transaction",
    ),
    Mutant(
        "transaction-closed-by-an-empty-batch",
        """
        @ _left_open
        - not batch.transactions[-1].complete if batch.transactions else before
        + not batch.transactions[-1].complete if batch.transactions else False
        """,
        "a batch without rows ends the transaction that it is in the middle of",
    ),
)
