"""The copy part of a shell: turns requests into plans, and effects of a copy into work of the sink and the copier.

It decides nothing about rows.  It asks the copier how to split what operators queued, once for each request and one
plan after another, because the machine takes one copy at a time; and it counts for the progress display.

A request is in `tidelock_wanted` until its copy begins or is refused, so a crash loses none.  It is the feed's: of a
feed with several table groups each takes what is its own (`Own`).  Requests are read beside
everything else: what was read before a copy began may still name what the copy has removed.  Hence no process plans a
request twice (an ordinal is never used again), and requests that were read meanwhile are forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, assert_never

import msgspec

from tidelock.adapters.ports.copier import Copier
from tidelock.adapters.ports.sink import Sink, Wanted
from tidelock.adapters.runtime.table_copy import TableCopy
from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import TableName
from tidelock.engine.protocol import effects, events

LATE_SECONDS: Final = 20.0
"""After this time a staging table that was dropped is dropped again."""

DROP_SECONDS: Final = 5.0
"""How long the end of a run waits for a target that does not drop what was staged."""

_AT_FIRST: Final = ("fill", "resync")
"""Modes of copies before which nothing is applied."""

Own: TypeAlias = Callable[[Sequence[Wanted]], Awaitable[Sequence[Wanted]]]
"""Returns those of the requests that are this machine's to carry out; fewer than there are while that is not known."""


class _Counted(msgspec.Struct):
    """Counts of one copy.  `found`, `before`: chunks and rows that were merged when this process or the copy began;
    `since`: time of the first read (monotonic).
    """

    chunks: int
    merged: int
    found: int
    before: int
    rows: int = 0
    since: float = 0.0
    seconds: float = 0.0


class Copies:
    """The copies of a feed, or of one of its table groups.

    `essential`: it begins with this copy: if it is refused the feed ends, because nothing may be applied without it.
    `own`: chooses among requests; None: all are ours.  `at_first_alone`: rows may be copied as long as nobody writes at
    the target, that is before anything is applied: of a feed from an arbiter that sends back only what crossed others.
    `answered`: how many copies have begun or were refused.
    """

    def __init__(
        self,
        machine: ApplyMachine,
        sink: Sink,
        copier: Copier,
        tell: Callable[[str], None],
        *,
        essential: bool = False,
        own: Own | None = None,
        at_first_alone: bool = False,
    ) -> None:
        self.answered = 0
        self._at_first_alone = at_first_alone
        self._machine = machine
        self._sink = sink
        self._copier = copier
        self._tell = tell
        self._essential = essential
        self._own = own
        self._tables: dict[TableName, _Counted] = {}
        self._asked: set[int] = set()
        self._free = asyncio.Event()  # not set: a plan was asked for, and its copy has neither begun nor been refused
        self._free.set()
        self._reads: dict[effects.EffectId, asyncio.Event] = {}  # set when the read has returned
        self._late: dict[effects.EffectId, asyncio.TimerHandle] = {}  # by attempt that was dropped a moment ago
        self._dropping: set[asyncio.Task[None]] = set()
        # of these chunks, which are being read or wait for their merge
        self._staged: dict[effects.EffectId, TableName] = {}

    def attach(self, post: Callable[[events.ApplyEvent], None], end: Callable[[Alarm], None]) -> None:
        """Connects to the shell, once.  `end`: is called with the reason why nothing may go on."""
        self._post = post
        self._end = end

    # ------------------------------------------------------------------ requests

    @property
    def owed(self) -> bool:
        """Tells whether this begins with a copy that was not asked for yet, because it is not known whose it is."""
        return self._essential and self._own is not None and not self._asked

    async def want(self, wanted: Sequence[Wanted], answered: int) -> None:
        """Plans what operators queued, unless a copy is about to begin.  `answered`: as it was before `wanted` was
        read.
        """
        fresh: Sequence[Wanted] = [w for w in wanted if w.ordinal not in self._asked]
        if fresh and self._own is not None:
            fresh = [w for w in await self._own(fresh) if w.ordinal not in self._asked]
        new = sorted(fresh, key=lambda w: (w.mode != "resync", w.ordinal))  # without that nothing may be applied
        if not new or not self._free.is_set() or answered != self.answered:
            return
        _, same = next(itertools.groupby(new, key=lambda w: w.mode))
        await self._plan(list(same))

    async def none_about_to_begin(self) -> None:
        """Notes that no copy is about to begin."""
        await self._free.wait()

    async def _plan(self, wishes: list[Wanted]) -> None:
        self._free.clear()
        self._asked.update(wish.ordinal for wish in wishes)
        if self._at_first_alone and wishes[0].mode not in _AT_FIRST:
            plan: events.ChunksPlanned | Alarm = _overtakes(wishes)
        else:
            plan = await self._copier.plan(wishes, self._machine.tables)
        if isinstance(plan, Alarm):
            await self._refuse(tuple(dict.fromkeys(wish.table for wish in wishes)), plan)
        else:
            self._post(plan)

    async def _refuse(self, tables: Sequence[TableName], alarm: Alarm) -> None:
        self._settled()
        self._tell(str(alarm))
        if self._essential:
            self._end(alarm)  # the requests stay, for the next run
        else:
            await self._sink.refuse(tables, alarm)

    def _settled(self) -> None:
        self._free.set()
        self.answered += 1

    # ------------------------------------------------------------------ effects

    async def carry_out(self, effect: effects.CopyEffect) -> None:
        """Starts to carry out an effect."""
        match effect:
            case effects.BeginCopy():
                await self._begin(effect)
            case effects.ReadChunk():
                await self._read(effect)
            case effects.MergeChunk():
                await self._merge(effect)
            case effects.FindRefused():
                self._post(await self._sink.find_refused(effect))
            case effects.DropStaged():
                await self._drop(effect.staged)
            case effects.RefuseCopy():
                await self._refuse(effect.tables, effect.alarm)
            case _:
                assert_never(effect)

    async def _begin(self, effect: effects.BeginCopy) -> None:
        answer = await self._sink.begin_copy(effect)
        if isinstance(answer, events.CopyBegun):
            self._settled()
            self._essential = False
            self.resume((events.Copied(split) for split in effect.splits), {})
        self._post(answer)

    async def _read(self, effect: effects.ReadChunk) -> None:
        returned = self._reads[effect.id] = asyncio.Event()
        self._staged[effect.id] = effect.split.table
        counted = self._tables.get(effect.split.table)
        if counted is not None and not counted.since:
            counted.since = time.monotonic()
        try:
            answer = await self._copier.read(effect, self._machine.tables)
        finally:
            del self._reads[effect.id]
            returned.set()
        if effect.id in self._staged:
            self._post(answer)
            if not isinstance(answer, events.ChunkStaged):
                del self._staged[effect.id]

    async def _merge(self, effect: effects.MergeChunk) -> None:
        answer = await self._sink.merge_chunk(effect)
        if isinstance(answer, events.BatchCommitted):
            self._staged.pop(effect.staged, None)
            self._count(effect)
            for key, why in effect.unrepaired:
                self._tell(f"{effect.split.table} {key} is not repaired: {why}")
        self._post(answer)

    async def _drop(self, attempt: effects.EffectId) -> None:
        self._staged.pop(attempt, None)
        self._copier.stop(attempt)
        if (returned := self._reads.get(attempt)) is not None:
            await returned.wait()
        await self._sink.drop_staged(attempt)
        self._late[attempt] = asyncio.get_running_loop().call_later(LATE_SECONDS, self._drop_again, attempt)

    def _drop_again(self, attempt: effects.EffectId) -> None:
        """Looks once more: a task of Spark's that was cancelled may have been about to connect, or a drop failed."""
        del self._late[attempt]
        task = asyncio.get_running_loop().create_task(self._sink.drop_staged(attempt))
        self._dropping.add(task)
        task.add_done_callback(self._dropping.discard)

    async def close(self) -> None:
        """Ends what runs, and drops what it has staged: no other run can use it."""
        for again in self._late.values():
            again.cancel()
        await self._copier.close()
        with contextlib.suppress(TimeoutError):  # the next run does it
            async with asyncio.timeout(DROP_SECONDS):
                for attempt in dict.fromkeys((*self._staged, *self._late)):
                    await self._sink.drop_staged(attempt)

    # ------------------------------------------------------------------ progress

    def resume(self, copied: Iterable[events.Copied], rows: Mapping[str, int]) -> None:
        """Goes on with copies of these tables, from their `merged` chunks on, which hold so many `rows`."""
        for one in copied:
            if one.split.by is not By.KEYS and len(one.merged) < one.split.chunks:
                name, found = one.split.table, len(one.merged)
                self._tables[name] = _Counted(one.split.chunks, found, found, rows.get(str(name), 0))

    def follow(self, copied: Sequence[events.Copied]) -> None:
        """Goes on with the copies that a statement has left, whose tables may have other names or be gone."""
        left = {one.split.table: one for one in copied}
        for name, counted in list(self._tables.items()):
            one = left.pop(name, None)
            is_same = one is not None and (one.split.chunks, len(one.merged)) == (counted.chunks, counted.merged)
            if not is_same and (one is not None or counted.merged < counted.chunks):
                del self._tables[name]
                left.update({name: one} if one is not None else {})
        self.resume(left.values(), {})

    def _count(self, effect: effects.MergeChunk) -> None:
        table = self._tables.get(effect.split.table)
        if table is None:
            return
        table.merged += 1
        table.rows += effect.rows
        table.seconds = time.monotonic() - table.since
        if table.merged == table.chunks:
            self._tell(f"{effect.split.table} is copied")

    @property
    def active(self) -> bool:
        """Tells whether tables are being copied now."""
        return any(table.merged < table.chunks for table in self.figures())

    def figures(self) -> tuple[TableCopy, ...]:
        """Figures of tables that are being copied, or have been since this process began."""
        return tuple(self._figure(name, counted) for name, counted in self._tables.items())

    def _figure(self, name: TableName, counted: _Counted) -> TableCopy:
        mine = [attempt for attempt, table in self._staged.items() if table == name]
        reading = sum(attempt in self._reads for attempt in mine)
        return TableCopy(
            str(name),
            counted.chunks,
            counted.merged,
            reading=reading,
            staged=len(mine) - reading,
            rows=counted.rows,
            seconds=counted.seconds,
            found=counted.found,
            before=counted.before,
        )


def _overtakes(wishes: Sequence[Wanted]) -> Alarm:
    names = ", ".join(dict.fromkeys(str(wish.table) for wish in wishes))
    return Alarm(
        "copy",
        f"rows of {names} are not read again: they would be written over changes that the spoke has made since, and "
        "those are not sent back to it",
        "Set `conflicts: {echo: all}` in the feed, `tidelock run FEED`, ask again; afterwards `echo: exact` may return",
        "",
        names,
    )
