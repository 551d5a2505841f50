"""Order of a spoke's changes at its arbiter: what shares a row, a unique value or a parent's key comes in log order.

Where an arbiter decides, a change that comes too early is in conflict with what it follows, and all is told and equal
in the end as if two sites had written the row.  So the order itself is checked, batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tidelock.simulations.ledger import Mistake
from tidelock.simulations.log_entry import Entry, Place
from tidelock.simulations.model import Database
from tidelock.simulations.session import Lock, Session

_In: TypeAlias = tuple[int, int]
"""Place in one log: the number of the transaction, and of the row in it."""


class LockOrder:
    """Changes that one feed has brought, by what they lock: the last of all, and of those that lock it alone."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last: dict[Lock, _In] = {}
        self._alone: dict[Lock, _In] = {}

    def brings(self, feed: str, entries: Sequence[Entry]) -> None:
        """Takes what a batch has committed.  Raises Mistake where an earlier batch had a change that must follow it."""
        locks = [(entry, self._locks(entry)) for entry in entries]
        for entry, own in locks:
            at = _in(entry.place)
            late = [key for key in own.exclusive if self._last.get(key, at) > at]
            late += [key for key in own.shared if self._alone.get(key, at) > at]
            if late:
                raise Mistake(f"feed {feed} brings {entry.place} behind a later change, and both lock {late[0]}")
        for entry, own in locks:
            at = _in(entry.place)
            _raise(self._last, own.exclusive | own.shared, at)
            _raise(self._alone, own.exclusive, at)

    def _locks(self, entry: Entry) -> Session:
        """Returns a transaction that has locked what the change locks, and has done nothing."""
        assert entry.shape is not None
        own = self._database.begin(watched=True)
        own.note_locks(self._database.tables[entry.shape.name], entry.before, entry.after)
        return own


def _in(place: Place) -> _In:
    _, number, ordinal = place
    return number, ordinal


def _raise(last: dict[Lock, _In], keys: Iterable[Lock], at: _In) -> None:
    for key in keys:
        last[key] = max(at, last.get(key, at))
