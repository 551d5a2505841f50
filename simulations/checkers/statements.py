"""A statement that changes the schema takes effect when all rows before it are in, and none behind it is."""

from __future__ import annotations

from tidelock.simulations.checkers.checker import Checker
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.log_entry import Entry


class Statements(Checker):
    def statement(self, entry: Entry) -> None:
        ledger = self.ledger
        assert entry.ddl is not None
        at = ledger.history.index(entry.end) - 1
        for place in ledger.order:
            index = ledger.index[place]
            if (index < at) != (place in ledger.covered) and not ledger.excused(place):
                raise Mistake(f"{entry.ddl.statement} runs {'after' if index > at else 'before'} {place}")
