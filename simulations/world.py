"""One world by plan: a source's log, machines that own the feed one after another, a target, and all that goes wrong.

    python -m tidelock.simulations.world 17         one seed, told step by step
    python -m tidelock.simulations.world 0-999      many, quietly

Safety first: faults while the log flows.  Then liveness: the faults stop, and everything must be applied and drained.
Whatever can happen in an order of its own (the log's way, the target's work, each owner's steps) happens in the order
that chance says.
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

from tidelock.engine.apply.machine import State
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.protocol.events import GoalSet, ParkedWished, Paused
from tidelock.simulations import accidents, catalogue, copier, source_log
from tidelock.simulations.catalogue import CARD, OWN, POISON
from tidelock.simulations.checkers.locks import Locks
from tidelock.simulations.faults import Faults
from tidelock.simulations.feed import Feed
from tidelock.simulations.history import History
from tidelock.simulations.ledger import Ledger, Mistake
from tidelock.simulations.model import Database
from tidelock.simulations.plan import ALWAYS_POSSIBLE, LEAST_FAULTS, Plan, draw
from tidelock.simulations.repairs import Repairs
from tidelock.simulations.stored import Stored
from tidelock.simulations.target import Target
from tidelock.simulations.view import Progress

__all__ = ["Mistake", "World"]

MOST_STEPS = 6_000  # in each of the two phases


class World(Feed):
    """A feed with a log and a target that are its own."""

    def __init__(self, plan: Plan, history: History | None = None) -> None:
        history = history or History(plan)
        chance, coverage = Random(plan.schedule + (1 << 64)), Counter[str]()
        coverage.update({f"source: {deed}": n for deed, n in history.deeds.items()})
        faults = Faults(plan, chance, coverage)
        database = Database(
            {n: history.at_target(t) for n, t in history.tables.items() if n in history.at_first},
            lambda _table, row: not self.healed and POISON in row,
        )
        ledger = Ledger(history)
        if plan.copy is not None:
            splits = copier.splits(plan.copy.families, database.specs, Random(plan.copy.seed), plan.copy.keep)
            ledger.copies = {split.table: Progress(split, 0) for split in splits}
            _hold(history, database, [split for split in splits if split.keep], ledger, chance)
        whole = "poison" not in plan.features and plan.locking
        stored = Stored(database, ledger, faults)
        target = Target(stored, faults, atomic=plan.atomic, whole=whole, strict=plan.locking)
        target.image = plan.image
        log = source_log.Source(history, plan.schedule, ledger)
        super().__init__(plan, chance, history, target, log, faults, coverage)
        stored.checkers = (*stored.checkers, self._exercise)
        stored.begin_at(self.log.start)
        again = plan.copy.again if plan.copy is not None else ()
        self._repairs = Repairs(self.history, self.target) if plan.repairs else None
        self._to_copy = [f for f in again if all(t.name in self.history.held for t in catalogue.BY_NAME[f])]
        self._steps = 0
        self._wishes_read = ParkedWished(())

    # ------------------------------------------------------------------ running

    def run(self) -> None:
        """Raises Mistake, or the AssertionError of a machine that found itself in a state it must not be in."""
        self.take_over()
        for _ in range(MOST_STEPS):
            self._steps += 1
            self._go_wrong()
            self.happen()
            if self._is_enough():
                break
        self._calm_down()
        for _ in range(MOST_STEPS):
            self.happen()
            if self.owner.caught_up and not self._to_repair():
                break
        else:
            raise Mistake(f"not done {MOST_STEPS} steps after the last fault: {self.owner.machine.snapshot()}")
        self._finish()

    def _to_repair(self) -> bool:
        """Tells whether anything is left to repair.  Where rows are bad that may be for good."""
        if self._repairs is None or not self.whole or not (self._repairs.wanted or self._repairs.left):
            return False
        if not self.owner.machine.copying:
            self.owner.caught_up = False
            self._repairs.ask(self.owner, again=True)
            self.owner.post(GoalSet(self.goal))
        return True

    def _is_enough(self) -> bool:
        least = LEAST_FAULTS if any(name in self.plan.faults for name in ALWAYS_POSSIBLE) else 0  # 0: a shrunk plan
        if self.faults.count < least or self._steps < 40:
            return False
        return self.target.ledger.complete or self.chance.random() < 0.01

    def _calm_down(self) -> None:
        self.tell("-- no more faults")
        self.calm = True
        self.faults.stop()
        self.source.settle()
        for owner in self.owners:
            owner.hangs = 0
        if not self.owner.alive:
            self.take_over()
        self.owner.post(Paused(False))
        self.owner.post(GoalSet(self.goal))

    # ------------------------------------------------------------------ operators, users of the target

    def _go_wrong(self) -> None:
        chance, features = self.chance, self.plan.features
        accidents.befall(self)
        if "pauses" in features and chance.random() < 0.02:
            self.owner.post(Paused(chance.random() < 0.5))
        if "wishes" in features and chance.random() < 0.03:
            self._operate()
        if self._to_copy and chance.random() < 0.02:
            self.copy_again(self._to_copy.pop())
        if CARD.name in self.target.database.tables and chance.random() < 0.1:
            self._write_own()
        if self._repairs is not None:
            self._repairs.go_on(self.owner, chance)

    def _write_own(self) -> None:
        """A user of the target fills in its own column, of a row that nobody else is writing."""
        table = self.target.database.tables[CARD.name]
        if not table.rows or not table.spec.key or self.target.writes_to(CARD.name):
            return
        slot = self.chance.choice(list(table.rows))
        row = list(table.rows[slot])
        row[table.at[OWN]] = f"own {self._steps}"
        self.target.write_own(CARD.name, slot, tuple(row))
        self.coverage["target's own column written"] += 1

    def _operate(self) -> None:
        """The operator mends the target and asks for all parked rows of a table again, or gives some up."""
        target, chance = self.target, self.chance
        if not target.parked:
            return
        machine = self.owner.machine
        if machine.state is State.FLOWING and not machine.under_way:
            # amid the search for a bad row the search would find another
            self.healed = self.healed or chance.random() < 0.5
        name = chance.choice([(row.schema, row.table) for row, _ in target.parked.values()])
        giving_up = chance.random() < 0.3
        for place, (row, _) in list(target.parked.items()):
            if (row.schema, row.table) == name:
                skips = giving_up and place in target.ledger.covered and chance.random() < 0.5
                wish = target.state.wished.setdefault(place, "skip" if skips else "retry")
                target.parked[place] = (row, wish)
                self.coverage[f"operator: {wish}"] += 1
        target.stored.flush()
        read, self._wishes_read = self._wishes_read, ParkedWished(tuple(target.wishes()))
        if chance.random() < 0.3:
            self.owner.post(read)  # read long ago, told only now
        self.owner.post(self._wishes_read)

    # ------------------------------------------------------------------ the end

    def _finish(self) -> None:
        for checker in self.target.checkers:
            checker.finished(self.owner.machine)
            if isinstance(checker, Locks):
                for length in checker.chains:
                    self._exercise.chain(length)
                self._exercise.had_whole(checker.having, checker.waiting)


def _hold(history: History, database: Database, kept: list[ChunkSplit], ledger: Ledger, chance: Random) -> None:
    """Some rows of these tables are at the target before the feed is."""
    for split in kept:
        table = database.tables[split.table]
        for row in history.held[split.table]:
            if chance.random() < 0.4:
                whole = ledger.whole(split.table, row, database)
                table.put(table.slot(whole), whole)


def main(seeds: str) -> int:
    first, _, last = seeds.partition("-")
    failed = 0
    for seed in range(int(first), int(last or first) + 1):
        world = World(draw(seed))
        world.transcript = None if last else []
        try:
            world.run()
        except AssertionError as error:
            failed += 1
            print(*world.transcript or (), f"python -m tidelock.simulations.world {seed}: {error!r}", sep="\n")
            if not last:
                raise
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
