"""`consistency: transaction`: commits are whole source transactions, in source order."""

from __future__ import annotations

from simulations.checkers.checker import Checker, Commit
from simulations.ledger import Mistake


class CommitOrder(Checker):
    def committed(self, commit: Commit) -> None:
        if not self.atomic or not commit.places:
            return
        covered, order = self.ledger.covered, self.ledger.order
        done = len(covered)
        first = done - len(commit.places)
        if {*commit.places} != {*order[first:done]}:
            raise Mistake(f"{commit.effect.id} is not what comes next in the log")
        if done < len(order) and order[done][:2] == order[done - 1][:2]:
            raise Mistake(f"{commit.effect.id} ends inside a transaction")
