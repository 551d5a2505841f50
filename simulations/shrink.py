"""From a plan that fails to a small one that still does, so that people can read what went wrong.

Parts are left out as *delta debugging* does (Zeller and Hildebrandt, 2002): all, then halves, quarters, … single ones,
keeping what is left whenever it fails.  So it goes with features, faults, families of tables and source transactions;
settings become their simplest.  A smaller history meets other accidents, so each candidate is tried under a few other
schedules too.  Rounds go on until one has changed nothing, or the time is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from tidelock.simulations.plan import NUMBERS_A_CHANGE, Plan
from tidelock.simulations.trial import Trial

SECONDS = 60.0
SCHEDULES = 8
LAST_SCHEDULES = 200

Item = TypeVar("Item")
Attempt: TypeAlias = Callable[[Plan], Trial]

# Simplest first; one that makes no difference is as good as none.
_ENGINE: dict[str, tuple[Any, ...]] = {
    "lanes": (1, 2),
    "batch_rows": (1, 3),
    "window_rows": (1, 4),
    "max_in_flight_rows": (200, 40),
    "max_in_flight_bytes": (32 << 20,),
    "checkpoint_us": (500_000,),
    "idle_checkpoint_us": (5_000_000,),
    "commit_bound_us": (200_000,),
    "min_rows_per_lane": (0,),
    "coalesce_rows": (0,),
}
_PLAN: dict[str, tuple[Any, ...]] = {
    "atomic": (False,),
    "cascades": ("hidden",),
    "longest": (1, 4, 12),
    "fault_rate": (0.02, 0.05, 0.1),
}


def parts_left(items: Sequence[Item], fails: Callable[[list[Item]], bool]) -> list[Item]:
    """Returns what is left of `items` when as many are taken out as it can lose and still fail."""
    left, size = list(items), len(items)
    while size:
        at = 0
        while at < len(left):
            fewer = left[:at] + left[at + size :]
            if fails(fewer):
                left = fewer
            else:
                at += size
        size //= 2
    return left


class Shrinker:
    """`first`: the failing trial.  `best`: the smallest one so far.  `tried`: how many runs that took.

    A candidate is taken if it makes the same mistake, numbers aside; failing that, if it fails with the same error.
    `attempt` should tell its runs: of many schedules, the one with the shortest transcript is kept.  `told` hears after
    each run.
    """

    def __init__(
        self,
        failing: Trial,
        attempt: Attempt,
        *,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
        told: Callable[[Shrinker], None] = lambda _shrinker: None,
    ) -> None:
        """Raises ValueError if the trial did not fail."""
        if not failing.mistake:
            raise ValueError(f"seed {failing.plan.seed} is clean")
        self.first = self.best = failing
        self.tried = 0
        self.seconds = seconds
        self._attempt = attempt
        self._clock = clock
        self._begun = clock()
        self._told = told

    def run(self) -> Trial:
        """The smallest failing trial found."""
        before = None
        while before != self.best.plan and not self.over:
            before = self.best.plan
            self._round()
        self._tell_shortest()
        return self.best

    @property
    def spent(self) -> float:
        return self._clock() - self._begun

    @property
    def over(self) -> bool:
        return self.spent >= self.seconds

    # ------------------------------------------------------------------ one candidate

    def _fails(self, candidate: Plan) -> bool:
        """Tells whether it fails under some schedule.  Then it is the best so far."""
        like = None
        for schedule in (candidate.schedule, *range(SCHEDULES)):
            trial = self._run(replace(candidate, schedule=schedule))
            if trial is None:
                break
            if trial.kind == self.first.kind:
                self.best = trial
                return True
            if like is None and trial.mistake and trial.error == self.first.error:
                like = trial
        self.best = like or self.best
        return like is not None

    def _run(self, plan: Plan) -> Trial | None:
        """None: there is no time left."""
        if self.over:
            return None
        trial = self._attempt(plan)
        self.tried += 1
        self._told(self)
        return trial

    # ------------------------------------------------------------------ one round

    def _round(self) -> None:
        self._halve_changes()
        parts_left(self.best.plan.features, self._fails_with_features)
        parts_left(sorted(self.best.plan.faults), self._fails_with_faults)
        parts_left(self.best.plan.families, self._fails_with_families)
        parts_left(self.best.transactions, self._fails_with_transactions)
        self._simplify()

    def _fails_with_features(self, names: list[str]) -> bool:
        return self._fails(replace(self.best.plan, features=tuple(names)))

    def _fails_with_faults(self, names: list[str]) -> bool:
        faults = self.best.plan.faults
        return self._fails(replace(self.best.plan, faults={name: faults[name] for name in names}))

    def _fails_with_families(self, names: list[str]) -> bool:
        return bool(names) and self._fails(replace(self.best.plan, families=tuple(names)))

    def _fails_with_transactions(self, numbers: list[int]) -> bool:
        return bool(numbers) and self._fails(_only(self.best, numbers))

    def _halve_changes(self) -> None:
        while self.best.plan.changes > 1 and self._fails(_shorter(self.best.plan, self.best.plan.changes // 2)):
            pass

    def _simplify(self) -> None:
        """Settings."""
        self._fails(replace(self.best.plan, faults=dict.fromkeys(self.best.plan.faults, 1)))
        for name, values in (_PLAN | _ENGINE).items():
            self._lower(name, values)

    def _lower(self, name: str, simpler: Sequence[object]) -> None:
        for value in simpler:
            plan = self.best.plan
            if value == getattr(plan.engine if name in _ENGINE else plan, name) or self._fails(
                _with(plan, name, value)
            ):
                return

    def _tell_shortest(self) -> None:
        """Find among many schedules the one with the shortest story of the same mistake."""
        for schedule in range(LAST_SCHEDULES):
            trial = self._run(replace(self.best.plan, schedule=schedule))
            if trial is None:
                break
            if trial.kind == self.best.kind and len(trial.abridged) < len(self.best.abridged):
                self.best = trial


def _with(plan: Plan, name: str, value: object) -> Plan:
    if name in _ENGINE:
        return replace(plan, engine=replace(plan.engine, **{name: value}))
    return replace(plan, **{name: value})


def _only(trial: Trial, numbers: Sequence[int]) -> Plan:
    """Its plan with these source transactions alone."""
    changes = max(trial.changes, -(-max(numbers) // NUMBERS_A_CHANGE))
    without = tuple(n for n in range(1, NUMBERS_A_CHANGE * changes + 1) if n not in numbers)
    return replace(trial.plan, changes=changes, without=without)


def _shorter(plan: Plan, changes: int) -> Plan:
    """With fewer changes; without naming transactions that do not come to pass then."""
    without = tuple(n for n in plan.without if n <= NUMBERS_A_CHANGE * changes)
    return replace(plan, changes=changes, without=without)
