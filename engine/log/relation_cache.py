"""The relation cache: the shapes that a reader of the log has announced by number, bound to the target's tables.

Each reader numbers shapes anew, so a binding is known by its shape too: what is planned and what comes next of one
table must share it, as locks, folds and statements go by it.  (PostgreSQL's logical replication calls its like a
relation cache.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from tidelock.engine.model.records import Shape, TableName
from tidelock.engine.model.schema import Binding, SchemaMismatch, TargetTable


class RelationCache:
    """Binds the shapes of rows.  `tables`: the target's.  `bound`: called with each new binding."""

    def __init__(self, tables: Mapping[TableName, TargetTable], bound: Callable[[Binding], None]) -> None:
        self._tables = tables
        self._bound = bound
        self._shapes: dict[int, Shape] = {}
        self._bindings: dict[int, Binding] = {}
        self._known: dict[Shape, Binding] = {}  # each reader numbers shapes anew

    def retable(self, tables: Mapping[TableName, TargetTable]) -> None:
        """Forget all bindings: the target's tables are these from now on, or their locks are others."""
        self._tables = tables
        self._bindings.clear()
        self._known.clear()

    def learn(self, shapes: Mapping[int, Shape]) -> None:
        """Learn the shapes that a batch announces, by number."""
        self._shapes.update(shapes)
        for number in shapes:
            self._bindings.pop(number, None)

    def bind(self, numbers: Collection[int]) -> dict[int, Binding]:
        """Returns the tables of rows with shapes of these numbers.  Raises SchemaMismatch where one cannot be bound."""
        bindings = self._bindings
        for number in numbers:
            if number not in bindings:
                bindings[number] = self._binding(number)
        return {number: bindings[number] for number in numbers}

    def _binding(self, number: int) -> Binding:
        shape = self._shapes[number]
        table = self._tables.get(shape.name)
        if table is None:
            raise SchemaMismatch(f"the target has no table {shape.name}; `tidelock init --apply FEED` makes it")
        binding = self._known.get(shape)
        if binding is None:
            binding = self._known[shape] = Binding(number, shape, table)
            self._bound(binding)
        return binding
