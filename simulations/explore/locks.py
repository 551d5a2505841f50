"""The lock table and all around it: every way in which a history can be planned, sent, committed and cut by a crash.

Driven are the engine's own `Dispatcher`, `LockTable`, `Lane`, `merge`, `Fence` and `Watermark`; the target is the
model database.  The moves:

- `plan n`: the next n changes of the log are a planning window;
- `send l n`: lane l cuts a batch of about n rows;  `commit l`: the target commits it;
- `crash`: the owner dies; a new one with another number of lanes reads on from a checkpoint, behind the fence of the
  receipts that are left.

What must hold: unique and foreign keys and the order of each row at every commit; the watermark never passes what is
committed; the fence lets through exactly what is not; a change that nothing stands in the way of goes to its home
lane; some move is possible until all is committed; then no lock is left, and the target is the source.

Reductions, each exact.
*A send and its commit are one move*, unless `apart`: until a lane's batch is committed no other lane can tell whether
it was cut, and a later cut can take the same segments.
*A crash comes at once after a commit, or at the start*: the next life is made of what is committed, nothing else.  (A
batch that is committed while its answer is lost is one that was committed just before the crash.)
*The checkpoint is not chosen*: at every commit it is seen that the fence lets through the same, namely all that is not
committed, whichever of the watermarks so far was the last checkpoint; so it does not matter which.
*The past is forgotten*: changes that are committed, and receipts that the watermark has passed, leave no trace but
the rows.  So histories that leave the same rows, changes in flight and changes to come go on as one.
*Notes are not told apart*: changes of a row are never out of turn, so a row's note is what its next change expects.
"""

from __future__ import annotations

import marshal
from collections.abc import Hashable, Iterable, Sequence

import msgspec
from xxhash import xxh3_128_digest

from tidelock.engine.log import receipts
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.segments import Segment
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import Receipt
from tidelock.simulations.explore.book import Book
from tidelock.simulations.explore.histories import Contents, Draft
from tidelock.simulations.explore.search import Broken, Move
from tidelock.simulations.explore.world import World, replayed


class Start(msgspec.Struct, frozen=True):
    """`goal`: what the target must hold in the end.  `spare`: lanes after the crash that is still to come, or 0."""

    contents: Contents
    drafts: tuple[Draft, ...]
    goal: Contents
    lanes: int
    spare: int


def begin(world: World, contents: Contents, drafts: tuple[Draft, ...], *, crash: bool = True) -> Start:
    first, then = world.scope.lanes
    return Start(contents, drafts, replayed(contents, drafts), first, then if crash else 0)


class LockModel:
    """`apart`: a send and its commit are two moves."""

    def __init__(self, world: World, start: Start, book: Book, *, apart: bool = False) -> None:
        self.world = world
        self._start = start
        self._book = book
        self._apart = apart
        self._way: list[Move] = []
        self._begin()

    def _begin(self) -> None:
        world, pieces, start = self.world, self.world.pieces, self._start
        self.log = world.log(start.drafts)
        self.contents = start.contents
        self.lanes = [pieces.lane(n) for n in range(start.lanes)]
        self.locks = pieces.locks()
        self.dispatcher = pieces.dispatcher(self.lanes, self.locks)
        for binding, keys in world.keys.items():
            self.dispatcher.bind(binding, keys)
        self.watermark = pieces.watermark(self.world.positions[0])
        self.taken = 0
        self._ends: list[int] = []  # of the windows
        self._committed: dict[int, tuple[int, ...]] = {}  # numbers of each batch, by its first
        self._marks: dict[int, tuple[EffectId, ...]] = {0: ()}  # watermarks, with the receipts that go at each

    # ------------------------------------------------------------------ the system

    def fork(self) -> LockModel:
        """The same moves again: cheaper than to copy what they made."""
        twin = type(self)(self.world, self._start, self._book, apart=self._apart)
        for move in self._way:
            twin._do(move)
        return twin

    def moves(self) -> Sequence[Move]:
        found: list[Move] = [("plan", n) for n in range(1, len(self.log.changes) - self.taken + 1)]
        for lane in self.lanes:
            if lane.running:
                found.append(("commit", lane.number))
            elif lane.ready:
                verb = "send" if self._apart else "commit"
                found += [(verb, lane.number, rows) for rows in _cuts(lane)]
        if not found and not self._drained:
            raise Broken(f"nothing can go on: {', '.join(map(_told, self.lanes))}")
        if self._start.spare and (not self._way or self._way[-1][0] == "commit"):
            found.append(("crash",))
        return found

    def take(self, move: Move) -> None:
        before = self._in_flight() if move[0] == "plan" else []
        self._do(move)
        match move:
            case ("plan", int(count)):
                self._see_parallel(before, range(self.taken - count + 1, self.taken + 1))
            case ("commit", *_):
                if self._start.spare:
                    for mark, dropped in self._marks.items():
                        self._see_fence(mark, dropped)
                if self._drained:
                    self._see_end()

    def _do(self, move: Move) -> None:
        self._way.append(move)
        match move:
            case ("plan", int(count)):
                self._plan(count)
            case ("send", int(lane), int(rows)):
                self._send(self.lanes[lane], rows)
            case ("commit", int(lane), *rows):
                if rows:
                    self._send(self.lanes[lane], *rows)
                self._commit(self.lanes[lane])
            case ("crash",):
                self._crash()
            case _:
                raise ValueError(move)

    # ------------------------------------------------------------------ the moves

    def _plan(self, count: int) -> None:
        changes = self.log.changes[self.taken : self.taken + count]
        made = self.dispatcher.plan(self.watermark.upcoming(), changes)
        self.taken += count
        self._ends.append(self.taken)
        self.watermark.open(self.world.positions[self.taken], made)

    def _send(self, lane: Lane, rows: int) -> None:
        lane.cut(rows)

    def _commit(self, lane: Lane) -> None:
        """Raises Broken where the target refuses, or a row is not what its change was made to."""
        numbers = numbers_of(lane.running)
        self._see_order(numbers)
        self.contents = self.world.applied(self.contents, self.log, numbers)
        self._committed[numbers[0]] = numbers
        self.watermark.receipt(max([s.window for s in lane.running]), EffectId(1, numbers[0]))
        for segment in lane.running:
            self._release(segment)
            self.watermark.done(segment.window)
        lane.finish()
        self._marks.setdefault(self._mark, self.watermark.droppable())

    def _release(self, segment: Segment) -> None:
        self.locks.release(segment.holder)

    def _crash(self) -> None:
        done = self._done
        left = tuple(draft for n, draft in enumerate(self.log.drafts, 1) if n not in done)
        self._start = Start(self.contents, left, self._start.goal, self._start.spare, 0)
        self._way = []
        self._begin()

    # ------------------------------------------------------------------ what must hold

    def _see_order(self, numbers: Sequence[int]) -> None:
        done = {*self._done}
        for n in numbers:
            if overtaken := [m for m in self.log.earlier[n] if m not in done]:
                raise Broken(f"{n} overtakes {overtaken[0]}, which changes the same row")
            done.add(n)

    def _see_parallel(self, before: Sequence[int], window: Sequence[int]) -> None:
        drafts, conflict = self.log.drafts, self._book.conflict
        lane_of = {n: lane.number for lane in self.lanes for n in numbers_of(lane.queue)}
        for n in window:
            home = self.world.home(drafts[n - 1], len(self.lanes))
            if lane_of[n] != home and not any(
                conflict(drafts[n - 1], drafts[m - 1]) for m in (*before, *window) if m != n
            ):
                raise Broken(f"nothing stands in the way of {n}, yet it goes to lane {lane_of[n]} instead of {home}")

    def _receipt_of(self, numbers: Sequence[int]) -> bytes:
        changes = [self.log.changes[n - 1] for n in numbers]
        return receipts.encode([(c.source, c.number, c.ordinal) for c in changes])

    def _see_fence(self, mark: int, dropped: tuple[EffectId, ...]) -> None:
        """Would a new owner with the checkpoint `mark` apply exactly what is not committed?"""
        gone = frozenset(dropped)
        held = [
            Receipt(EffectId(1, first), self._receipt_of(numbers))
            for first, numbers in self._committed.items()
            if EffectId(1, first) not in gone
        ]
        fresh, _ = self.world.pieces.fence(held).admit(list(self.log.changes[mark:]))
        admitted, done = {change.number for change in fresh}, self._done
        for n in range(1, len(self.log.changes) + 1):
            if (n in admitted) == (n in done):
                what = "committed, and would be applied again" if n in done else "not committed, and would be lost"
                raise Broken(f"{n} is {what} after a crash with the checkpoint {mark}")

    def _see_end(self) -> None:
        if self.contents != self._start.goal:
            raise Broken(f"the target ends with {self.contents}, the source with {self._start.goal}")
        if len(self.locks):
            raise Broken(f"{len(self.locks)} keys are still locked when all is committed")
        if self._mark != len(self.log.changes):
            raise Broken(f"all is committed, yet the watermark is {self._mark}")

    # ------------------------------------------------------------------ what the state is

    @property
    def _mark(self) -> int:
        """The watermark, as a number of the log."""
        return self.watermark.position.offset

    @property
    def _done(self) -> frozenset[int]:
        return frozenset(n for numbers in self._committed.values() for n in numbers)

    def _in_flight(self) -> list[int]:
        return [n for lane in self.lanes for n in (*numbers_of(lane.running), *numbers_of(lane.queue))]

    @property
    def _drained(self) -> bool:
        return self.taken == len(self.log.changes) and not any(lane.queue or lane.running for lane in self.lanes)

    def key(self) -> Hashable:
        """Segments are named by their rank, windows by their end, and nothing by its past."""
        locks, number, pending = self.locks, self.world.number, self.watermark.pending
        flight = sorted((s for lane in self.lanes for s in (*lane.running, *lane.queue)), key=lambda s: s.order)
        rank = {id(segment.holder): n for n, segment in enumerate(flight)}
        held = locks.holders(self.log.exclusive)
        past, mark = min([c.number - 1 for s in flight for c in s.changes], default=self.taken), self._mark
        state = (
            self._start.spare,
            len(self.lanes),
            self.world.rows(self.contents),
            self.world.rows(self._start.goal),
            self.log.kinds[past:],
            self.taken - past,
            [
                (
                    segment.lane,
                    self._ends[segment.window] - past,
                    [c.number - past for c in segment.changes],
                    segment.holder.pending_predecessors,
                    [rank[id(successor)] for successor in segment.holder.successors],
                )
                for segment in flight
            ],
            [len(lane.running) for lane in self.lanes],
            sorted([(number(key), rank[id(holder)]) for key, holder in held.items()]),
            sorted(
                [
                    (number(key), [rank[id(s)] for s in holders])
                    for key in self.log.requests
                    if (holders := locks.predecessors([key]))
                ]
            ),
            [end - past for end in self._ends[-pending:]] if pending else [],
            sorted([[n - past for n in batch] for batch in self._committed.values() if max(batch) > mark])
            if self._start.spare
            else [],
        )
        return xxh3_128_digest(marshal.dumps(state, 2))


def numbers_of(segments: Iterable[Segment]) -> tuple[int, ...]:
    """The places in the log of all their changes."""
    return tuple([change.number for segment in segments for change in segment.changes])


def _cuts(lane: Lane) -> list[int]:
    """Numbers of rows that a batch may have: any number of runnable segments from the head of the queue."""
    rows = 0
    found: list[int] = []
    for segment in lane.queue:
        if not segment.runnable and found:
            break
        rows += len(segment.changes)
        found.append(rows)
    return found


def _told(lane: Lane) -> str:
    waits = ((s, s.holder.pending_predecessors) for s in lane.queue)
    segments = (f"{numbers_of([s])}{f' waits for {count}' if count else ''}" for s, count in waits)
    return f"lane {lane.number} has {'; '.join(segments) or 'nothing'}"
