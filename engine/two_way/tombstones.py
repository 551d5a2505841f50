"""Tombstones: what is left of deleted rows, so that an older change from elsewhere does not bring one back.

- A delete leaves one, and so does a change of the key, for the old key (histories 16 and 17).
- Keys are as the index compares them: a tombstone of `A` is one of `a` where the target takes them for one value.
- One is purged only when nothing older can come any more, and from then on what is written here is stamped above it
  (`floor`): else a site whose clock is behind writes a row that the others refuse (history 20).

Nothing older can come any more is found by *rounds*.  A round begins with the ends of all sites' logs and is over when
every reader has applied its log up to there.  Where a log reaches the last site over so many hops, that takes a change
so many rounds.  A tombstone of a round needs as many to be everywhere, and as many again until all that was written
before it came is everywhere too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tidelock.engine.model.index import Index, Key
from tidelock.engine.model.records import Row
from tidelock.engine.two_way.places import Place
from tidelock.engine.two_way.stamp import Stamp


class InexactKey(ValueError):
    """A key that cannot be compared exactly, so that nobody can say whose tombstone it is."""


class Tombstone(msgspec.Struct, frozen=True, gc=False):
    """`round`: that under way when it was left here."""

    key: Key
    stamp: Stamp
    round: int


class Tombstones:
    """Tombstones of one site.  `floor`: the latest time of a purged one."""

    def __init__(self, left: Iterable[Tombstone] = (), floor: int = 0) -> None:
        self._left = {tombstone.key: tombstone for tombstone in left}
        self.floor = floor

    def __len__(self) -> int:
        return len(self._left)

    def left(self) -> tuple[Tombstone, ...]:
        return tuple(self._left.values())

    def of(self, key: Key) -> Stamp | None:
        """Returns the stamp of the delete that left this key; None where none is known."""
        found = self._left.get(key)
        return None if found is None else found.stamp

    def leave(self, key: Key, stamp: Stamp, round_: int) -> None:
        """A row of this key was deleted with that stamp."""
        found = self._left.get(key)
        if found is None or stamp > found.stamp:
            self._left[key] = Tombstone(key, stamp, round_)

    def purge(self, finished: int, hops: int) -> None:
        """Forgets those that so many finished rounds have made needless.  `hops`: the most over which a log travels."""
        for tombstone in self.left():
            if finished >= tombstone.round + 2 * hops:
                del self._left[tombstone.key]
                self.floor = max(self.floor, tombstone.stamp.time)


class Rounds:
    """Rounds of all sites.  `ends`: of each site's log as the round under way began.  `finished`: how many are over."""

    def __init__(self, ends: Mapping[str, Place], finished: int = 0) -> None:
        self.ends = dict(ends)
        self.finished = finished

    @property
    def running(self) -> int:
        return self.finished + 1

    def step(self, applied: Mapping[tuple[str, str], Place], ends: Mapping[str, Place]) -> bool:
        """Tells whether the round is over; then the next one begins.

        `applied`: of each reader and the site that it reads, how far.  `ends`: of all logs now, read *after* that.
        """
        if any(place < self.ends[site] for (_, site), place in applied.items()):
            return False
        self.ends = dict(ends)
        self.finished += 1
        return True


def buried(index: Index, before: Row | None, after: Row | None) -> Key | None:
    """Returns the key under which a change leaves a tombstone; None where it leaves none.  Raises InexactKey."""
    if before is None:
        return None
    key = exact_key(index, before)
    return None if after is not None and exact_key(index, after) == key else key


def exact_key(index: Index, row: Row) -> Key:
    """Returns the key of a row as the index compares it.  Raises InexactKey."""
    key = index.values(row)
    if key is None or key == index.index_wide():
        raise InexactKey(f"the key of {row!r} does not compare exactly: such a table needs an arbiter")
    return key
