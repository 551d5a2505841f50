"""The rules of the lock table and the fence, each broken in turn: what comes of it is why the rule is there.

Nothing in the engine is switched: the model is built with one piece in which the rule does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tidelock.engine.batch.merge import Ranks, merge
from tidelock.engine.log.receipts import Fence
from tidelock.engine.log.watermark import Watermark
from tidelock.engine.model.index import Digest
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.dispatcher import Dispatcher
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_holder import LockHolder
from tidelock.engine.parallel.lock_keys import RowKeys
from tidelock.engine.parallel.lock_request import LockRequest
from tidelock.engine.parallel.lock_table import LockTable
from tidelock.engine.parallel.segments import Change, Segment
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.steps import DeleteRows, Step
from tidelock.simulations.explore import scopes
from tidelock.simulations.explore.histories import Scope
from tidelock.simulations.explore.locks import LockModel
from tidelock.simulations.explore.world import Pieces


class Rule(msgspec.Struct, frozen=True):
    """`broken`: what is done instead.  `scope`: where it shows."""

    broken: str
    scope: Callable[[], Scope] = scopes.one_unique
    pieces: Pieces = Pieces()
    model: type[LockModel] = LockModel
    apart: bool = False


def _no_locks(lanes: Sequence[Lane], locks: LockTable) -> Dispatcher:
    return Dispatcher(lanes, locks, locking=False)


def _no_primary_key(_binding: Binding, keys: RowKeys) -> RowKeys:
    return _only(keys, primary=False)


def _no_unique_key(_binding: Binding, keys: RowKeys) -> RowKeys:
    return _only(keys, primary=True)


def _only(keys: RowKeys, *, primary: bool) -> RowKeys:
    """Take of a change's keys only the primary, or all others: the first that an inserted row takes is its primary."""

    def exclusive(before: Row | None, after: Row | None) -> list[Digest]:
        primaries = [keys.exclusive(None, row)[0] for row in (before, after) if row is not None]
        return [key for key in keys.exclusive(before, after) if (key in primaries) == primary]

    return RowKeys(exclusive, keys.requests, keys.serial)


def _no_parents(_binding: Binding, keys: RowKeys) -> RowKeys:
    return RowKeys(keys.exclusive, None, keys.serial)


def _null_is_equal(_binding: Binding, keys: RowKeys) -> RowKeys:
    def filled(row: Row | None) -> Row | None:
        return row and tuple("null" if value is None else value for value in row)

    return RowKeys(lambda before, after: keys.exclusive(filled(before), filled(after)), keys.requests, keys.serial)


class _OneHeir(LockTable):
    """Remembers the last holder of a key only."""

    def predecessors(self, keys: list[LockRequest]) -> list[LockHolder]:
        return [holders[-1] for key in keys if (holders := super(_OneHeir, self).predecessors([key]))]


class _Overtaking(Lane):
    """Lane in which what can run goes first, past what waits."""

    @property
    def ready(self) -> bool:
        return not self.running and any(segment.runnable for segment in self.queue)

    def cut(self, limit: int) -> None:
        waiting = [segment for segment in self.queue if not segment.runnable]
        able = [segment for segment in self.queue if segment.runnable]
        self.queue.clear()
        self.queue.extend(able)
        super().cut(limit)
        rest = [*waiting, *self.queue]
        self.queue.clear()
        self.queue.extend(sorted(rest, key=lambda segment: segment.order))


class _ReleasedWhenSent(LockModel):
    def _send(self, lane: Lane, rows: int) -> None:
        super()._send(lane, rows)
        for segment in lane.running:
            self.locks.release(segment.holder)

    def _release(self, segment: Segment) -> None:
        pass


class _Forgetful(Watermark):
    def droppable(self) -> tuple[EffectId, ...]:
        return tuple(sorted(receipt for _, receipt in self._receipts))


class _Open(Fence):
    def admit(self, changes: list[Change]) -> tuple[list[Change], list[EffectId]]:
        return changes, []


def _deletes_last(changes: Sequence[Change], ranks: Ranks) -> list[Step]:
    return sorted(merge(changes, ranks), key=lambda step: isinstance(step, DeleteRows))


RULES = {
    "locks": Rule("no change takes a lock", pieces=Pieces(dispatcher=_no_locks)),
    "primary-key": Rule("the primary key is no lock key (counter-example 1)", pieces=Pieces(keys=_no_primary_key)),
    "unique-key": Rule("only the primary key is a lock key", pieces=Pieces(keys=_no_unique_key)),
    "parent-key": Rule("a child takes no lock on its parent", scopes.parents, Pieces(keys=_no_parents)),
    "all-holders": Rule(
        "a parent waits for its last child only (counter-example 10)", scopes.children, Pieces(locks=_OneHeir)
    ),
    "null": Rule("NULL equals NULL", pieces=Pieces(keys=_null_is_equal)),
    "lane-order": Rule("a lane lets what can run overtake what waits", scopes.parents, Pieces(lane=_Overtaking)),
    "release": Rule("locks are released when a batch is sent", model=_ReleasedWhenSent, apart=True),
    "deletes-first": Rule("a batch writes before it deletes", pieces=Pieces(merge=_deletes_last)),
    "fence": Rule("receipts are not looked at after a crash", pieces=Pieces(fence=_Open)),
    "receipts": Rule("a checkpoint drops all receipts (counter-example 4)", pieces=Pieces(watermark=_Forgetful)),
}
