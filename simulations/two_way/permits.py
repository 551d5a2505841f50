"""The permit world: the two feeds of a pair, with the engine's permits, which see each other's rows or not.

Time goes in ticks.  In a tick each living feed reads its sister's row, in either order, says in its own row what it is,
and applies if it may.  Between ticks a feed dies, halts or begins a new session, the network parts, or a lot is written
at one side.  Promises: neither applies alone for longer than `after` and one look; where nothing is wrong any more both
apply soon, and neither lags.  One that lags may catch up alone, and each new trouble within that time may add as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import msgspec

from tidelock.engine.two_way.permit import Limits, Memory, Own, Permit, PermitState, Sister
from tidelock.simulations.two_way.explorer import Word
from tidelock.simulations.two_way.rule import Rule, Sound

NAMES = ("eu-us", "us-eu")
LAG, AFTER = 2, 3
SOON = 12  # ticks


class Side(NamedTuple):
    """`memory`: of `Permit`, its times counted back from now.  `row`: what the other reads.  `probes`: nonces of probes
    that are on their way through the log."""

    alive: bool = True
    halted: bool = False
    lag: int = 0
    session: int = 0
    memory: Memory = Memory()
    row: Sister | None = None
    probes: tuple[str, ...] = ()
    applies: bool = False


class State(NamedTuple):
    """`alone`: for how many ticks one applies while the other does not; of the second they are negative."""

    sides: tuple[Side, Side]
    parted: bool
    faults: int
    alone: int


class Scope(msgspec.Struct, frozen=True):
    faults: int = 2


Step: TypeAlias = tuple[Word, State]


class PermitWorld:
    """Two feeds with a permit each."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def start(self) -> State:
        sides = tuple(Side(row=Sister(name, 0, False)) for name in NAMES)
        first, second = (self._begun(side, number) for number, side in enumerate(sides))
        return State((first, second), False, self.scope.faults, 0)

    def wrong(self, state: State) -> str:
        if abs(state.alone) > (AFTER + 1) * max(1, self.scope.faults - state.faults):
            return f"{NAMES[state.alone < 0]} applies alone for {abs(state.alone)} ticks"
        if state.parted or any(side.halted or not side.alive for side in state.sides):
            return ""
        later = state
        for _ in range(SOON):
            later = self._tick(self._proven(later), (0, 1))
        if not all(side.applies and side.lag == 0 for side in later.sides):
            return f"after {SOON} quiet ticks: " + ", ".join(
                f"{name} {'applies' if side.applies else 'holds'}, lag {side.lag}"
                for name, side in zip(NAMES, later.sides, strict=True)
            )
        return ""

    def steps(self, state: State) -> Iterator[Step]:
        for order in ((0, 1), (1, 0)):
            yield f"tick, {NAMES[order[0]]} first", self._tick(state, order)
        for number, side in enumerate(state.sides):
            for nonce in side.probes:
                proven = self._with(state, number, self._probed(side, number, nonce))
                yield f"{NAMES[number]} sees probe {nonce}", proven
            if not side.alive:
                yield f"{NAMES[number]} comes back", self._with(state, number, self._begun(side, number))
            if side.halted:
                yield f"{NAMES[number]} is started again", self._with(state, number, side._replace(halted=False))
        if state.parted:
            yield "the network is whole again", state._replace(parted=False)
        if state.faults:
            yield from self._troubles(state._replace(faults=state.faults - 1))

    def _troubles(self, state: State) -> Iterator[Step]:
        for number, (name, side) in enumerate(zip(NAMES, state.sides, strict=True)):
            if side.alive:
                dead = side._replace(alive=False, applies=False, memory=Memory())
                yield f"{name} dies", self._with(state, number, dead)
                yield f"{name} has a new session", self._with(state, number, self._begun(side, number))
                yield f"{name} halts", self._with(state, number, side._replace(halted=True))
            if side.lag == 0:
                yield f"{name} falls behind", self._with(state, number, side._replace(lag=LAG + 1))
        if not state.parted:
            yield "the network parts", state._replace(parted=True)

    # ------------------------------------------------------------------ one feed

    def _permit(self, side: Side, number: int) -> Permit:
        return Permit(NAMES[1 - number], Limits(LAG, AFTER), side.memory)

    def _begun(self, side: Side, number: int) -> Side:
        session = side.session + 1
        permit = self._permit(side, number)
        permit.begin(str(session))
        probes = (*side.probes, str(session))
        return side._replace(alive=True, session=session, memory=permit.memory, probes=probes)

    def _probed(self, side: Side, number: int, nonce: str) -> Side:
        probes = tuple(other for other in side.probes if other != nonce)
        if not side.alive:
            return side._replace(probes=probes)
        permit = self._permit(side, number)
        permit.probe_seen(nonce)
        return side._replace(memory=permit.memory, probes=probes)

    def _proven(self, state: State) -> State:
        for number, side in enumerate(state.sides):
            for nonce in side.probes:
                state = self._with(state, number, self._probed(state.sides[number], number, nonce))
        return state

    def _tick(self, state: State, order: tuple[int, int]) -> State:
        lags = any(side.lag > LAG or (side.row is not None and side.row.lag_us > LAG) for side in state.sides)
        for number in order:
            side = state.sides[number]
            if side.alive:
                state = self._with(state, number, self._looked(state, number, self._aged(side)))
        first, second = (side.applies for side in state.sides)
        if first is second or lags:  # who lags catches up alone
            return state._replace(alone=0)
        return state._replace(alone=max(state.alone, 0) + 1 if first else min(state.alone, 0) - 1)

    def _aged(self, side: Side) -> Side:
        """A tick later: times are counted back from now, so that states of different ages are one."""
        moved_at = max(side.memory.moved_at - 1, -AFTER)
        return side._replace(memory=msgspec.structs.replace(side.memory, moved_at=moved_at))

    def _looked(self, state: State, number: int, side: Side) -> Side:
        permit = self._permit(side, number)
        row = self._read(state, number)
        if row is not None:
            permit.sister_seen(0, row)
        own = Own(halted=side.halted, lag_us=side.lag)
        applies = self._state(permit, own) is PermitState.OPEN
        heard = state.sides[1 - number].memory.sister
        alive = 1 if heard is None else 1 - heard.alive  # another number than the one that was read last
        said = Sister(NAMES[number], alive, self._ready(permit, own), side.lag)
        lag = max(side.lag - 1, 0) if applies else side.lag
        return side._replace(memory=permit.memory, row=said, applies=applies, lag=lag)

    def _read(self, state: State, number: int) -> Sister | None:
        """The sister's row; None where its database is not reached."""
        return None if state.parted else state.sides[1 - number].row

    def _state(self, permit: Permit, own: Own) -> PermitState:
        return permit.state(0, own)

    def _ready(self, permit: Permit, own: Own) -> bool:
        return permit.ready(0, own)

    def _with(self, state: State, number: int, side: Side) -> State:
        first, second = state.sides
        return state._replace(sides=(side, second) if number == 0 else (first, side))


class _BothHold(PermitWorld):
    """A lag of either side holds both."""

    def _state(self, permit: Permit, own: Own) -> PermitState:
        return PermitState.PROBING if own.lag_us > LAG else super()._state(permit, own)


class _WaitsForReady(PermitWorld):
    def _ready(self, permit: Permit, own: Own) -> bool:
        sister = permit.memory.sister
        return super()._ready(permit, own) and sister is not None and sister.ready


class _NeverSilent(PermitWorld):
    def _permit(self, side: Side, number: int) -> Permit:
        return Permit(NAMES[1 - number], Limits(LAG, 99), side.memory)


class _OwnProbeAlone(PermitWorld):
    """It opens on its own probe."""

    def _read(self, state: State, number: int) -> Sister | None:
        row = super()._read(state, number)
        return row and msgspec.structs.replace(row, ready=True)


PERMIT_RULES = {
    "permit-lag": Rule("28a", "a feed that lags holds, too", lambda: _BothHold(Scope(1))),
    "permit-ready": Rule("28b", "a feed is ready when its sister is", lambda: _WaitsForReady(Scope(0))),
    "permit-silence": Rule("28c", "a silent sister is taken for a living one", lambda: _NeverSilent(Scope(1))),
    "permit-probe": Rule("B22", "one probe is enough", lambda: _OwnProbeAlone(Scope(0))),
}
PERMIT_SCOPES = [
    Sound("permit, pair", lambda: PermitWorld(Scope(2)), lambda: PermitWorld(Scope(1))),
]
