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
from collections.abc import Callable, Sequence
from random import Random

from tidelock.engine.apply.machine import State
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import DdlKind, Position
from tidelock.engine.protocol.effects import Halt
from tidelock.engine.protocol.events import (
    ApplyEvent,
    ChunksPlanned,
    GoalSet,
    ParkedWished,
    Paused,
    SourceFailed,
    Tick,
)
from tidelock.engine.replay import tell
from tidelock.simulations import catalogue, copier, source_log
from tidelock.simulations.catalogue import CARD, OWN, POISON
from tidelock.simulations.checkers.checker import Checker
from tidelock.simulations.checkers.locks import Locks
from tidelock.simulations.exercise import Exercise
from tidelock.simulations.faults import Faults
from tidelock.simulations.history import History
from tidelock.simulations.ledger import Ledger, Mistake
from tidelock.simulations.model import Database
from tidelock.simulations.owner import Owner
from tidelock.simulations.plan import ALWAYS_POSSIBLE, LEAST_FAULTS, Plan, draw
from tidelock.simulations.repairs import Repairs
from tidelock.simulations.target import Target
from tidelock.simulations.view import Progress

__all__ = ["Mistake", "World"]

MOST_STEPS = 6_000  # in each of the two phases
PAUSES_US = (0, 100, 2_000, 30_000)  # between two steps
TURNS = (1, 1, 2, 4)  # of the log and the target between two steps of the machines
Record = Callable[[int, int, Sequence[ApplyEvent]], None]

# Alarms that halt a feed until an operator has seen to the cause, and the fault that is the cause.
HALTS = {
    "purged": ("purged",),
    "unreadable": ("unreadable",),
    "gap": ("lost", "reordered", "rewound", "hole"),
    "target": ("broken",),
    source_log.OTHER: ("other_log",),
}


class World:
    """`coverage`: what the run exercised.  `transcript`: set to a list, it is filled with the run, line by line.
    `record`: called with (owner, time, events) before each step of a machine."""

    def __init__(self, plan: Plan, history: History | None = None) -> None:
        self.plan = plan
        self.chance = Random(plan.schedule + (1 << 64))
        self.coverage: Counter[str] = Counter()
        self.transcript: list[str] | None = None
        self.record: Record | None = None
        self.history = history or History(plan)
        self.coverage.update({f"source: {deed}": n for deed, n in self.history.deeds.items()})
        self.whole = "poison" not in plan.features and plan.locking
        self.healed = False
        database = Database(
            {n: t for n, t in self.history.tables.items() if n in self.history.at_first},
            lambda _table, row: not self.healed and POISON in row,
        )
        self._faults = Faults(plan, self.chance, self.coverage)
        ledger = Ledger(self.history)
        if plan.copy is not None:
            splits = copier.splits(plan.copy.families, database.specs, Random(plan.copy.seed), plan.copy.keep)
            ledger.copies = {split.table: Progress(split, 0) for split in splits}
            self._hold(database, [split for split in splits if split.keep], ledger)
        self.target = Target(
            database, ledger, self._faults, atomic=plan.atomic, whole=self.whole, strict=plan.locking
        )
        self.target.image = plan.image
        self._exercise = Exercise(
            self.coverage, self.target.ledger, self.target, atomic=plan.atomic, whole=self.whole
        )
        self.target.checkers = (*self.target.checkers, self._exercise)
        self._steppers = [c for c in self.target.checkers if type(c).stepped is not Checker.stepped]
        self.source = copier.Source(self.history)
        self.log = source_log.Source(self.history, plan.schedule, ledger)
        self.target.begin_at(self.log.start)
        again = plan.copy.again if plan.copy is not None else ()
        self._repairs = Repairs(self.history, self.target) if plan.repairs else None
        self._to_copy = [f for f in again if all(t.name in self.history.held for t in catalogue.BY_NAME[f])]
        self.now = 0
        self.owners: list[Owner] = []
        self.calm = False
        self._steps = 0
        self._wishes_read = ParkedWished(())

    @property
    def faults(self) -> int:
        """Number of faults that struck."""
        return self._faults.count

    @property
    def owner(self) -> Owner:
        return self.owners[-1]

    # ------------------------------------------------------------------ running

    def run(self) -> None:
        """Raises Mistake, or the AssertionError of a machine that found itself in a state it must not be in."""
        self._take_over()
        for _ in range(MOST_STEPS):
            self._steps += 1
            self._go_wrong()
            self._happen()
            if self._is_enough():
                break
        self._calm_down()
        for _ in range(MOST_STEPS):
            self._happen()
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
            self.owner.post(GoalSet(self.history.last))
        return True

    def _hold(self, database: Database, kept: list[ChunkSplit], ledger: Ledger) -> None:
        """Some rows of these tables are at the target before the feed is."""
        for split in kept:
            table = database.tables[split.table]
            for row in self.history.held[split.table]:
                if self.chance.random() < 0.4:
                    whole = ledger.whole(split.table, row, database)
                    table.put(table.slot(whole), whole)

    def _is_enough(self) -> bool:
        least = LEAST_FAULTS if any(name in self.plan.faults for name in ALWAYS_POSSIBLE) else 0  # 0: a shrunk plan
        if self.faults < least or self._steps < 40:
            return False
        return self.target.ledger.complete or self.chance.random() < 0.01

    def _calm_down(self) -> None:
        self._tell("-- no more faults")
        self.calm = True
        self._faults.stop()
        self.source.settle()
        for owner in self.owners:
            owner.hangs = 0
        if not self.owner.alive:
            self._take_over()
        self.owner.post(Paused(False))
        self.owner.post(GoalSet(self.history.last))

    def _happen(self) -> None:
        """Some of the log arrives, the target does something, machines take a step."""
        chance = self.chance
        self.now += 30_000 if self.calm else PAUSES_US[int(chance.random() * len(PAUSES_US))]
        for _ in range(TURNS[int(chance.random() * len(TURNS))]):
            self._read(self.owner)
            self.target.go_on(chance)
            if self.plan.copy is not None or self.plan.repairs:
                self.source.go_on(chance)
                self.owner.copier.go_on(chance, self.owner.post, calm=self.calm)
        for owner in self.owners if len(self.owners) > 1 else (self.owner,):
            if owner.alive and (owner is self.owners[-1] or chance.random() < 0.3):
                self._step(owner)

    def _read(self, owner: Owner) -> None:
        """The reader hands over a batch, if it likes; at the end of the log it has little to say."""
        reader = owner.reader
        if reader is None or owner.machine.backpressured:
            return
        if self.chance.random() < (0.2 if reader.at_end else 0.7):
            owner.read()

    def _step(self, owner: Owner) -> None:
        if owner.hangs:
            owner.hangs -= 1
            return
        if owner is not self.owner:
            self._read(owner)
        events = owner.take(self.chance, everything=self.calm)
        now = owner.clock(self.now)
        if self.record is not None:
            self.record(owner.number, now, events)
        windows = owner.windows()
        effects = owner.machine.step(now, events)
        owner.obeys(events, windows)
        if self.transcript is not None and (effects or not isinstance(events[0], Tick)):
            self.transcript += [f"{owner.number} {line}" for line in tell(now, events, effects)]
        for checker in self._steppers:
            checker.stepped(owner.machine)
        for effect in effects:
            if owner.dies_at == 0:
                self.coverage[f"crash before {type(effect).__name__}"] += 1
                self._tell(f"-- owner {owner.number} dies before this is done")
                owner.alive = False
                break
            owner.dies_at -= 1
            self._exercise.wanted(effect)
            if not owner.alive:
                raise Mistake(f"{effect} after the machine had stopped")
            owner.carry_out(effect, self.target, self.chance)
        if not owner.alive and owner is self.owner:
            self._replace(owner)
        elif owner.stepped_down and owner.stepped_down.again and not (self._faults.forgot or self._asked(owner)):
            raise Mistake(f"owner {owner.number} would take over what a newer one has: {owner.stepped_down}")

    def _asked(self, owner: Owner) -> bool:
        """Had it a transaction that it applied as it came, and did the target say since that it is gone?"""
        opening = owner.machine.streaming._opening
        return opening is not None and self.target.opened[opening.id] > 1

    # ------------------------------------------------------------------ owners

    def _take_over(self) -> None:
        hands = copier.Copier(
            self.source, self.history, self.target.ledger.view, self.target.staged, self.target.database.refuses,
            self._faults,
        )  # fmt: skip
        told = self.owner.stepped_down if self.owners else None
        patience = None if told is None else told.stream_idle_us or self.owner.machine.options.stream_idle_us
        owner = Owner(len(self.owners) + 1, self.plan, self.history, self._faults, hands, self.log, patience)
        if self.owners:
            self._exercise.left(self.owner.machine)
        owner.skew = self.chance.randrange(10**9)
        self.owners.append(owner)
        self._tell(f"-- owner {owner.number} takes over")
        owner.begin(self.target.take_over(), self.chance)
        if self.calm:
            owner.post(GoalSet(self.history.last))

    def _replace(self, owner: Owner) -> None:
        """The newest owner died or stopped.  An operator sees to whatever halted it, then the feed runs again."""
        halt = owner.halt
        again = ""
        if halt is not None:
            self.coverage[f"halted: {halt.alarm.kind}"] += 1
            again = self._attend_to(owner, halt)
        elif owner.stepped_down and owner.stepped_down.again and self._asked(owner):
            self.coverage["streamed: taken over anew"] += 1
        elif owner.stepped_down and not (self._faults.forgot and owner.stepped_down.again):
            raise Mistake(f"the newest owner stepped down: {owner.stepped_down}")
        self._take_over()
        if again:
            self._copy_again(again)

    def _attend_to(self, owner: Owner, halt: Halt) -> str:
        """Returns the family that is to be copied anew, if any."""
        if owner.refused_its_own:
            raise Mistake(f"the feed halts for another log, and it is its own: {halt}")
        if halt.alarm.kind == "gap" and halt.alarm.position not in owner.asked_from:
            raise Mistake(f"the feed halts at a gap, and has not asked for the log once more: {halt}")
        if halt.alarm.kind == source_log.OTHER:
            self.log.put_right()
        if halt.ddl is not None:
            if halt.ddl.kind is not DdlKind.OTHER:
                raise Mistake(f"the feed halts for a statement that it could do: {halt.ddl}")
            self.target.pass_statement(halt.ddl)
            return ""
        if halt.alarm.kind == "copy" and not self.whole:
            self.healed = True
            families = catalogue.BY_NAME.items()
            return next(f for f, tables in families if any(str(t.name) == halt.alarm.table for t in tables))
        causes = HALTS.get(halt.alarm.kind, ())
        if not any(cause in self.plan.faults for cause in causes):
            raise Mistake(f"the newest owner halted: {halt}")
        return ""

    # ------------------------------------------------------------------ faults, operators, users of the target

    def _go_wrong(self) -> None:
        chance, features = self.chance, self.plan.features
        fault = self._faults.draw()
        if fault is not None and FAULTS[fault](self):
            self._tell(f"-- {fault}")
            self._faults.struck(fault)
        if "pauses" in features and chance.random() < 0.02:
            self.owner.post(Paused(chance.random() < 0.5))
        if "wishes" in features and chance.random() < 0.03:
            self._operate()
        if self._to_copy and chance.random() < 0.02:
            self._copy_again(self._to_copy.pop())
        if CARD.name in self.target.database.tables and chance.random() < 0.1:
            self._write_own()
        if self._repairs is not None:
            self._repairs.go_on(self.owner, chance)

    def _copy_again(self, family: str) -> None:
        """An operator has the tables of a family copied once more."""
        self._tell(f"-- {family} is to be copied again")
        splits = copier.splits((family,), self.target.database.specs, self.chance)
        self.owner.post(ChunksPlanned(splits))

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
        target.flush()
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

    def _tell(self, line: str) -> None:
        if self.transcript is not None:
            self.transcript.append(line)


# ---------------------------------------------------------------------- each fault; False where it cannot strike now


def _crash(world: World) -> bool:
    world.owner.alive = False
    world._take_over()
    return True


def _crash_amid(world: World) -> bool:
    world.owner.dies_at = world.chance.choice((0, 0, 1, 2, 4))
    return True


def _rival(world: World) -> bool:
    world._take_over()
    return True


def _hang(world: World) -> bool:
    world.owner.hangs = world.chance.choice((5, 20, 100))
    return True


def _clock(world: World) -> bool:
    world.owner.skew += world.chance.choice((-1_000_000, 2_000_000, 3_600_000_000))
    return True


def _disconnected(world: World) -> bool:
    if world.owner.reader is None:
        return False
    world.owner.reader = None
    world.owner.post(SourceFailed(Alarm("connection", "connection lost", "wait"), retryable=True))
    return True


def _purged(world: World) -> bool:
    return _ends_for_good(world, Alarm("purged", "the source has no log from there on", "copy the tables anew"))


def _unreadable(world: World) -> bool:
    return _ends_for_good(world, Alarm("unreadable", "an event of type 0x99 is not understood", "report it"))


def _ends_for_good(world: World, alarm: Alarm) -> bool:
    if world.owner.reader is None:
        return False
    world.owner.reader = None
    world.owner.post(SourceFailed(alarm, retryable=False))
    return True


def _other_log(world: World) -> bool:
    return _served_otherwise(world, world.log.replace)


def _moved_log(world: World) -> bool:
    return _served_otherwise(world, world.log.move)


def _served_otherwise(world: World, change: Callable[[Position], str]) -> bool:
    """All readers lose their connections to what was there."""
    what = change(world.target.durable) if world.owner.reader is not None else ""
    if not what:
        return False
    world.coverage[f"log: {what}"] += 1
    world._tell(f"-- the source's log: {what}")
    for owner in world.owners:
        if owner.alive and owner.reader is not None:
            owner.reader = None
            owner.post(SourceFailed(Alarm("connection", "connection lost", "wait"), retryable=True))
    return True


def _forgotten(world: World) -> bool:
    world.target.forget()
    return True


FAULTS: dict[str, Callable[[World], bool]] = {
    "crash": _crash,
    "crash_amid": _crash_amid,
    "rival": _rival,
    "hang": _hang,
    "clock": _clock,
    "disconnected": _disconnected,
    "purged": _purged,
    "unreadable": _unreadable,
    "forgotten": _forgotten,
    "other_log": _other_log,
    "moved_log": _moved_log,
    "lost": lambda world: world.owner.lose(),
    "repeated": lambda world: world.owner.repeat(world.chance),
    "reordered": lambda world: world.owner.reorder(),
    "rewound": lambda world: world.owner.rewind(world.chance),
}


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
