"""Locks of each binding's rows, also where those of one table must share it.

Rows of several sources may go to one target table, under shapes of their own.  Those of a shape that lacks a column of
a unique index, or the before-image of one, take the table whole; so do merges of chunks, and rows of other tables where
the log does not tell which rows a foreign key ties.  All other rows of that table then hold it in mode S.
"""

from __future__ import annotations

from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Binding, TargetTable
from tidelock.engine.parallel.dispatcher import Dispatcher
from tidelock.engine.parallel.keyspace import Keyspace
from tidelock.engine.parallel.lock_keys import RowKeys, compile_keys, serial_reason
from tidelock.engine.parallel.lock_request import LockRequest, S, X


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
        keys = compile_keys(binding, self._space, self._tables, table_shared=shared)
        self._dispatcher.bind(binding, keys)
        return keys

    @property
    def space(self) -> Keyspace:
        """The namespaces of all keys."""
        return self._space

    def table_lock(self, table: TableName) -> LockRequest:
        """Requests the table for one who wants it for itself."""
        return self._space.table_lock(table, X)
