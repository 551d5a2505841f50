"""A trial: one plan run in a world of its own, and what it came to.

The campaign, the shrinker and the story all run worlds through `attempt`.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import msgspec
import xxhash

from tidelock.engine.apply.machine import Options
from tidelock.engine.protocol.events import ApplyEvent
from tidelock.simulations.altering.world import AlteringWorld
from tidelock.simulations.history import History
from tidelock.simulations.plan import DEFAULT_CHANGES, Plan, draw
from tidelock.simulations.world import World


class Turn(msgspec.Struct):
    """A step that the machine of an owner took.  `told`: how many lines the transcript had before it."""

    owner: int
    now: int
    events: list[ApplyEvent]
    told: int


class Trial(msgspec.Struct):
    """`mistake`: what went wrong, '' if nothing; `error`: its class.  `changes`: rows that the source changed.

    `transactions`: numbers of those in the source's log.  The rest is there only if the run was to be told.
    """

    plan: Plan
    mistake: str = ""
    error: str = ""
    faults: int = 0
    changes: int = 0
    coverage: Mapping[str, int] = {}
    transactions: tuple[int, ...] = ()
    transcript: list[str] = []
    turns: list[Turn] = []
    options: dict[int, Options] = {}  # by owner
    history: History | None = None

    @property
    def kind(self) -> str:
        """The mistake without its numbers, so that two runs can be seen to make the same one."""
        return re.sub(r"\d+", "#", self.mistake)

    @property
    def abridged(self) -> list[str]:
        """The transcript without the heartbeats that changed nothing."""
        return [
            line
            for line, after in pairwise([*self.transcript, ""])
            if not re.search(r"  log (\S+) to \1: 0 rows$", line) or "  → " in after
        ]

    @property
    def digest(self) -> int:
        """64 bits of all that the run did, in order."""
        text = "\n".join((str(self.plan.seed), *self.transcript, self.mistake))
        return xxhash.xxh3_64_intdigest(text.encode())


def attempt(plan: Plan, *, history: History | None = None, told: bool = False) -> Trial:
    """Run the plan, on `history` instead of the one it draws if there is one.  Any error of the run is its mistake."""
    world = AlteringWorld(plan) if plan.altered else World(plan, history=history)
    turns: list[Turn] = []
    if told:
        transcript = world.transcript = []

        def record(owner: int, now: int, events: Sequence[ApplyEvent]) -> None:
            turns.append(Turn(owner, now, list(events), len(transcript)))

        world.record = record
    trial = Trial(plan)
    try:
        world.run()
    except Exception as error:
        trial.mistake, trial.error = spell(error), type(error).__name__
    trial.faults, trial.changes, trial.coverage = world.faults.count, world.history.rows, world.coverage
    trial.transactions = tuple(dict.fromkeys(entry.number for entry in world.history.entries))
    if told:
        trial.transcript, trial.turns, trial.history = world.transcript or [], turns, world.history
        trial.options = {owner.number: owner.machine.options for owner in world.owners}
    return trial


class Worlds(Protocol):
    """Source of a campaign's plans, and the way to run them.  It goes to other processes, so it pickles.

    `varied`: enough of them reach everything that a world can do.
    """

    @property
    def varied(self) -> bool: ...

    def plan(self, seed: int) -> Plan: ...

    def attempt(self, plan: Plan, *, told: bool = False) -> Trial: ...

    def __call__(self, seed: int) -> Trial: ...


class Drawn(msgspec.Struct, frozen=True):
    """Everything is drawn from the seed."""

    changes: int = DEFAULT_CHANGES
    locking: bool = True
    told: bool = False

    @property
    def varied(self) -> bool:
        return True

    def plan(self, seed: int) -> Plan:
        return draw(seed, self.changes, locking=self.locking)

    def attempt(self, plan: Plan, *, told: bool = False) -> Trial:
        return attempt(plan, told=told)

    def __call__(self, seed: int) -> Trial:
        return attempt(self.plan(seed), told=self.told)


def spell(error: Exception) -> str:
    """The error; one that is no check's own says where it comes from."""
    text = " ".join(str(error).split())
    if type(error).__name__ == "Mistake":
        return text
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}, {frame.name}: {text or frame.line}"
