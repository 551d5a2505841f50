"""Permits of the feeds between two sites: each looks at the other's row, as `adapters.runtime.permit_watch` does it.

Time is counted in steps of the world.  A watch remembers by itself when a new word of the sister said that it is ready,
and whether the reader of now has proved itself; what its feed plans is compared with that.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec

from tidelock.engine.apply.machine import State
from tidelock.engine.protocol.events import Paused
from tidelock.engine.two_way.permit import Limits, Own, Permit, PermitState, Sister
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.log import Reader
from tidelock.simulations.owner import Owner
from tidelock.simulations.sites.feed import SiteFeed
from tidelock.simulations.sites.plan import PermitPlan

TURNS = 20  # of a machine, within which it has heard that it is to hold
LOOKS = 0.7


class Watch:
    """Watch of one feed.  `board`: rows of all feeds.  `stopped`: until which step its process stands still.
    `wished`: no operator has paused it.  `parted`: until which step it does not see its sister."""

    def __init__(
        self, feed: SiteFeed, plan: PermitPlan, board: dict[str, Sister], chance: Random, coverage: Counter[str]
    ) -> None:
        self.feed = feed
        self.stopped = self.parted = 0
        self.wished = True
        self._limits = Limits(plan.lag, plan.after)
        self._board, self._chance, self._coverage = board, chance, coverage
        self._permit = Permit(feed.edge.back, self._limits)
        self._owner: Owner | None = None
        self._reader: Reader | None = None
        self._session = self._proven = 0
        self._probes: list[int] = []
        self._alive = 0
        self._holds = True
        self._at_end = 0
        self._first: int | None = None  # word of the sister that this process has read
        self._last_word = 0
        self._heard = 0  # when a new word of it said that it is ready
        self._planned = 0
        self._alone = self._unproven = 0  # turns in which it was to hold

    def look(self, now: int) -> None:
        """One look at what is known, a decision, and a word about itself."""
        if self._chance.random() > LOOKS:
            return
        self._look_at_reading()
        self._look_at_sister(now)
        owner, reader = self.feed.owner, self.feed.owner.reader
        if not owner.mailbox and reader is not None and reader.at_end and not owner.machine.under_way:
            self._at_end = now
        own = Own(self.wished, lag_us=now - self._at_end, in_flight=int(owner.machine.under_way))
        holds = self._permit.state(now, own) is not PermitState.OPEN
        if holds != self._holds:
            self._coverage["permit: holds" if holds else "permit: applies"] += 1
            self._holds = holds
            owner.post(Paused(holds))
        self._alive += 1
        name = self.feed.edge.name
        self._board[name] = Sister(name, self._alive, self._permit.ready(now, own), own.lag_us)

    def _look_at_sister(self, now: int) -> None:
        row = self._board.get(self.feed.edge.back)
        if now < self.parted or row is None:
            return
        if self._first is None:
            self._first = row.alive
        if row.alive == self._first:
            return  # of a sister that may be long dead
        self._permit.sister_seen(now, row)
        if row.alive != self._last_word and row.ready:
            self._heard, self._alone = now, 0
        self._last_word = row.alive

    def _look_at_reading(self) -> None:
        """Notes a new process, or a new session of the source, which a probe is to prove."""
        owner = self.feed.owner
        if owner is not self._owner:
            self._owner, self._holds, self._planned, self._first = owner, True, 0, None
            self._permit = Permit(self.feed.edge.back, self._limits)
        if owner.reader is not self._reader:
            self._reader = owner.reader
            self._session += 1
            self._permit.begin(str(self._session))
            self._probes.append(self._session)
        if self._probes and owner.reader is not None and self._chance.random() < 0.4:
            self._proven = self._probes.pop(0)  # it may be an older session's
            self._permit.probe_seen(str(self._proven))

    def turned(self, now: int) -> None:
        """Its feed has taken a step.  Raises Mistake where that plans what it may not; a transaction that is applied as
        it comes is finished."""
        owner = self.feed.owner
        flows = owner is self._owner and owner.machine.state is State.FLOWING and not owner.machine.streaming
        planned = owner.machine.watermark.upcoming() if flows else 0
        plans, self._planned = planned > self._planned > 0, planned
        alone = now - self._heard
        self._alone += alone > self._limits.after_us + 1 and not owner.hangs
        self._unproven = 0 if self._proven == self._session else self._unproven + (not owner.hangs)
        if plans and self._alone > TURNS:
            raise Mistake(f"feed {self.feed.edge.name} applies, {alone} steps after its sister said that it is ready")
        if plans and self._unproven > TURNS:
            raise Mistake(f"feed {self.feed.edge.name} applies, and no probe has come out of its log")


class Permits:
    """Permits of all feeds that have a sister."""

    def __init__(self, feeds: list[SiteFeed], plan: PermitPlan, chance: Random, coverage: Counter[str]) -> None:
        self._plan, self._chance, self._coverage = plan, chance, coverage
        board: dict[str, Sister] = {}
        self.watches = {feed.edge.name: Watch(feed, plan, board, chance, coverage) for feed in feeds}
        self._now = 0

    def pause(self, feed: SiteFeed, paused: bool) -> None:
        """An operator pauses a feed, or lets it go on."""
        self.watches[feed.edge.name].wished = not paused

    def is_stopped(self, feed: SiteFeed) -> bool:
        return self._now < self.watches[feed.edge.name].stopped

    def turned(self, feed: SiteFeed) -> None:
        """The feed has taken a step."""
        self.watches[feed.edge.name].turned(self._now)

    def go_on(self) -> None:
        """One step of the world: feeds stop and pairs part, each watch looks."""
        self._now += 1
        for watch in self.watches.values():
            sister = self.watches[watch.feed.edge.back]
            if self._chance.random() < self._plan.stops:
                self._trouble(watch, sister)
            if self._now >= watch.stopped:
                watch.look(self._now)

    def _trouble(self, watch: Watch, sister: Watch) -> None:
        until = self._now + self._chance.randint(10, 80)
        if self._chance.random() < 0.5:
            watch.stopped = until
            self._coverage["permit: a feed stands still"] += 1
        else:
            watch.parted = sister.parted = until
            self._coverage["permit: a pair is parted"] += 1
        watch.feed.tell(f"-- {'stands still' if watch.stopped == until else 'is parted from its sister'}")

    def calm_down(self) -> None:
        """Nothing goes wrong any more."""
        self._plan = msgspec.structs.replace(self._plan, stops=0.0)
        for watch in self.watches.values():
            watch.stopped = watch.parted = 0
            watch.wished = True
