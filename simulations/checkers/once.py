"""No row version is applied twice, none is lost, and none that is not in the log (or must not come back) is applied."""

from __future__ import annotations

from typing import Any

from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.simulations.checkers.checker import Checker, Commit
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.log_entry import Place


class Once(Checker):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sent: dict[EffectId, ApplyBatch] = {}
        self._seen_covered: dict[Place, EffectId] = {}

    def sent(self, effect: ApplyBatch) -> None:
        if self._sent.setdefault(effect.id, effect) is not effect:
            raise Mistake(f"{effect.id} was sent with another content")

        wished = self.target.state.wished
        if effect.steps and effect.unparked and all(wished.get(place) == "skip" for place in effect.unparked):
            raise Mistake(f"{effect.id} writes rows that the operator gave up: {effect.steps}")

    def committed(self, commit: Commit) -> None:
        id_ = commit.effect.id
        for place in commit.places:
            if place not in self.ledger.index:
                raise Mistake(f"{id_} covers {place}, which is not in the log for this target")
            if self.ledger.excused(place):
                raise Mistake(f"{id_} covers {place}, which comes with a chunk")
            if place in self._seen_covered:
                raise Mistake(f"{id_} covers {place}, which {self._seen_covered[place]} covered")
            self._seen_covered[place] = id_

    def finished(self, machine: ApplyMachine) -> None:
        ledger, parked = self.ledger, self.target.parked
        for place in ledger.order:
            fates = [place in fate for fate in (ledger.applied, ledger.skipped, ledger.emptied, parked)]
            if ledger.excused(place):
                if any(fates) or place in ledger.covered:
                    raise Mistake(f"{place} comes with a chunk, and is applied, skipped, emptied or parked: {fates}")
                continue
            if place not in ledger.covered or sum(fates) != 1:
                raise Mistake(f"{place} is applied, skipped, emptied or parked: {fates}")
