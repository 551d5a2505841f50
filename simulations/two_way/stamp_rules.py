"""Rules of stamps, each broken in turn: a world that leaves one out."""

from __future__ import annotations

from collections.abc import Iterator

from tidelock.engine.two_way.stamp import Stamp, stands
from tidelock.simulations.two_way.rule import Rule
from tidelock.simulations.two_way.stamps import (
    CHAIN,
    NAMES,
    RING,
    Change,
    Row,
    Scope,
    Site,
    StampWorld,
    State,
    Step,
    with_site,
)


class _NoTombstones(StampWorld):
    def _gone(self, site: Site) -> Stamp | None:
        return None


class _SkipsWhatIsMissing(StampWorld):
    def _stands(self, change: Change, site: Site) -> bool:
        missing = site.row is None and change.before is not None and change.after is not None
        return not missing and super()._stands(change, site)


class _TimesAlone(StampWorld):
    def _stands(self, change: Change, site: Site) -> bool:
        return change.stamp.time >= max(self._here(site))

    def _here(self, site: Site) -> list[int]:
        return [0, *(stamp.time for stamp in (site.row and site.row.stamp, self._gone(site)) if stamp is not None)]


class _OwnWinsTies(_TimesAlone):
    def _stands(self, change: Change, site: Site) -> bool:
        return change.stamp.time > max(self._here(site))


class _ClockAlone(StampWorld):
    def _stamp(self, site: Site, number: int, clock: int) -> Stamp:
        return Stamp(clock, NAMES[number])


class _PurgesWithARound(StampWorld):
    def _purged(self, site: Site, finished: int) -> Site:
        return super()._purged(site, finished + self.scope.hops)


class _KeepsNoFloor(StampWorld):
    def _purged(self, site: Site, finished: int) -> Site:
        return super()._purged(site, finished)._replace(floor=0)


class _ByImages(StampWorld):
    """Overwrites a row that is as the before-image says; a mismatch goes by stamps, or by a side."""

    def _stands(self, change: Change, site: Site) -> bool:
        before, here = change.before, site.row
        if (before and before.value) == (here and here.value):
            return True
        return self._mismatch(change, site)

    def _mismatch(self, change: Change, site: Site) -> bool:
        return super()._stands(change, site)


class _SourceWins(_ByImages):
    def _mismatch(self, change: Change, site: Site) -> bool:
        return True


class _TargetWins(_ByImages):
    def _mismatch(self, change: Change, site: Site) -> bool:
        return False


class _TwoValues(_ByImages):
    """Values come back: what is written is 1 or 2."""

    def _writes(self, state: State, number: int, site: Site, clock: int) -> Iterator[Step]:
        for word, after in super()._writes(state, number, site, clock):
            assert not isinstance(after, str)
            row = after.sites[number].row
            for value in (1, 2) if row is not None else ():
                assert row is not None
                written = Row(value, row.stamp)
                log = after.sites[number].log
                twin = after.sites[number]._replace(
                    row=written, log=(*log[:-1], log[-1]._replace(after=written))
                )
                yield f"{word.partition(' ')[0]} writes {value} at {row.stamp.time}", with_site(after, number, twin)


class _ForwardersTime(StampWorld):
    def _carried(self, change: Change, name: str) -> Stamp:
        return Stamp(self.scope.clocks[-1] + 1, name)


class _OnlyReplicated(StampWorld):
    def _came_by(self, change: Change, name: str) -> bool:
        return len(change.path) > 1


class _DeletesFirst(StampWorld):
    """`delete wins` as the first part of the stamp."""

    def _stands(self, change: Change, site: Site) -> bool:
        if change.after is not None and self._gone(site) is not None:
            return False
        row = site.row and site.row.stamp
        return change.after is None or stands(change.stamp, row, None)


class _LooksFirst(StampWorld):
    """A change of a row that is not there looks for a tombstone, waits for a lock, and inserts."""

    def _deliver(self, state: State, number: int, a: int, b: int) -> Iterator[Step]:
        change, site = state.sites[a].log[state.at[number]], state.sites[b]
        looked = (number, change.stamp)
        inserts = site.row is None and change.after is not None and not self._came_by(change, NAMES[b])
        if looked in state.looked:
            free = state._replace(looked=tuple(other for other in state.looked if other != looked))
            if inserts:
                free = with_site(free, b, site._replace(tombstones=()))
            for word, after in super()._deliver(free, number, a, b):
                assert not isinstance(after, str)
                if inserts:  # it inserted beside the tombstone
                    after = with_site(after, b, after.sites[b]._replace(tombstones=site.tombstones))
                yield word, after
            return
        yield from super()._deliver(state, number, a, b)
        if inserts and self._stands(change, site):
            yield f"{NAMES[a]}-{NAMES[b]} looks", state._replace(looked=(*state.looked, looked))


class _InsertLooksFirst(StampWorld):
    """A writer's insert takes its stamp, waits for a lock, and inserts."""

    def _writes(self, state: State, number: int, site: Site, clock: int) -> Iterator[Step]:
        yield from super()._writes(state, number, site, clock)
        waiting = [looked for looked in state.looked if looked[0] == number]
        if site.row is None and not waiting:
            stamp = self._stamp(site, number, clock)
            yield f"{NAMES[number]} looks at {stamp.time}", state._replace(looked=(*state.looked, (number, stamp)))
        for looked in waiting if site.row is None else ():
            row = Row(1 + self.scope.writes - state.writes, looked[1])
            others = tuple(other for other in state.looked if other != looked)
            left = state._replace(writes=state.writes - 1, looked=others)
            inserted = self._written(state, site, row, looked[1], (NAMES[number],))
            yield f"{NAMES[number]} inserts {row.value} at {looked[1].time}", with_site(left, number, inserted)


def _rule(history: str, broken: str, world: type[StampWorld], scope: Scope) -> Rule:
    return Rule(history, broken, lambda: world(scope))


_TWO = Scope(writes=2)
_PURGES = Scope(rounds=3)

STAMP_RULES = {
    "source-wins": _rule("13", "at a mismatch what comes stays, at both sites", _SourceWins, _TWO),
    "target-wins": _rule("14", "at a mismatch what is there stays, at both sites", _TargetWins, _TWO),
    "always-stamps": _rule("15", "stamps are compared at a mismatch alone", _TwoValues, Scope(writes=4, deletes=False)),
    "tombstones": _rule("16", "deletes leave nothing", _NoTombstones, Scope()),
    "missing": _rule("17", "updates of rows that are not there are skipped", _SkipsWhatIsMissing, Scope()),
    "ties": _rule("18", "equal times: what comes stays", _TimesAlone, _TWO),
    "own-ties": _rule("B20", "equal times: what is there stays", _OwnWinsTies, _TWO),
    "monotone": _rule("19", "a write is stamped by the clock alone", _ClockAlone, _TWO),
    "purge-floor": _rule("20", "stamps may be below what was purged", _KeepsNoFloor, _PURGES),
    "purge-rounds": _rule("20", "tombstones are purged when all have them", _PurgesWithARound, _PURGES),
    "write-then-look": _rule("21", "a tombstone is looked for before the insert", _LooksFirst, Scope()),
    "stamp-then-write": _rule("21a", "a writer's insert is stamped before it waits", _InsertLooksFirst, Scope()),
    "own-stamp": _rule("22", "a row goes on with the forwarder's time", _ForwardersTime, Scope(edges=CHAIN, writes=2)),
    "whole-path": _rule("23", "what was replicated goes no further", _OnlyReplicated, Scope(edges=RING, writes=1)),
    "deletes-first": _rule("25a", "a delete is later than everything", _DeletesFirst, Scope()),
    "dead-maximum": _rule("25b", "the greatest value stays, of deleted rows too", StampWorld, Scope(greatest=True)),
}
