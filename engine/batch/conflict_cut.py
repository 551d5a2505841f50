"""Cutting a refused batch by what its target said of it: which rows are in conflict (`ApplyBatch.scan`).

What shares no lock with a change in conflict, nor with one that has to follow such a change, may go before it: so do
lanes.  It is *clear* and goes first, in one transaction.  The rest goes in log order: changes in conflict are decided
about as they are, several in one transaction, and those between them are tried.

What the target said is a hint.  A row may have changed since, and a foreign key says nothing: whatever is refused then
is looked for as without the hint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeAlias

from tidelock.engine.batch.row_chains import breaks
from tidelock.engine.model.index import Digest
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.parallel.segments import Change
from tidelock.engine.two_way.deciding import keys_of

Suspect: TypeAlias = tuple[TableName, Row]
"""A row by its key (`Binding.key_of`), of which a change is in conflict."""
Locks: TypeAlias = Sequence[tuple[Digest, bool]]
"""The keys that a change locks, each with whether for itself alone (`Dispatcher.keys_of`)."""

MOST_DECIDED: Final = 32
"""Changes that are decided about in one transaction: it holds their locks, and one that cannot be makes it halves."""


def suspected(changes: Sequence[Change], suspects: Collection[Suspect]) -> list[Change]:
    """Returns the changes of these rows, and those that meet another change of the same batch."""
    rows, broken = frozenset(suspects), frozenset(breaks(changes))
    return [
        change
        for change in changes
        if change in broken
        or any((change.binding.name, key) in rows for key in keys_of(change.binding, change.before, change.after))
    ]


def parted(
    changes: Sequence[Change], locks: Sequence[Locks], suspects: Collection[Change]
) -> tuple[list[Change], list[list[Change]]]:
    """Parts changes in log order; returns the clear ones, and the others in pieces that follow each other.

    A piece is of changes in conflict that share no lock, or of others alone."""
    clear: list[Change] = []
    behind: list[tuple[Change, Locks]] = []
    taken = _Taken()
    for change, own in zip(changes, locks, strict=True):
        if change in suspects or taken.meets(own):
            behind.append((change, own))
            taken.add(own)
        else:
            clear.append(change)
    return clear, list(_pieces(behind, suspects))


def _pieces(changes: Sequence[tuple[Change, Locks]], suspects: Collection[Change]) -> Iterator[list[Change]]:
    piece: list[Change] = []
    taken = _Taken()
    for change, own in changes:
        decided = change in suspects
        alike = bool(piece) and (piece[-1] in suspects) is decided
        if piece and not (alike and (not decided or (len(piece) < MOST_DECIDED and not taken.meets(own)))):
            yield piece
            piece, taken = [], _Taken()
        piece.append(change)
        taken.add(own)
    if piece:
        yield piece


class _Taken:
    """Locks that some changes take."""

    def __init__(self) -> None:
        self._modes: dict[Digest, bool] = {}

    def meets(self, locks: Locks) -> bool:
        """Returns whether who takes these must follow."""
        modes = self._modes
        return any(key in modes and (alone or modes[key]) for key, alone in locks)

    def add(self, locks: Locks) -> None:
        """Adds the locks of a change."""
        for key, alone in locks:
            self._modes[key] = alone or self._modes.get(key, False)
