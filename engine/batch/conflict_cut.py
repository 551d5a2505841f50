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

    A piece is of changes in conflict that share no lock, or of others alone.  Each change is in the first piece of its
    kind behind those that it shares a lock with, so there are as many pieces as a lock is handed on, and not as many as
    the log goes from one kind to the other."""
    clear: list[Change] = []
    layers: list[list[Change]] = []
    taken = _Taken()
    for change, own in zip(changes, locks, strict=True):
        decided = change in suspects
        behind = taken.last(own)
        if behind is None and not decided:
            clear.append(change)
            continue
        at = _layer(behind, decided)
        taken.add(own, at)
        while len(layers) <= at:
            layers.append([])
        layers[at].append(change)
    return clear, list(_pieces(layers))


def _layer(behind: int | None, decided: bool) -> int:
    """Returns the layer of a change, those with an even number being of decisions.  `behind`: the last layer that it
    shares a lock with."""
    if behind is None:
        return 0
    if decided:
        return behind + 2 - behind % 2
    return behind if behind % 2 else behind + 1


def _pieces(layers: Sequence[list[Change]]) -> Iterator[list[Change]]:
    for number, layer in enumerate(layers):
        most = len(layer) if number % 2 else MOST_DECIDED
        yield from (layer[at : at + most] for at in range(0, len(layer), max(1, most)))


class _Taken:
    """Locks that some changes take, with the last layer that takes each: in either way, and for itself alone."""

    def __init__(self) -> None:
        self._last: dict[Digest, int] = {}
        self._alone: dict[Digest, int] = {}

    def last(self, locks: Locks) -> int | None:
        """Returns the last layer that who takes these must follow, or be in; None: there is none."""
        found = [(self._last if alone else self._alone).get(key, -1) for key, alone in locks]
        last = max(found, default=-1)
        return None if last < 0 else last

    def add(self, locks: Locks, layer: int) -> None:
        """Adds the locks of a change of this layer."""
        for key, alone in locks:
            self._last[key] = max(layer, self._last.get(key, -1))
            if alone:
                self._alone[key] = max(layer, self._alone.get(key, -1))
