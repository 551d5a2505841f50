"""Who waits for whom at this moment, and for which keys: a look at lanes and locks for people, which changes nothing.

The look is bounded, however much waits: it takes the first segments of each lane, follows so many waits from them, and
compares so many keys.  A wait that it shows is one that holds; what it has no steps left for, it leaves out, and a key
that it did not find is ''.  The number of all that wait is the lock table's own count.

A segment waits by one of its changes: of single rows the first, of whole transactions any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from tidelock.engine.batch.parked_rows import key_for_people
from tidelock.engine.model.index import WHOLE_INDEX, Digest, Key, digest
from tidelock.engine.parallel.dispatcher import Dispatcher
from tidelock.engine.parallel.keyspace import Keyspace, Namespace
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_holder import LockHolder
from tidelock.engine.parallel.segments import Change, Segment

MOST: Final = 200
"""How many waits and how many keys are shown, at most."""
STEPS: Final = 40_000
"""About how many segments, waits and keys a look takes in hand, at most."""
_KEYS_A_STEP: Final = 16
_CHANGES: Final = 64
"""How many changes of a segment are looked at for the key that it waits for."""

LaneState: TypeAlias = Literal["idle", "applies", "ready", "waits"]


class LaneLook(msgspec.Struct, frozen=True):
    """A lane.  `waiting`: rows queued, `batch_rows`: rows of the batch at the target, both in the segments that were
    looked at; `more`: there are others behind them.  `state`: `ready` where it may send and has not, `waits` where its
    first segment waits for another lane.
    """

    lane: int
    waiting: int
    more: bool
    batch_rows: int
    state: LaneState


class Wait(msgspec.Struct, frozen=True):
    """A change that waits, and one that it waits for, each with its lane.  `rows`: that wait with it.  `applies`:
    whether the other is at the target.  `key`: what both lock; '' where it was not found.
    """

    change: str
    lane: int
    rows: int
    waits_for: str
    at: int
    applies: bool
    key: str


class HotKey(msgspec.Struct, frozen=True):
    """A key, with the number of waits for it that were looked at."""

    table: str
    key: str
    waiting: int


class LockWaits(msgspec.Struct, frozen=True):
    """The result of a look.  `total_waiting`: segments that wait, all of them.  `steps`: that the look took."""

    lanes: tuple[LaneLook, ...]
    waits: tuple[Wait, ...]
    hottest: tuple[HotKey, ...]
    total_waiting: int
    steps: int


class _Shared(NamedTuple):
    """A key that two segments lock: `name` tells it apart, the others are for people."""

    name: object
    table: str
    text: str


def look(
    dispatcher: Dispatcher, lanes: Sequence[Lane], space: Keyspace, most: int = MOST, steps: int = STEPS
) -> LockWaits:
    """Returns what is to be seen of `lanes`, whose changes the dispatcher has planned.  `space`: names its keys."""
    return _Look(dispatcher, lanes, space, steps).told(most)


class _Look:
    """One look.  `left`: the steps that may still be taken."""

    def __init__(self, dispatcher: Dispatcher, lanes: Sequence[Lane], space: Keyspace, steps: int) -> None:
        self.left = steps
        self._steps = steps
        self._dispatcher, self._lanes, self._space = dispatcher, lanes, space
        self._held: dict[LockHolder, dict[Digest, tuple[Key, bool]]] = {}
        self._running: dict[LockHolder, None] = {}
        self._names: list[Namespace] = []

    def told(self, most: int) -> LockWaits:
        """Looks, and returns what it has seen."""
        share = max(1, self._steps // 4 // max(1, len(self._lanes)))
        seen: list[Segment] = []
        lanes = tuple([self._lane(lane, share, seen) for lane in self._lanes])
        seen.sort(key=lambda segment: segment.order)
        waits: list[Wait] = []
        counts: dict[object, tuple[_Shared, int]] = {}
        for segment, other in self._pairs(seen):
            shared = self._shared(segment, other)
            if shared is not None:
                counts[shared.name] = (shared, counts.get(shared.name, (shared, 0))[1] + 1)
            if len(waits) < most:
                waits.append(self._wait(segment, other, shared))
        hot = sorted(counts.values(), key=lambda found: (-found[1], found[0].table, found[0].text))
        hottest = tuple([HotKey(shared.table, shared.text, count) for shared, count in hot[:most]])
        waiting = self._dispatcher.locks.waiting
        return LockWaits(lanes, tuple(waits), hottest, waiting, self._steps - self.left)

    def _lane(self, lane: Lane, share: int, seen: list[Segment]) -> LaneLook:
        running = list(islice(lane.running, share))
        queued = list(islice(lane.queue, share))
        self.left -= len(running) + len(queued)
        self._running.update(dict.fromkeys(segment.holder for segment in running))
        seen += (*running, *queued)
        state: LaneState = "idle"
        if lane.running:
            state = "applies"
        elif queued:
            state = "ready" if queued[0].runnable else "waits"
        rows = [sum(len(segment.changes) for segment in some) for some in (queued, running)]
        more = len(lane.queue) > len(queued) or len(lane.running) > len(running)
        return LaneLook(lane.number, rows[0], more, rows[1], state)

    def _pairs(self, seen: Sequence[Segment]) -> Iterator[tuple[Segment, Segment]]:
        """Yields segments that wait, each with one that it waits for; the earliest of these first."""
        at = {segment.holder: segment for segment in seen}
        each = max(1, self._steps // 16)
        for other in seen:
            successors = list(islice(other.holder.successors, max(0, min(each, self.left))))
            self.left -= len(successors)
            yield from ((at[successor], other) for successor in successors if successor in at)

    def _wait(self, segment: Segment, other: Segment, shared: _Shared | None) -> Wait:
        key = shared.text if shared is not None else ""
        applies = other.holder in self._running
        return Wait(_text(segment), segment.lane, len(segment.changes), _text(other), other.lane, applies, key)

    # ------------------------------------------------------------------ keys

    def _shared(self, segment: Segment, other: Segment) -> _Shared | None:
        """Returns the first key for which `segment` waits for `other`; None: it was not found."""
        held = self._held_by(other.holder)
        if held is None:
            return None
        for change in islice(segment.changes, max(0, min(_CHANGES, self.left))):
            self.left -= 1
            (keys,) = self._dispatcher.keys_of([change])
            for own, exclusive in keys:
                if own in held and (exclusive or held[own][1]):
                    return self._named(change, own, held[own][0])
            if not held and change.binding.name in (other.holder.tables or ()):
                return _Shared(change.binding.name, str(change.binding.name), "the whole table")
        return None

    def _held_by(self, holder: LockHolder) -> dict[Digest, tuple[Key, bool]] | None:
        """Digests of what it holds, with the key where that is known, and whether it is held in mode X; None where that
        is too much."""
        held = self._held.get(holder)
        if held is None:
            cost = 1 + (len(holder.keys) + len(holder.requests)) // _KEYS_A_STEP
            if cost > self.left:
                return None
            self.left -= cost
            held = self._held[holder] = dict.fromkeys(holder.keys, ((), True))
            for key, mode in holder.requests:
                own = digest(key)
                held[own] = (key, mode or (own in held and held[own][1]))
        return held

    def _named(self, change: Change, own: Digest, key: Key) -> _Shared:
        if key:
            self._names = self._names or self._space.named()
            table, what, columns = self._names[key[0]]
            if what == "table":
                return _Shared(table, str(table), "the whole table")
            return _Shared(key, str(table), _spelled(columns, key[1:]))
        for index in self._dispatcher.indexes_of(change.binding):
            for row in (change.before, change.after):
                values = index.values(row) if row is not None else None
                if values is not None and digest(values) == own:
                    text = key_for_people(change.binding, row)
                    if not index.is_key:
                        names = [change.binding.shape.columns[position].name for position in index.positions]
                        text = f"{', '.join(names)} of {text}"
                    return _Shared(own, str(change.binding.name), text)
        return _Shared(own, str(change.binding.name), "")


def _text(segment: Segment) -> str:
    if not segment.changes:
        return "copied rows"
    change = segment.changes[0]
    return f"{change.binding.name} {key_for_people(change.binding, change.before or change.after)}"


def _spelled(columns: Sequence[str], values: Key) -> str:
    if values == WHOLE_INDEX:
        return f"every value of {', '.join(columns)}"
    return ", ".join(f"{name}={str(value)[:60]}" for name, value in zip(columns, values, strict=True))[:500]
