"""Changes of a table without a key, from the begin of its reading to its merge (design 8).

Equal rows cannot be told apart, so no change of one can replace what was read of it.  But rows can be counted: the
table was read in one view of the source (`Snapshot`), and every change behind that view takes one row away, adds one,
or both.  The sum over all of them is the difference between what was read and the table at M, whatever order they came
in: a row that is added and taken away again is no difference.

What a sum takes away was read: the source has no row less than none at M, so the view had at least so many.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from tidelock.engine.model.records import Position, Row
from tidelock.engine.model.snapshot import Snapshot
from tidelock.engine.parallel.segments import Change


class Difference(msgspec.Struct, frozen=True):
    """Rows that the table has more, and less, than its view; a row as often as it counts."""

    more: tuple[Row, ...] = ()
    less: tuple[Row, ...] = ()


class UnkeyedChanges:
    """The changes, in log order, each with the window that it came in."""

    __slots__ = ("_noted",)

    def __init__(self) -> None:
        self._noted: list[tuple[Position, Position, Change]] = []

    def __len__(self) -> int:
        return len(self._noted)

    def note(self, start: Position, end: Position, change: Change) -> None:
        """Remembers a change of the window between these places."""
        self._noted.append((start, end, change))

    def since(self, view: Snapshot | None) -> Difference | None:
        """The difference to the view; None where a change cannot be told to be in it or behind it."""
        count: Counter[Row] = Counter()
        rows: dict[Row, Row] = {}
        for start, end, change in self._noted:
            held = view.holds(start, end, change.source, change.number) if view is not None else None
            if held is None:
                return None
            if not held:
                for row, one in ((change.before, -1), (change.after, 1)):
                    if row is not None:
                        known = identity(row)
                        rows[known] = row
                        count[known] += one
        more = tuple(rows[known] for known, n in count.items() for _ in range(n))
        return Difference(more, tuple(rows[known] for known, n in count.items() for _ in range(-n)))


def identity(row: Row) -> Row:
    """The row with a minus zero apart from a zero, which Python takes for equal."""
    return tuple([str(value) if type(value) is float else value for value in row])
