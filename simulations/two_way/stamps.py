"""The stamp world: equal sites that keep the later row, in a pair, a ring, a chain or a mesh.

One row, whose values are all different, is written and deleted at every site by clocks that go wrong; `stamp` and
`tombstones` of the engine decide.  Promises: when nothing is on its way any more all sites hold one row; no change goes
round for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import msgspec

from tidelock.engine.two_way.places import Place
from tidelock.engine.two_way.stamp import Stamp, local_stamp, must_wait, stands
from tidelock.engine.two_way.tombstones import Rounds, Tombstone, Tombstones
from tidelock.simulations.two_way.explorer import Word

PAIR: Final = ((0, 1), (1, 0))
RING: Final = ((0, 1), (1, 2), (2, 0))
CHAIN: Final = ((0, 1), (1, 0), (1, 2), (2, 1))
MESH: Final = ((0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0))
NAMES: Final = "ABC"
KEY: Final = (0, 1)


class Row(NamedTuple):
    value: int
    stamp: Stamp


class Change(NamedTuple):
    """`path`: names of the sites that it came through."""

    before: Row | None
    after: Row | None
    stamp: Stamp
    path: tuple[str, ...]


class Site(NamedTuple):
    """`tombstones`, `floor`: of `Tombstones`.  `clock`: where clocks do not jump, what this one shows."""

    row: Row | None = None
    log: tuple[Change, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    floor: int = 0
    clock: int = 1


class State(NamedTuple):
    """`at`: of each edge the next entry of the log that it reads.  `rounds`: the ends of the logs when the round under
    way began, and how many are over.  `looked`: writers that looked for what is there and have not written yet, with
    what they go by (a rule that is broken)."""

    sites: tuple[Site, ...]
    at: tuple[int, ...]
    writes: int
    rounds: tuple[tuple[int, ...], int]
    looked: tuple[tuple[int, Stamp], ...] = ()


class Scope(msgspec.Struct, frozen=True):
    """`clocks`: what they may show, at any write; with `waits` they show one after the other, and a change waits for
    them.  `rounds`: so many are made, and tombstones purged.  `hops`: over which a log travels.  `rows`: what is there
    before anything is written.  `greatest`: a column that only grows keeps
    its greatest value."""

    edges: tuple[tuple[int, int], ...] = PAIR
    writes: int = 3
    deletes: bool = True
    clocks: tuple[int, ...] = (1, 2)
    waits: bool = False
    rounds: int = 0
    hops: int = 1
    greatest: bool = False

    @property
    def sites(self) -> int:
        return 1 + max(max(edge) for edge in self.edges)


Step: TypeAlias = tuple[Word, State | str]


class StampWorld:
    """Sites that keep the later row."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def start(self) -> State:
        scope = self.scope
        return State((Site(),) * scope.sites, (0,) * len(scope.edges), scope.writes, ((0,) * scope.sites, 0))

    def wrong(self, state: State) -> str:
        if any(len(site.log) > 2 * self.scope.writes for site in state.sites):
            return "loop: a log does not end"
        if any(at < len(state.sites[a].log) for at, (a, _) in zip(state.at, self.scope.edges, strict=True)):
            return ""
        values = [site.row and site.row.value for site in state.sites]
        if len(set(values)) > 1:
            return "unequal: " + ", ".join(f"{n} {v or '-'}" for n, v in zip(NAMES, values, strict=False))
        return ""

    def steps(self, state: State) -> Iterator[Step]:
        if state.writes:
            for number, site in enumerate(state.sites):
                for clock in (site.clock,) if self.scope.waits else self.scope.clocks:
                    yield from self._writes(state, number, site, clock)
        if self.scope.waits:
            for number, site in enumerate(state.sites):
                if site.clock <= self.scope.clocks[-1] + self.scope.writes:
                    ticked = site._replace(clock=site.clock + 1)
                    yield f"{NAMES[number]} shows {ticked.clock}", with_site(state, number, ticked)
        if state.rounds[1] < self.scope.rounds:
            yield from self._round(state)
        for number, (a, b) in enumerate(self.scope.edges):
            if state.at[number] < len(state.sites[a].log):
                yield from self._deliver(state, number, a, b)

    # ------------------------------------------------------------------ at one site

    def _writes(self, state: State, number: int, site: Site, clock: int) -> Iterator[Step]:
        stamp = self._stamp(site, number, clock)
        value = 1 + self.scope.writes - state.writes
        images = [Row(value, stamp)]
        if self.scope.greatest:
            least = 1 if site.row is None else site.row.value + 1
            images = [Row(value, stamp) for value in range(least, self.scope.writes + 1)]
        left = state._replace(writes=state.writes - 1)
        for after in [*images, *([None] if site.row is not None and self.scope.deletes else [])]:
            word = f"{NAMES[number]} {'deletes' if after is None else f'writes {after.value}'} at {stamp.time}"
            yield word, with_site(left, number, self._written(state, site, after, stamp, (NAMES[number],)))

    def _stamp(self, site: Site, number: int, clock: int) -> Stamp:
        gone = self._gone(site)
        over = max((stamp for stamp in (site.row and site.row.stamp, gone) if stamp is not None), default=None)
        return local_stamp(clock, NAMES[number], over, site.floor)

    def _gone(self, site: Site) -> Stamp | None:
        return Tombstones(site.tombstones, site.floor).of(KEY)

    def _written(self, state: State, site: Site, after: Row | None, stamp: Stamp, path: tuple[str, ...]) -> Site:
        tombstones = Tombstones(site.tombstones, site.floor)
        if after is None:
            tombstones.leave(KEY, stamp, state.rounds[1] + 1)
        log = (*site.log, Change(site.row, after, stamp, path))
        return site._replace(row=after, log=log, tombstones=tombstones.left())

    def _round(self, state: State) -> Iterator[Step]:
        """A round ends, and sites purge what it allows them to."""
        ends, finished = state.rounds
        rounds = Rounds({name: (end,) for name, end in zip(NAMES, ends, strict=False)}, finished)
        applied: dict[tuple[str, str], Place] = {
            (NAMES[b], NAMES[a]): (at,) for at, (a, b) in zip(state.at, self.scope.edges, strict=True)
        }
        now = tuple(len(site.log) for site in state.sites)
        if not rounds.step(applied, {name: (end,) for name, end in zip(NAMES, now, strict=False)}):
            return
        sites = tuple(self._purged(site, rounds.finished) for site in state.sites)
        yield f"round {rounds.finished} is over", state._replace(sites=sites, rounds=(now, rounds.finished))

    def _purged(self, site: Site, finished: int) -> Site:
        tombstones = Tombstones(site.tombstones, site.floor)
        tombstones.purge(finished, self.scope.hops)
        return site._replace(tombstones=tombstones.left(), floor=tombstones.floor)

    # ------------------------------------------------------------------ from site to site

    def _deliver(self, state: State, number: int, a: int, b: int) -> Iterator[Step]:
        change, site, name = state.sites[a].log[state.at[number]], state.sites[b], f"{NAMES[a]}-{NAMES[b]}"
        passed = state._replace(at=(*state.at[:number], state.at[number] + 1, *state.at[number + 1 :]))
        what = f"{'delete' if change.after is None else change.after.value} of {change.stamp.time} {change.stamp.site}"
        if self._came_by(change, NAMES[b]):
            yield f"{name} passes {what}", passed
        elif self._waits(change, site):
            return
        elif self._stands(change, site):
            after = self._merged(change.after, site.row)
            stamp = self._carried(change, NAMES[b])
            if after is not None and stamp != change.stamp:
                after = after._replace(stamp=stamp)
            applied = self._written(state, site, after, stamp, (*change.path, NAMES[b]))
            yield f"{name} applies {what}", with_site(passed, b, applied)
        elif (kept := self._merged(site.row, change.after)) != site.row and self._lives(change, site):
            applied = site._replace(row=kept, log=(*site.log, change._replace(path=(*change.path, NAMES[b]))))
            yield f"{name} merges {what}", with_site(passed, b, applied)
        else:
            yield f"{name} refuses {what}", passed

    def _came_by(self, change: Change, name: str) -> bool:
        return name in change.path

    def _waits(self, change: Change, site: Site) -> bool:
        return self.scope.waits and must_wait(change.stamp, site.clock)

    def _stands(self, change: Change, site: Site) -> bool:
        return stands(change.stamp, site.row and site.row.stamp, self._gone(site))

    def _lives(self, change: Change, site: Site) -> bool:
        """Was the change made behind the last delete that is known here?"""
        return stands(change.stamp, None, self._gone(site))

    def _carried(self, change: Change, name: str) -> Stamp:
        """The stamp with which it goes on."""
        return change.stamp

    def _merged(self, later: Row | None, other: Row | None) -> Row | None:
        if not self.scope.greatest or later is None or other is None:
            return later
        return later._replace(value=max(later.value, other.value))


def with_site(state: State, number: int, site: Site) -> State:
    return state._replace(sites=(*state.sites[:number], site, *state.sites[number + 1 :]))
