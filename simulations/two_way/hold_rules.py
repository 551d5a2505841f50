"""Rules of `hold`, each broken in turn, and the scopes in which all of them hold."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from tidelock.engine.two_way.places import Place
from tidelock.engine.two_way.registers import Registers
from tidelock.simulations.two_way.hold import HoldWorld, StrictHoldWorld
from tidelock.simulations.two_way.holding import Hold, Waiting
from tidelock.simulations.two_way.hub import Step
from tidelock.simulations.two_way.hub_rules import REJECT
from tidelock.simulations.two_way.hub_scopes import COUNTERS, TAKEN
from tidelock.simulations.two_way.hub_state import Entry, Note, Scope, Spoke, State, place
from tidelock.simulations.two_way.rule import Rule, Sound


class _Drops(HoldWorld):
    """Breaks a rule: what would wait is dropped, and counts as applied without its row."""

    def _fall(self, state: State, number: int, size: int) -> Step:
        word, after = super()._fall(state, number, size)
        if isinstance(after, str) or not after.spokes[number].held:
            return word, after
        spoke = after.spokes[number]
        marks = tuple(Note("mark", applied=each.applied) for each in spoke.held)
        spokes = list(after.spokes)
        spokes[number] = spoke._replace(held=(), log=(*spoke.log, *marks))
        return word.replace("waits", "is dropped"), after._replace(spokes=tuple(spokes))


class _DropsByValue(_Drops):
    def _waits_for(self, note: Note) -> Registers:
        return self._registers(note.before, note.after) or ()

    def _offered(self, hold: Hold, key: Registers, entry: Entry, stretch: tuple[Place, Place]) -> Waiting | None:
        found = hold.offer(self._registers(entry.before, entry.after) or key, entry.after, stretch)
        return found and Waiting(key, found.row, found.applied)


class _HeldIsSeen(HoldWorld):
    def _sent(self, spoke: Spoke, at: int, hold: Hold, key: Registers) -> Place:
        return spoke.sent if any(each.key == key for each in hold.waiting()) else place(at)


class _PassesTheCheckpoint(HoldWorld):
    def _restarted(self, spoke: Spoke) -> Spoke:
        return self._floored(spoke, spoke.down)._replace(held=())


class _AnyReceipt(HoldWorld):
    def _receipts(self, state: State, number: int, at: int) -> list[Place]:
        return [place(n) for n in range(len(state.spokes[number].log))]


class _ReceiptsWithRows(HoldWorld):
    def _covers(self, entry: Entry, number: int) -> bool:
        return super()._covers(entry, number) and entry.kind != "receipt"

    def _receipts(self, state: State, number: int, at: int) -> list[Place]:
        return [] if state.log[at].kind == "receipt" else super()._receipts(state, number, at)


class _ByKeyAlone(StrictHoldWorld):
    def _hold(self, own: Iterable[tuple[Place, Registers]], held: tuple[Waiting, ...]) -> Hold:
        return HoldWorld._hold(self, own, held)


PAIR = Scope(known=True)
PART = Scope()


def _rule(history: str, broken: str, world: type[HoldWorld], scope: Scope) -> Rule:
    return Rule(history, broken, lambda: world(scope))


HOLD_RULES = {
    "hold-by-key": _rule("8", "what shares a value is dropped", _DropsByValue, replace(TAKEN, writes=3, known=True)),
    "hold-not-drop": _rule("9", "what would wait is dropped", _Drops, replace(PART, writes=3)),
    "held-unseen": _rule("10", "what waits counts as seen", _HeldIsSeen, Scope(keys=2, values=(1,))),
    "held-checkpoint": _rule("B23", "a checkpoint passes what waits", _PassesTheCheckpoint, Scope(restarts=1)),
    "own-receipts": _rule("B24", "any receipt releases what waits", _AnyReceipt, PAIR),
    "hold-knows-all": _rule("40", "what the spoke has committed is known when it is read", StrictHoldWorld, PART),
    "hold-by-values": _rule("41", "what waits does so by its key alone", _ByKeyAlone, replace(TAKEN, known=True)),
    "all-receipts": _rule("9a", "receipts without a row release nothing", _ReceiptsWithRows, PAIR),
}


def sound(name: str, full: Scope, **small: object) -> Sound:
    """`small`: in what the small scope differs; nothing: there is none."""
    less = replace(full, **small)
    return Sound(name, lambda: HoldWorld(full), (lambda: HoldWorld(less)) if small else None)


HOLD_SCOPES = [
    sound("hold, pair", PAIR, writes=3),
    sound("hold, pair, 5 writes, no delete", replace(PAIR, writes=5, deletes=False)),
    sound("hold, pair, spoke's log known in part", PART, writes=3),
    sound("hold, pair, two keys", Scope(keys=2, values=(1,)), writes=3),
    sound("hold, pair, stale checkpoints", replace(PART, saves=2, deletes=False), writes=3),
    sound("hold, pair, restart", replace(PART, restarts=1), writes=3),
    sound("hold, pair, the arbiter's row stays", replace(PART, policies=REJECT), writes=3),
    sound("hold, pair, counters add up", COUNTERS, writes=3),
    sound("hold, pair, unique value, others make room", TAKEN, writes=3),
    sound("hold, pair, unique value, the arbiter's row stays", replace(TAKEN, policies=REJECT), writes=3),
    Sound(
        "hold, pair, unique value, nothing of the spoke's makes room",
        lambda: StrictHoldWorld(replace(TAKEN, known=True)),
        lambda: StrictHoldWorld(replace(TAKEN, known=True, writes=3)),
    ),
    sound("hold, two spokes", Scope(spokes=2, writes=3), writes=2),
    sound("hold, two spokes, unique value", replace(TAKEN, spokes=2, writes=3, policies=REJECT)),
]
