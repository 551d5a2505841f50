"""The checkpoint never goes back and never passes what is committed; no receipt goes before it is needless."""

from __future__ import annotations

from typing import Any

from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.log import receipts
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import EffectId
from tidelock.simulations.checkers.checker import Checker
from tidelock.simulations.ledger import Mistake


class Checkpoint(Checker):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._seen_passed = 0  # changes of the log that are at or below the checkpoint

    def saved(self, old: Position, new: Position, dropped: dict[EffectId, bytes]) -> None:
        ledger = self.ledger
        if new.order < old.order:
            raise Mistake(f"the checkpoint goes back from {old} to {new}")
        passed = ledger.history.index(new)
        while self._seen_passed < len(ledger.order) and ledger.index[ledger.order[self._seen_passed]] < passed:
            place = ledger.order[self._seen_passed]
            if place not in ledger.covered and not ledger.excused(place):
                raise Mistake(f"the checkpoint {new} passes {place}, which is not committed")
            self._seen_passed += 1
        for id_, covered in dropped.items():
            for place in receipts.decode(covered):
                if ledger.index[place] >= passed:
                    raise Mistake(f"the receipt {id_} of {place} is dropped with {new}, which is before it")

    def finished(self, machine: ApplyMachine) -> None:
        last = self.ledger.history.last
        if machine.watermark.saved.order != last.order or self.target.checkpoint.order != last.order:
            raise Mistake(f"the checkpoint stays at {self.target.checkpoint}, the log ends at {last}")
        if self.target.state.receipts and machine.pipeline.checkpointer.saved_here:
            raise Mistake(f"receipts stay behind the last checkpoint: {list(self.target.state.receipts)}")
