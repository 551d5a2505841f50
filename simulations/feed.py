"""One feed: the machines that own it one after another, and what goes wrong with them.

A log at one end, a target at the other.  Both are given: a `World` has one feed and makes them for it, sites have many
(`simulations.sites`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from tidelock.engine.model.records import Position
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import Halt
from tidelock.engine.protocol.events import ApplyEvent, ChunksPlanned, GoalSet, Tick
from tidelock.engine.replay import tell as told
from tidelock.simulations import catalogue, copier, source_log
from tidelock.simulations.checkers.checker import Checker
from tidelock.simulations.exercise import Exercise
from tidelock.simulations.faults import Faults
from tidelock.simulations.history import History
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.owner import Owner
from tidelock.simulations.plan import Plan
from tidelock.simulations.target import Target

Record = Callable[[int, int, Sequence[ApplyEvent]], None]

PAUSES_US = (0, 100, 2_000, 30_000)  # between two steps
TURNS = (1, 1, 2, 4)  # of the log and the target between two steps of the machines

# Alarms that halt a feed until an operator has seen to the cause, and the fault that is the cause.
HALTS = {
    "purged": ("purged",),
    "unreadable": ("unreadable",),
    "gap": ("lost", "reordered", "rewound", "hole"),
    "target": ("broken",),
    source_log.OTHER: ("other_log",),
}


class Feed:
    """`coverage`: what the run exercised.  `transcript`: set to a list, it is filled with the run, line by line.
    `record`: called with (owner, time, events) before each step of a machine.  `whole`: no row is refused for good.
    `healed`: an operator has mended what the target refuses.  `calm`: nothing goes wrong any more."""

    def __init__(
        self,
        plan: Plan,
        chance: Random,
        history: History,
        target: Target,
        log: source_log.Source,
        faults: Faults,
        coverage: Counter[str],
    ) -> None:
        self.plan = plan
        self.chance = chance
        self.history = history
        self.target = target
        self.log = log
        self.coverage = coverage
        self.transcript: list[str] | None = None
        self.record: Record | None = None
        self.whole = "poison" not in plan.features and plan.locking
        self.healed = False
        self.now = 0
        self.owners: list[Owner] = []
        self.calm = False
        self.source = copier.Source(history)
        self.faults = faults
        self._exercise = Exercise(coverage, target.ledger, target, atomic=plan.atomic, whole=self.whole)
        self._steppers = [c for c in (*target.checkers, self._exercise) if type(c).stepped is not Checker.stepped]

    @property
    def owner(self) -> Owner:
        return self.owners[-1]

    @property
    def goal(self) -> Position:
        """Where the feed has caught up once it is there."""
        return self.history.last

    def happen(self) -> None:
        """Some of the log arrives, the target does something, machines take a step."""
        chance = self.chance
        self.now += 30_000 if self.calm else PAUSES_US[int(chance.random() * len(PAUSES_US))]
        newest, copies = self.owners[-1], self.plan.copy is not None or self.plan.repairs
        for _ in range(TURNS[int(chance.random() * len(TURNS))]):
            self._read(newest)
            self.target.go_on(chance)
            if copies:
                self.source.go_on(chance)
                newest.copier.go_on(chance, newest.post, calm=self.calm)
        for owner in self.owners if len(self.owners) > 1 else (newest,):
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
            self.transcript += [f"{owner.number} {line}" for line in told(now, events, effects)]
        for checker in self._steppers:
            checker.stepped(owner.machine)
        for effect in effects:
            if owner.dies_at == 0:
                self.coverage[f"crash before {type(effect).__name__}"] += 1
                self.tell(f"-- owner {owner.number} dies before this is done")
                owner.alive = False
                break
            owner.dies_at -= 1
            self._exercise.wanted(effect)
            if not owner.alive:
                raise Mistake(f"{effect} after the machine had stopped")
            owner.carry_out(effect, self.target, self.chance)
        if not owner.alive and owner is self.owner:
            self._replace(owner)
        elif owner.stepped_down and owner.stepped_down.again and not (self.faults.forgot or self._asked(owner)):
            raise Mistake(f"owner {owner.number} would take over what a newer one has: {owner.stepped_down}")

    def _asked(self, owner: Owner) -> bool:
        """Had it a transaction that it applied as it came, and did the target say since that it is gone?"""
        opening = owner.machine.streaming._opening
        return opening is not None and self.target.opened[opening.id] > 1

    # ------------------------------------------------------------------ owners

    def take_over(self) -> None:
        hands = copier.Copier(
            self.source, self.history, self.target.ledger.view, self.target.stored.staged, self.target.database.refuses,
            self.faults,
        )  # fmt: skip
        told = self.owner.stepped_down if self.owners else None
        patience = None if told is None else told.stream_idle_us or self.owner.machine.options.stream_idle_us
        owner = self._new_owner(hands, patience)
        if self.owners:
            self._exercise.left(self.owner.machine)
        owner.skew = self.chance.randrange(10**9)
        self.owners.append(owner)
        self.tell(f"-- owner {owner.number} takes over")
        owner.begin(self.target.take_over(), self.chance)
        if self.calm:
            owner.post(GoalSet(self.goal))

    def _new_owner(self, hands: copier.Copier, patience: int | None) -> Owner:
        """Returns the next owner; `patience`: as the one before told."""
        return Owner(len(self.owners) + 1, self.plan, self.history, self.faults, hands, self.log, patience)

    def _replace(self, owner: Owner) -> None:
        """The newest owner died or stopped.  An operator sees to whatever halted it, then the feed runs again."""
        halt = owner.halt
        again = ""
        if halt is not None:
            self.coverage[f"halted: {halt.alarm.kind}"] += 1
            again = self._attend_to(owner, halt)
        elif owner.stepped_down and owner.stepped_down.again and self._asked(owner):
            self.coverage["streamed: taken over anew"] += 1
        elif owner.stepped_down and not (self.faults.forgot and owner.stepped_down.again):
            raise Mistake(f"the newest owner stepped down: {owner.stepped_down}")
        self.take_over()
        if again:
            self.copy_again(again)

    def _attend_to(self, owner: Owner, halt: Halt) -> str:
        """Returns the family that is to be copied anew, if any."""
        if owner.refused_its_own:
            raise Mistake(f"the feed halts for another log, and it is its own: {halt}")
        if halt.alarm.kind == "gap" and halt.alarm.position not in owner.asked_from:
            raise Mistake(f"the feed halts at a gap, and has not asked for the log once more: {halt}")
        if halt.alarm.kind == source_log.OTHER:
            self.log.put_right()
        if halt.ddl is not None:
            if not self._is_for_operator(halt.ddl):
                raise Mistake(f"the feed halts for a statement that it could do: {halt.ddl}")
            self._see_to(halt.ddl)
            return ""
        if halt.alarm.kind == "copy" and (not self.whole or self._has_lost_its_key(halt.alarm.table)):
            self.healed = self.healed or not self.whole
            families = catalogue.BY_NAME.items()
            return next(f for f, tables in families if any(str(t.name) == halt.alarm.table for t in tables))
        causes = HALTS.get(halt.alarm.kind, ())
        if not any(cause in self.plan.faults for cause in causes):
            raise Mistake(f"the newest owner halted: {halt}")
        return ""

    def _has_lost_its_key(self, table: str) -> bool:
        """Tells whether chunks of the target's table cannot be told apart any more."""
        return any(str(name) == table and not spec.key for name, spec in self.target.database.specs.items())

    def _is_for_operator(self, ddl: Ddl) -> bool:
        """Tells whether an operator has to see to the statement."""
        return ddl.kind is DdlKind.OTHER

    def _see_to(self, ddl: Ddl) -> None:
        """An operator passes a statement."""
        self.target.pass_statement(ddl)

    def copy_again(self, family: str) -> None:
        """An operator has the tables of a family copied once more."""
        self.tell(f"-- {family} is to be copied again")
        splits = copier.splits((family,), self.target.database.specs, self.chance)
        self.owner.post(ChunksPlanned(splits))

    def tell(self, line: str) -> None:
        if self.transcript is not None:
            self.transcript.append(line)
