"""One world by seed: a source's log, a machine, a target, and everything that can go wrong between them.

    python -m simulations.world 17 [mode]      one seed, told step by step
    python -m simulations.world 0-999 [mode]   many, quietly

Safety first: faults while the log flows.  Then liveness: the faults stop, and all must be applied and drained.
"""

from __future__ import annotations

import sys
from random import Random

import msgspec

from engine.apply import ApplyMachine, Options, State
from engine.effects import (
    ApplyBatch,
    ApplyDdl,
    ApplyEffect,
    CaughtUp,
    CommitBatch,
    Halt,
    RequestResend,
    RollbackBatch,
    SaveCheckpoint,
    StandDown,
)
from engine.errors import Alarm
from engine.events import ApplyEvent, GoalSet, LogArrived, ParkedWished, Paused, SourceFailed, Tick
from engine.records import LogBatch
from engine.replay import tell
from engine.schema import TargetTable
from simulations.catalogue import CASCADING, FAMILIES, POISON, linked
from simulations.checks import Checks, Mistake
from simulations.history import History, Reader
from simulations.model import Database
from simulations.target import Target

MOST_STEPS = 20_000


class Owner:
    """A process that runs a machine: its mailbox, and the reader that feeds it.  Dead ones hear nothing any more."""

    def __init__(self, number: int, options: Options) -> None:
        self.number = number
        self.machine = ApplyMachine(options)
        self.mailbox: list[ApplyEvent] = []
        self.reader: Reader | None = None
        self.sent: list[LogBatch] = []
        self.alive = True
        self.caught_up = False
        self.halt: Halt | None = None

    def post(self, event: ApplyEvent) -> None:
        if self.alive:
            self.mailbox.append(event)


class Swarm(msgspec.Struct):
    """Chances a step of what befalls the machine from outside."""

    crash: float
    rival: float
    source_failure: float
    mislaid: float
    pause: float
    wish: float


class World:
    def __init__(self, seed: int, *, changes: int = 60, atomic: bool = False, locking: bool = True) -> None:
        chance = self.chance = Random(seed)
        poison = locking and chance.random() < 0.4
        cascading = not poison and chance.random() < 0.15
        families: list[tuple[TargetTable, ...]] = [CASCADING]
        if not cascading:
            families = chance.sample(FAMILIES, chance.randint(1, 3)) if locking else [FAMILIES[0]]
        specs = linked(*(table for family in families for table in family))
        self.history = History(
            chance, Database(specs), changes, ddl=locking and not cascading and chance.random() < 0.4, poison=poison
        )
        self.checks = Checks(self.history, atomic=atomic)
        self.healed = False
        database = Database(specs, lambda _table, row: not self.healed and POISON in row)
        self.target = Target(database, self.history.start, chance, self.checks, strict=locking)
        self.options = Options(
            lanes=chance.choice((1, 2, 3, 4, 8)),
            batch_rows=chance.choice((1, 3, 10, 50)),
            atomic=atomic,
            window_rows=chance.choice((1, 4, 12, 40)),
            room_rows=chance.choice((2, 10, 40, 200)),
            checkpoint_us=chance.choice((0, 20_000, 500_000)),
            idle_checkpoint_us=chance.choice((20_000, 5_000_000)),
            commit_bound_us=chance.choice((20_000, 200_000)),
            locking=locking,
        )
        # Each world has its own mixture of faults, so that no fault hides another.
        self.swarm = Swarm(*(chance.choice((0.0, p, 3 * p)) for p in (0.005, 0.003, 0.005, 0.02, 0.01, 0.01)))
        self.whole = not poison and locking
        self.longest = chance.choice((1, 3, 10, 40))
        self.now = 0
        self.owners: list[Owner] = []
        self.transcript: list[str] | None = None
        self.calm = False
        self._truncated = 0
        self._wishes_read = ParkedWished(())

    # ------------------------------------------------------------------ running

    def run(self) -> None:
        """Raises Mistake."""
        self._take_over()
        for step in range(MOST_STEPS):
            if not self.calm and step > 40 and self.chance.random() < 0.005:
                self._calm_down()
            self._happen()
            if self._over():
                break
        else:
            raise Mistake(f"not done after {MOST_STEPS} steps: {self.owner.machine.snapshot()}")
        self._check_end()

    @property
    def owner(self) -> Owner:
        return self.owners[-1]

    def _calm_down(self) -> None:
        self.calm = True
        self.target.faults.stop()
        for owner in self.owners[:-1]:
            owner.alive = False
        self.owner.post(Paused(False))
        self.owner.post(GoalSet(self.history.last))

    def _over(self) -> bool:
        return self.calm and self.owner.caught_up

    def _happen(self) -> None:
        """One thing happens, then some machine takes a step."""
        chance, swarm = self.chance, self.swarm
        self.now += chance.choice((0, 100, 2_000, 30_000))
        if not self.calm:
            if chance.random() < swarm.crash:
                self.owner.alive = False
                self._happen_at_target()
                self._take_over()
            elif chance.random() < swarm.rival:
                self._take_over()
            if chance.random() < swarm.source_failure:
                self.owner.reader = None
                self.owner.post(SourceFailed(Alarm("connection", "connection lost", "wait"), retryable=True))
            if chance.random() < swarm.pause:
                self.owner.post(Paused(chance.random() < 0.5))
            if chance.random() < swarm.wish:
                self._operate()
        for _ in range(chance.choice((1, 1, 2, 4))):
            self._read()
            self._happen_at_target()
        for owner in self.owners:
            if owner.alive and (owner is self.owner or chance.random() < 0.3):
                self._step(owner)

    def _happen_at_target(self) -> None:
        deeds = self.target.deeds()
        if deeds:
            self.chance.choice(deeds)()

    def _read(self) -> None:
        """The reader hands a batch over, or loses or repeats one."""
        owner, chance = self.owner, self.chance
        if owner.reader is None or owner.machine.full or chance.random() < 0.3:
            return
        mislaid = not self.calm and owner.sent and chance.random() < self.swarm.mislaid
        if mislaid and chance.random() < 0.5:
            owner.post(LogArrived([msgspec.structs.replace(chance.choice(owner.sent), resent=False)]))
            return
        batch = owner.reader.next()
        if not mislaid:
            owner.sent.append(batch)
            owner.post(LogArrived([batch]))

    def _operate(self) -> None:
        """The operator mends the target and asks for all parked rows of a table again, or gives some up."""
        target, chance = self.target, self.chance
        if not target.parked:
            return
        machine = self.owner.machine
        if (
            machine.state is State.FLOWING and not machine.batches.busy
        ):  # amid the search for a bad row the search would find another
            self.healed = self.healed or chance.random() < 0.5
        name = chance.choice([(row.schema, row.table) for row, _ in target.parked.values()])
        giving_up = chance.random() < 0.3
        for place, (row, _) in list(target.parked.items()):
            if (row.schema, row.table) != name:
                continue
            stale = place[1] <= self._truncated  # what a TRUNCATE took away must not come back
            wish = target.wished.setdefault(
                place, "skip" if stale or (giving_up and chance.random() < 0.5) else "retry"
            )
            if not stale or wish == "skip":
                target.parked[place] = (row, wish)
        read, self._wishes_read = self._wishes_read, ParkedWished(tuple(target.wishes()))
        if chance.random() < 0.3:
            self.owner.post(read)  # read long ago, told only now
        self.owner.post(self._wishes_read)

    # ------------------------------------------------------------------ machines

    def _take_over(self) -> None:
        owner = Owner(len(self.owners) + 1, self.options)
        self.owners.append(owner)
        taken = self.target.take_over()
        owner.post(msgspec.structs.replace(taken, log_end=self.history.told_end))
        owner.reader = Reader(self.history, self.history.index(taken.checkpoint), self.chance, self.longest)
        if self.calm:
            owner.post(GoalSet(self.history.last))

    def _step(self, owner: Owner) -> None:
        taken = self.chance.randint(0, len(owner.mailbox)) if not self.calm else len(owner.mailbox)
        events, owner.mailbox = owner.mailbox[:taken], owner.mailbox[taken:]
        events = events or [Tick()]
        effects = owner.machine.step(self.now, events)
        if self.transcript is not None and (effects or not isinstance(events[0], Tick)):
            self.transcript += [f"{owner.number} {line}" for line in tell(self.now, events, effects)]
        stopped = False
        for effect in effects:
            if stopped:
                raise Mistake(f"{effect} after the machine had stopped")
            self._carry_out(owner, effect)
            stopped = isinstance(effect, (Halt, StandDown))
        if stopped and owner is self.owner:
            self._stopped(owner)

    def _carry_out(self, owner: Owner, effect: ApplyEffect) -> None:
        match effect:
            case ApplyBatch():
                self.target.apply(owner.number, effect, owner.post)
            case CommitBatch():
                self.target.commit(owner.number, effect, owner.post)
            case RollbackBatch():
                self.target.roll_back(owner.number, effect, owner.post)
            case SaveCheckpoint() | ApplyDdl():
                self.target.order(owner.number, effect, owner.post)
                if isinstance(effect, ApplyDdl):
                    self._truncated = max(self._truncated, effect.ddl.number)
            case RequestResend():
                owner.reader = Reader(self.history, self.history.index(effect.position), self.chance, self.longest)
                owner.sent.clear()
            case Halt():
                owner.halt = effect
            case StandDown():
                owner.alive = False
            case CaughtUp():
                owner.caught_up = True

    def _stopped(self, owner: Owner) -> None:
        """The newest owner stopped: only a statement may do that; the operator passes it and runs the feed again."""
        owner.alive = False
        if owner.halt is None or owner.halt.ddl is None:
            raise Mistake(f"the newest owner stopped: {owner.halt}")
        ddl = owner.halt.ddl
        self.checks.changing_schema(ddl)
        self.target.ddl_passed = (ddl.source, ddl.number)
        self._take_over()

    def _check_end(self) -> None:
        machine = self.owner.machine
        batches = machine.batches
        if machine.state is not State.FLOWING or batches.rows or len(batches.locks) or batches.wishing:
            raise Mistake(f"not drained: {machine.snapshot()}")
        if any(lane.queue or lane.running for lane in batches.lanes):
            raise Mistake("a lane is not empty")
        if machine.watermark.saved.order != self.history.last.order:
            raise Mistake(f"the checkpoint stays at {machine.watermark.saved}")
        self.checks.finished(self.target, whole=self.whole)
        if len(batches.lot) != len(self.target.parked):
            raise Mistake(f"{len(batches.lot)} rows are known as parked, {len(self.target.parked)} are")


MODES: dict[str, dict[str, bool]] = {"rows": {}, "atomic": {"atomic": True}, "unlocked": {"locking": False}}


def main(seeds: str, mode: str = "rows") -> int:
    first, _, last = seeds.partition("-")
    failed = 0
    for seed in range(int(first), int(last or first) + 1):
        world = World(seed, **MODES[mode])
        world.transcript = None if last else []
        try:
            world.run()
        except AssertionError as error:
            failed += 1
            print(*world.transcript or (), f"python -m simulations.world {seed} {mode}: {error!r}", sep="\n")
            if not last:
                raise
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
