"""Decides which rows really differ while both sides change, by rechecking them in rounds.  Pure.

A round reads the rows at the source, waits until the feed has applied everything up to there, then reads them at the
target.  A row whose target was merely behind is equal then.  A row that is written all the time may differ in every
round, but not in the same way: it counts as a difference only when `SAME_ROUNDS` rounds in a row saw the same two
images.  A row that is neither equal nor the same by the last round is *still changing*, and no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from tidelock.adapters.spark.comparable_values import Value

SAME_ROUNDS = 3
ROUNDS = 8

Image: TypeAlias = tuple[Value, ...]
RowKey: TypeAlias = tuple[Value, ...]
DifferenceKind: TypeAlias = Literal["missing", "extra", "different"]


class SeenRow(msgspec.Struct, frozen=True):
    """A row that is not the same at both ends: its images there (None: no such row), and its bucket.

    `source_count`, `target_count`: how many rows have that image, where there is no key to tell them apart.
    """

    bucket: int
    source: Image | None
    target: Image | None
    source_count: int = 1
    target_count: int = 1

    @property
    def kind(self) -> DifferenceKind:
        """The kind of the difference."""
        if self.source is not None and self.target is not None and self.source_count == self.target_count:
            return "different"
        less = self.target is None or (self.source is not None and self.source_count > self.target_count)
        return "missing" if less else "extra"

    @property
    def rows(self) -> int:
        """The number of rows that differ."""
        return 1 if self.kind == "different" else abs(self._count(True) - self._count(False))

    def _count(self, source: bool) -> int:
        image, count = (self.source, self.source_count) if source else (self.target, self.target_count)
        return 0 if image is None else count


class Recheck:
    """The rows of one table that are rechecked.  `differences`: rows found to differ so far, by key."""

    def __init__(self) -> None:
        self.differences: dict[RowKey, SeenRow] = {}
        self._watched: dict[RowKey, tuple[SeenRow, int]] = {}

    def look(self, found: Mapping[RowKey, SeenRow], *, final: bool = False) -> None:
        """Takes the result of one round.

        `found`: all rows of the buckets that were asked for and are not the same at both ends.  `final`: nothing can
        have changed during the round, so that one round decides.
        """
        watched: dict[RowKey, tuple[SeenRow, int]] = {}
        for key, seen in found.items():
            if key in self.differences:
                continue
            before, times = self._watched.get(key, (None, 0))
            times = times + 1 if before == seen else 1
            if times < SAME_ROUNDS and not final:
                watched[key] = (seen, times)
            else:
                self.differences[key] = seen
        self._watched = watched

    @property
    def watched(self) -> dict[RowKey, SeenRow]:
        """Rows to read again in the next round."""
        return {key: seen for key, (seen, _) in self._watched.items()}

    @property
    def still_changing(self) -> int:
        """The number of rows that are not decided yet."""
        return len(self._watched)


def compared(key: int, bucket: int, source: Iterable[Image], target: Iterable[Image]) -> dict[RowKey, SeenRow]:
    """Returns the rows of one bucket that are not the same at both ends.

    `key`: the number of an image's first columns that are its key; 0: equal images are counted.
    """
    ours, theirs = _by_key(key, source), _by_key(key, target)
    found = {}
    for at in ours.keys() | theirs.keys():
        one, other = ours.get(at), theirs.get(at)
        if one == other:
            continue
        image, count = one or (None, 1)
        partner, there = other or (None, 1)
        found[at] = SeenRow(bucket, image, partner, count, there)
    return found


def _by_key(key: int, images: Iterable[Image]) -> dict[RowKey, tuple[Image, int]]:
    rows: dict[RowKey, tuple[Image, int]] = {}
    for image in images:
        at = image[:key] if key else image
        _, count = rows.get(at, (image, 0))
        rows[at] = (image, count + 1)
    return rows
