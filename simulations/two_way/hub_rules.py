"""Rules of the arbiter, each broken in turn: a world that leaves one out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelock.engine.model.records import Row
from tidelock.engine.two_way.column_groups import TouchedRows
from tidelock.engine.two_way.conflicts import Met
from tidelock.engine.two_way.decisions import Arriving, Decision
from tidelock.engine.two_way.echo import EchoIndex, Sending
from tidelock.engine.two_way.places import Place
from tidelock.engine.two_way.policies import Policies, Policy
from tidelock.engine.two_way.registers import Registers
from tidelock.engine.two_way.seen import Mark
from tidelock.simulations.two_way.hub import ARBITER, FEED, Change, HubWorld, registers
from tidelock.simulations.two_way.hub_state import (
    BY_COLUMN,
    COLUMNS,
    ROW,
    UNIQUE,
    Scope,
    Spoke,
    State,
)
from tidelock.simulations.two_way.rule import Rule

REJECT = Policies(Policy.ARBITER)
COLUMN_POLICIES = Policies(Policy.ARRIVAL, groups=COLUMNS)


class _NoEcho(HubWorld):
    class index(EchoIndex):
        def concerns(self, registers: Registers | None, seen: Place) -> bool:
            return False


class _EchoesNotCounted(HubWorld):
    def _sending(self, index: EchoIndex, state: State, number: int, at: int) -> Sending:
        how = super()._sending(EchoIndex(100, index.floor, index.entries()), state, number, at)
        return how if how is Sending.ECHO else super()._sending(index, state, number, at)


class _SeenWhenApplied(HubWorld):
    def _seen(self, spoke: Spoke) -> Place:
        prefix = self._prefix(spoke)
        for note in spoke.log[spoke.up :]:
            prefix.observe(Mark(FEED, ARBITER, note.applied))
        return prefix.seen


class _JustForgets(HubWorld):
    def _restarted(self, spoke: Spoke) -> Spoke:
        return spoke._replace(last=())


class _RowAlone(HubWorld):
    def _registers(self, before: Row | None, after: Row | None) -> Registers | None:
        return registers(ROW, before, after)


class _Silent(HubWorld):
    def _tells(self, decision: Decision) -> bool:
        return False


class _FoldsByPresence(HubWorld):
    def _folded(self, images: list[tuple[Row | None, Row | None]]) -> dict[Row, Row | None]:
        if len(images) > 1 and images[0][0] is None and images[-1][1] is None:
            return {}
        return super()._folded(images)


class _DoesNotLook(HubWorld):
    def _floored(self, spoke: Spoke, end: int) -> Spoke:
        return spoke

    def _lost(self, state: State, number: int, spoke: Spoke) -> Spoke:
        return super()._lost(state, number, spoke)._replace(down=spoke.down)


class _MostSeen(HubWorld):
    def _seen_of_batch(self, seens: list[Place]) -> Place:
        return max(seens)


class _PrunesTooFar(HubWorld):
    class index(EchoIndex):
        def raise_floor(self, to: Place) -> None:
            super().raise_floor(to)
            if self._sent:
                del self._sent[next(iter(self._sent))]


class _ForgetsWhenFull(HubWorld):
    class index(EchoIndex):
        def _make_room(self) -> None:
            del self._sent[next(iter(self._sent))]


class _AllAreOwn(HubWorld):
    def _sending(self, index: EchoIndex, state: State, number: int, at: int) -> Sending:
        entry = state.log[at]
        log = list(state.log)
        log[at] = entry._replace(source=number if entry.source >= 0 else entry.source)
        return super()._sending(index, state._replace(log=tuple(log)), number, at)


class _DeleteOfOneGroup(HubWorld):
    def _registers(self, before: Row | None, after: Row | None) -> Registers | None:
        found = super()._registers(before, after)
        return found[:1] if found is not None and after is None else found


class _WritesWholeRows(HubWorld):
    def _laid_over(self, columns: Sequence[int], after: Row, here: Row | None) -> Row:
        return after


class _LastChangeOfABatch(HubWorld):
    def _touched(self, changes: Sequence[Change]) -> TouchedRows:
        return super()._touched(changes[-1:])


class _ForgetsTheDisplaced(HubWorld):
    def _decide(self, change: Arriving, met: Met) -> Decision:
        return msgspec.structs.replace(super()._decide(change, met), lost=())


def _rule(history: str, broken: str, world: type[HubWorld], scope: Scope) -> Rule:
    return Rule(history, broken, lambda: world(scope))


_COLUMNS = Scope(writes=2, columns=True, layout=BY_COLUMN, policies=COLUMN_POLICIES)
_BATCHES = msgspec.structs.replace(_COLUMNS, batches=True, values=(1,))
_LOSES = Scope(writes=2, loses=True, restarts=1)
_SMALL = Scope(keys=2, writes=3, values=(1,))
_TWO = Scope(keys=2, writes=2, layout=UNIQUE)
_REJECTS = msgspec.structs.replace(_TWO, writes=3, policies=REJECT)

HUB_RULES = {
    "echo": _rule("1", "nothing goes back to who wrote it", _NoEcho, Scope(writes=2)),
    "echoes-count": _rule("2", "an echo does not count as sent", _EchoesNotCounted, Scope(writes=3)),
    "seen-in-place": _rule("3", "`seen` is taken when a change is read", _SeenWhenApplied, Scope(writes=3)),
    "floor": _rule("4", "a reader that begins anew has sent nothing", _JustForgets, Scope(restarts=1, lags=True)),
    "unique-registers": _rule("6", "an echo is found by the row alone", _RowAlone, _TWO),
    "verdict": _rule("7", "a change is refused silently", _Silent, _REJECTS),
    "last-image": _rule("11", "inserted and deleted in a batch: nothing", _FoldsByPresence, Scope(batches=True)),
    "rewound": _rule("12", "a spoke that lost a commit is not looked at", _DoesNotLook, _LOSES),
    "least-seen": _rule("B5", "a batch says the most that was seen", _MostSeen, Scope(keys=2, writes=3, gathers=True)),
    "pruned": _rule("B8", "one change too much is forgotten", _PrunesTooFar, Scope(prunes=True, lags=True)),
    "full": _rule("B9", "a full index keeps its floor", _ForgetsWhenFull, Scope(keys=2, writes=3, limit=1, lags=True)),
    "own-alone": _rule("B10", "rows of others are taken for its own", _AllAreOwn, Scope(spokes=2, writes=2)),
    "sums": _rule("26a", "counters are overwritten by images", HubWorld, Scope(counters=True, deletes=False)),
    "recorded": _rule("B13", "rows that make room are not told", _ForgetsTheDisplaced, _TWO),
    "groups-of-deletes": _rule("B17", "a delete touches one group of columns", _DeleteOfOneGroup, _COLUMNS),
    "groups-written": _rule("29", "whole rows are written, groups count as sent", _WritesWholeRows, _COLUMNS),
    "groups-of-batches": _rule("29a", "a batch writes what its last change touches", _LastChangeOfABatch, _BATCHES),
}
