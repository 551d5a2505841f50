"""Holds a feed while its sister does not apply (`engine.two_way.permit`).

Once a second it looks at the sister's row at the source; it says what to write into this feed's own row, and tells the
shell to hold or to go on.  What is read and what is decided have each a task of its own: a source that does not answer
must not put off the moment at which the sister counts as silent.  A row that has not moved since this run saw it first
may be that of a run which is over, so it is no sign of life.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from tidelock.adapters.bookkeeping.permits import PermitWord, read_word, sister_query
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.engine.apply.status import ApplyStatus
from tidelock.engine.two_way.permit import Memory, Own, Permit, PermitState, Sister

LOOK_SECONDS: Final = 1.0
DECIDE_SECONDS: Final = 0.25
ANSWER_SECONDS: Final = 3.0


class Reading(Protocol):
    """The reading of the source's log, as far as a permit asks.  `readings`: how often it has begun.  `proven`: the
    proof that receipts are in the log stands behind it."""

    readings: int
    proven: bool


class Held(Protocol):
    """Shell of a machine, which holds on demand.  `wished`: no operator has paused it.  `stopping`: it ends."""

    wished: bool
    stopping: bool

    @property
    def under_way(self) -> bool:
        """Tells whether something was sent to the target and is not answered."""

    def hold(self, why: str) -> None:
        """Has nothing more applied; with '', goes on."""


class PermitWatch:
    """The permit of one run.  `status`: of its machine."""

    def __init__(
        self,
        feed: Feed,
        shell: Held,
        reading: Reading,
        status: Callable[[], ApplyStatus | None],
        tell: Callable[[str], None],
    ) -> None:
        assert feed.permit is not None and feed.sites is not None, "the loader asks for both"
        self._limits = feed.permit.limits
        self._sister = feed.sites.sister
        self._place, self._schema = _impatient(feed.source_url), feed.schema
        self._shell, self._reading, self._status, self._tell = shell, reading, status, tell
        self._permit = Permit(self._sister, self._limits)
        self._first: int | None = None  # of the sister's numbers, the one that was seen first
        self._word: PermitWord | None = None  # of the sister
        self._over = False  # its last run has ended in order
        self._silent = ""  # why its row cannot be read
        self._session = 0
        self._at_end = time.monotonic()  # when this feed had nothing left to apply
        self._said: str | None = None
        self._own = Own()
        self._decide()

    @property
    def word(self) -> str:
        """Returns what this feed says of itself now."""
        ready = self._permit.ready(_now(), self._own)
        return PermitWord(ready, self._own.lag_us, self._said or "").text

    async def run(self) -> None:
        """Watches until it is cancelled."""
        looking = asyncio.get_running_loop().create_task(self._look())
        try:
            while True:
                await asyncio.sleep(DECIDE_SECONDS)  # the next look at what is known
                if looking.done():
                    looking.result()
                if not self._shell.stopping:
                    self._decide()
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    # ------------------------------------------------------------------ what is known

    async def _look(self) -> None:
        while True:
            try:
                async with session(self._place) as source:
                    while True:
                        async with asyncio.timeout(2 * ANSWER_SECONDS):
                            await self._read(source)
                        self._silent = ""
                        await asyncio.sleep(LOOK_SECONDS)
            except (TargetError, TimeoutError) as error:
                self._silent = str(error) or "no answer"
            await asyncio.sleep(LOOK_SECONDS)  # until the next look

    async def _read(self, source: TargetSession) -> None:
        rows = await source.fetch(sister_query(source.dialect, self._schema), self._sister)
        number, text = rows[0] if rows else (None, None)
        self._over = bool(rows) and number is None
        self._word = read_word(text)
        if number is None or self._word is None:
            return
        if self._first is None:
            self._first = int(number)
        elif number != self._first:
            word = self._word
            self._permit.sister_seen(_now(), Sister(self._sister, int(number), word.ready, word.lag_us))

    def _look_at_ourselves(self) -> None:
        if self._reading.readings != self._session:
            self._session = self._reading.readings
            self._permit.begin(str(self._session))
        if self._reading.proven:
            self._permit.probe_seen(str(self._session))
        seen = self._status()
        if seen is None or not (seen.waiting or self._shell.under_way):
            self._at_end = time.monotonic()
        self._own = Own(wished=self._shell.wished, lag_us=self._lag_us(seen), in_flight=int(self._shell.under_way))

    def _lag_us(self, seen: ApplyStatus | None) -> int:
        """Returns how far this feed is behind: never more than the time since it had nothing left to apply, whatever
        the source's clock says."""
        behind = time.monotonic() - self._at_end
        if seen is not None and seen.end_us:
            behind = min(behind, max(0.0, time.time() - seen.end_us / 1e6))
        return int(behind * 1e6)

    # ------------------------------------------------------------------ what is decided

    def _decide(self) -> None:
        self._look_at_ourselves()
        state = self._permit.state(_now(), self._own)
        why = "" if state is PermitState.OPEN or not self._own.wished else self._why()
        self._shell.hold(why)
        kind = why.partition(":")[0]
        if kind != (self._said or "").partition(":")[0] or self._said is None:
            self._tell(f"holds, {why}" if why else "applies: the sister runs too" if self._own.wished else "is paused")
        self._said = why

    def _why(self) -> str:
        memory, sister = self._permit.memory, self._sister
        if not memory.proven:
            return "its source's log is not read yet, which proves that changes can be traced"
        if self._word is None or not self._lives(memory):
            return f"no sign of life of the sister {sister}: {self._silent or self._at_source()}"
        if memory.sister is not None and not memory.sister.ready:
            return f"the sister {sister} is not ready: {self._word.held or 'it is paused, or sees no life here yet'}"
        lag = memory.sister.lag_us / 1e6 if memory.sister is not None else 0.0
        return f"the sister {sister} is behind: {lag:.0f} s, and {self._limits.lag_us / 1e6:.0f} s may be (`permit`)"

    def _at_source(self) -> str:
        if self._over:
            return "its last run has ended"
        if self._first is None and self._word is None:
            return f"nothing in {self._schema}.tidelock_runs at {self._place}; does it run, with `permit`?"
        return f"its row at {self._place} does not move"

    def _lives(self, memory: Memory) -> bool:
        return memory.sister is not None and _now() - memory.moved_at < self._limits.after_us


def _impatient(place: Endpoint) -> Endpoint:
    """Returns the source with short time-outs: a lost network must not hold up the looks behind it."""
    timeouts = dict.fromkeys(("connect_timeout", "read_timeout"), str(round(ANSWER_SECONDS)))
    return msgspec.structs.replace(place, options={**place.options, **timeouts})


def _now() -> int:
    return time.monotonic_ns() // 1000
