"""Orphans: parked rows whose parent was not there, and that are tried again by themselves once it is.

A source that runs with `foreign_key_checks=0` (an import) logs children before their parents, and is right: in the end
every child has one.  The lock of the key that both name makes the parent follow the child, as the log has them, so the
target refuses the child.  It is parked with its later changes, and as soon as a row that it refers to is committed, all
of them are retried as if an operator had asked for it.  Nothing here goes by the clock: a row waits until its parent
comes, and shows as parked until then.

A new owner cannot know what came while nobody watched: it tries them all once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelock.engine.batch.parked_rows import Place
from tidelock.engine.model.index import Index, Key
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Binding, TargetTable
from tidelock.engine.parallel.foreign_keys import reference
from tidelock.engine.parallel.keyspace import Keyspace
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.events import ParkedKey

AGAIN = "again"
"""The `ParkedKey.wish` of a retry that no operator asked for."""


class Orphans:
    """Parked rows that wait for a parent.  `rows`: these and what is parked behind them, by place."""

    def __init__(self) -> None:
        self.rows: dict[Place, ParkedKey] = {}
        self._tables: Mapping[TableName, TargetTable] = {}
        self._space = Keyspace()
        self._waiting: dict[Key, dict[Place, None]] = {}
        self._keys: dict[Place, list[Key]] = {}
        self._parents: dict[Binding, list[Index]] = {}
        self._own: dict[Binding, list[Index]] = {}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def retable(self, tables: Mapping[TableName, TargetTable]) -> None:
        """The target's tables are these from now on."""
        self._tables = tables
        self._parents.clear()
        self._own.clear()

    def wait(self, change: Change, row: ParkedKey) -> None:
        """Notes a change that is parked, as the target has no row that it refers to."""
        place = (row.source, row.number, row.ordinal)
        after = change.after
        found = [index.values(after) for index in self._refers(change.binding)] if after is not None else []
        self.rows[place] = row
        self._keys[place] = keys = [key for key in found if key is not None]
        for key in keys:
            self._waiting.setdefault(key, {})[place] = None

    def behind(self, row: ParkedKey) -> None:
        """Notes a change that is parked because an earlier one of its row is, which may be one of these."""
        if self._keys:
            self.rows[row.source, row.number, row.ordinal] = row

    def arrived(self, changes: Iterable[Change]) -> list[Place]:
        """Returns who waited for one of these changes, which are committed: each once, in the order of parking."""
        found: dict[Place, None] = {}
        for change in changes:
            after = change.after
            if after is None:
                continue
            for index in self._referred(change.binding):
                key, index_wide = index.values(after), index.index_wide()
                if key == index_wide:  # it may be any value
                    for other in [k for k in self._waiting if k[0] == index.namespace]:
                        found |= self._waiting[other]
                elif key is not None:
                    found |= self._waiting.get(key, {}) | self._waiting.get(index_wide, {})
        return [place for place in self.rows if place in found] if found else []

    def release(self, places: Iterable[Place]) -> None:
        """Forgets changes that are parked no more."""
        for place in places:
            self.rows.pop(place, None)
            for key in self._keys.pop(place, ()):
                if (waiting := self._waiting.get(key)) is not None:
                    waiting.pop(place, None)
                    if not waiting:
                        del self._waiting[key]
        if not self._keys:
            self.rows.clear()

    def _refers(self, binding: Binding) -> list[Index]:
        if binding not in self._parents:
            logged = {column.name for column in binding.shape.columns}
            self._parents[binding] = [
                reference(binding, fk.columns, self._tables[fk.parent], fk.parent_columns, self._space)
                for fk in binding.target.foreign_keys
                if fk.parent in self._tables and logged.issuperset(fk.columns)
            ]
        return self._parents[binding]

    def _referred(self, binding: Binding) -> list[Index]:
        if binding not in self._own:
            logged = {column.name for column in binding.shape.columns}
            columns = dict.fromkeys(fk.parent_columns for fk in binding.target.references if fk.child in self._tables)
            self._own[binding] = [
                reference(binding, cs, binding.target, cs, self._space) for cs in columns if logged.issuperset(cs)
            ]
        return self._own[binding]
