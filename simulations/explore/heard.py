"""Machines by what they have heard: the engine is pure, so equal events make equal machines with equal effects.

A machine is a node in a tree of events.  Its effects are worked out once, by a machine that hears everything from the
start; so a state of the exploration holds a number in the place of a machine, and forks for nothing.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidelock.engine.apply.machine import ApplyMachine, Options
from tidelock.engine.protocol.effects import ApplyEffect
from tidelock.engine.protocol.events import ApplyEvent

Told: TypeAlias = tuple[int, ApplyEvent]  # now in microseconds, event


class Node(msgspec.Struct, eq=False):
    """`told`: what came last; `effects`: what the machine wanted done then."""

    before: int
    told: Told | None
    effects: list[ApplyEffect]


class Tree:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._nodes = [Node(-1, None, [])]
        self._after: dict[tuple[int, str], int] = {}

    def after(self, node: int, name: str, told: Told) -> int:
        """The machine that hears this next.  `name`: the same for equal events at this node only."""
        found = self._after.get((node, name))
        if found is None:
            found = self._after[node, name] = len(self._nodes)
            self._nodes.append(Node(node, told, self._effects([*self.history(node), told])))
        return found

    def effects(self, node: int) -> list[ApplyEffect]:
        return self._nodes[node].effects

    def history(self, node: int) -> list[Told]:
        told = []
        while (here := self._nodes[node]).told is not None:
            told.append(here.told)
            node = here.before
        return told[::-1]

    def _effects(self, history: list[Told]) -> list[ApplyEffect]:
        machine = ApplyMachine(self._options)
        effects: list[ApplyEffect] = []
        for now, event in history:
            effects = machine.step(now, [event])
        return effects
