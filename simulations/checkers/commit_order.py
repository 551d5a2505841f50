"""`consistency: transaction`: commits are whole source transactions, in source order."""

from __future__ import annotations

from tidelock.simulations.checkers.checker import Checker, Commit
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.log_entry import Place


class CommitOrder(Checker):
    def committed(self, commit: Commit) -> None:
        if not self.atomic or not commit.places:
            return
        rest, done = self._rest(commit.places), len(commit.places)
        if {*commit.places} != {*rest[:done]}:
            raise Mistake(f"{commit.effect.id} is not what comes next in the log")
        if done < len(rest) and rest[done][:2] == rest[done - 1][:2]:
            raise Mistake(f"{commit.effect.id} ends inside a transaction")

    def _rest(self, places: list[Place]) -> list[Place]:
        """Returns places that were not committed before these; what comes with a chunk has no place in the order."""
        ledger = self.ledger
        if not ledger.copies:
            return ledger.order[len(ledger.covered) - len(places) :]
        own = {*places}
        return [p for p in ledger.order if p in own or not (p in ledger.covered or ledger.excused(p))]
