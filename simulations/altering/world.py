"""A world in which tables are altered while their rows flow.

    python -m tidelock.simulations.altering.world 17         one seed, told step by step
    python -m tidelock.simulations.altering.world 0-999      many, quietly
"""

from __future__ import annotations

import sys

from tidelock.engine.apply.ddl_barrier import Stage
from tidelock.engine.apply.machine import State
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.events import ParkedWished
from tidelock.simulations import accidents
from tidelock.simulations.altering import plan as plans
from tidelock.simulations.altering.carrying_out import failed_rows
from tidelock.simulations.altering.history import AlteringHistory
from tidelock.simulations.checkers.shapes import Shapes
from tidelock.simulations.log_entry import Place
from tidelock.simulations.plan import Plan
from tidelock.simulations.schema_change import refusal, statement_of
from tidelock.simulations.world import World

AT_STATEMENTS = {Stage.DRAINING: 0.04, Stage.APPLYING: 0.25, Stage.SEALING: 0.25}
"""Chance of a crash or a rival, each step in which a statement is under way: often enough for two in a row."""
MADE_FIRST = 0.1
"""Chance of a column at the target, each step in which the source's next statement adds it."""
_STRIKING = ("crash", "crash_amid", "rival", "forgotten")


class AlteringWorld(World):
    """World whose operator also sees to statements that the target refuses."""

    def __init__(self, plan: Plan, history: AlteringHistory | None = None) -> None:
        super().__init__(plan, history or AlteringHistory(plan))
        (self._shapes,) = (checker for checker in self.target.checkers if isinstance(checker, Shapes))

    # ------------------------------------------------------------------ what goes wrong at a statement

    def _go_wrong(self) -> None:
        super()._go_wrong()
        if self.chance.random() < AT_STATEMENTS.get(self._stage, 0):
            names = [name for name in _STRIKING if name != "forgotten" or name in self.plan.faults]
            fault = self.chance.choice(names)
            if accidents.FAULTS[fault](self):
                self.tell(f"-- {fault}")
                self.faults.struck(fault)
                self.coverage[f"altered: {fault} at a statement"] += 1
        if self.chance.random() < MADE_FIRST:
            self._make_first()

    @property
    def _stage(self) -> Stage:
        machine = self.owner.machine
        return machine.pipeline._barrier.stage if machine.state is State.FLOWING else Stage.OPEN

    def _make_first(self) -> None:
        """Somebody adds a column at the target before it is added at the source."""
        entry, target = self._shapes.next, self.target
        if entry is None or entry.ddl is None or entry.reshape is None or entry.ddl.kind is not DdlKind.ADD_COLUMN:
            return
        (name,) = entry.ddl.tables
        if entry.reshape.is_open(target.database.specs) and not target.writes_to(name):
            target.make_first(entry)
            self.coverage["altered: made at the target first"] += 1

    # ------------------------------------------------------------------ the operator

    def _see_to(self, ddl: Ddl) -> None:
        """End the failed rows of the tables that it names, or make the change by hand."""
        change = statement_of(self.target.stored, ddl).reshape
        rows = failed_rows(self.target.stored, change) if change is not None and change.made else []
        if rows:
            self._end(rows)
        else:
            super()._see_to(ddl)

    def _is_for_operator(self, ddl: Ddl) -> bool:
        return super()._is_for_operator(ddl) or bool(refusal(self.target.stored, ddl))

    def _end(self, rows: list[Place]) -> None:
        """Ask for failed rows again, or give them up; nothing of them is under way, so a wish may change."""
        target, chance = self.target, self.chance
        self.healed = True
        self.coverage["altered: failed rows ended before a statement"] += 1
        for place in rows:
            skips = place in target.ledger.covered and chance.random() < 0.4
            wish = target.state.wished[place] = "skip" if skips else "retry"
            target.parked[place] = (target.parked[place][0], wish)
        target.stored.flush()
        self._wishes_read = ParkedWished(())  # what was read before is not told any more


def main(seeds: str) -> int:
    first, _, last = seeds.partition("-")
    failed = 0
    for seed in range(int(first), int(last or first) + 1):
        world = AlteringWorld(plans.draw(seed))
        world.transcript = None if last else []
        try:
            world.run()
        except Exception as error:
            failed += 1
            told = f"python -m tidelock.simulations.altering.world {seed}: {error!r}"
            print(*world.transcript or (), told, sep="\n")
            if not last:
                raise
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
