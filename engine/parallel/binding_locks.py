"""Locks of each binding's rows, also where those of one table must share it.

Rows of several sources may go to one target table, under shapes of their own.  Those of a shape that lacks a column of
a unique index, or the before-image of one, take the table whole; so do merges of chunks, and rows of other tables where
the log does not tell which rows a foreign key ties.  All other rows of that table then hold it in mode S.

Where the values of a key come from columns of two types, what is one value to the target has two spellings: `1.5` of a
DECIMAL with one digit behind the point is `1.50` of one with two, and an INT is no text at all.  Keys of theirs say
nothing about each other, so rows of the shape that comes later take the table whole, too.
"""

from __future__ import annotations

from tidelock.engine.model.records import Column, Kind, TableName
from tidelock.engine.model.schema import Binding, Equality, TargetTable, indexed_columns
from tidelock.engine.parallel.dispatcher import Dispatcher
from tidelock.engine.parallel.keyspace import Keyspace
from tidelock.engine.parallel.lock_keys import RowKeys, compile_keys, serial_reason
from tidelock.engine.parallel.lock_request import LockRequest, S, X

_WHOLE = dict.fromkeys((Kind.INT, Kind.YEAR, Kind.BIT, Kind.BOOL), Kind.INT)
_TEXTS = dict.fromkeys((Kind.TEXT, Kind.ENUM, Kind.SET), Kind.TEXT)
_ALIKE = {**_WHOLE, **_TEXTS}
_SCALED = (Kind.DECIMAL, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)


class BindingLocks:
    """Compiles the lock keys of bindings, and tells them to the dispatcher.

    `copied`: tables that a merge may want for itself; they count for bindings that come from then on.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.copied: tuple[TableName, ...] = ()
        self._dispatcher = dispatcher
        self._space = Keyspace()
        self._tables: dict[TableName, TargetTable] = {}
        self._bound: dict[TableName, list[Binding]] = {}
        self._uneven: dict[TableName, None] = {}  # some rows of theirs take them whole, others do not

    def retable(self, tables: dict[TableName, TargetTable]) -> None:
        """The target's tables are these from now on; nothing is under way, and all is bound anew."""
        self._tables = tables
        self._bound.clear()
        self._dispatcher.unbind()

    def bind(self, binding: Binding) -> None:
        """Compiles the locks of a new binding's rows.

        From the first binding on whose rows take a table whole, all others have to share it: those in flight too, as
        nobody has asked for the table before.
        """
        keys = self._lock_by(binding)
        self._bound.setdefault(binding.name, []).append(binding)
        for name in keys.whole:
            table = binding.target if name == binding.name else self._tables[name]
            if name not in self._uneven and not serial_reason(table):
                self._share(name)

    def _share(self, name: TableName) -> None:
        """Makes all other rows of the table hold it in mode S, from now on and in flight."""
        self._uneven[name] = None
        for other in self._bound.get(name, ()):
            self._lock_by(other)
        shared = self._space.table_lock(name, S)
        for lane in self._dispatcher.lanes:
            for segment in (*lane.running, *lane.queue):
                if any(change.binding.name == name for change in segment.changes):
                    self._dispatcher.locks.issue_requests(segment.holder, [shared])

    def _lock_by(self, binding: Binding) -> RowKeys:
        """Compiles its keys anew."""
        shared = binding.name in self.copied or binding.name in self._uneven
        alone = self._spelled_apart(binding)
        keys = compile_keys(binding, self._space, self._tables, table_shared=shared, alone=alone)
        self._dispatcher.bind(binding, keys)
        return keys

    def _spelled_apart(self, binding: Binding) -> str:
        """Returns why values of its keys do not compare with those of a binding before it; '' where they do."""
        own = _spellings(binding)
        for other in self._bound.get(binding.name, ()):
            if other is binding:
                break
            theirs = _spellings(other)
            if column := next((name for name in own if theirs.get(name, own[name]) != own[name]), ""):
                return f"{binding.shape.name} and {other.shape.name} have {column} in columns of different types"
        return ""

    @property
    def space(self) -> Keyspace:
        """The namespaces of all keys."""
        return self._space

    def table_lock(self, table: TableName) -> LockRequest:
        """Requests the table for one who wants it for itself."""
        return self._space.table_lock(table, X)


def _spellings(binding: Binding) -> dict[str, tuple[Kind, int, Equality]]:
    """Returns what the spelling of values hangs on, of each column that a key has."""
    equality = {c.name: c.equality for c in binding.target.columns}
    keys = indexed_columns(binding.target)
    return {c.name: (*_form(c), equality[c.name]) for c in binding.shape.columns if c.name in keys}


def _form(column: Column) -> tuple[Kind, int]:
    return _ALIKE.get(column.kind, column.kind), column.scale if column.kind in _SCALED else 0
