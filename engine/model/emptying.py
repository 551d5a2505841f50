"""The order in which tables that one statement empties are emptied: those that refer to others first.

PostgreSQL's TRUNCATE names all tables that it empties, also those that go with another by CASCADE.  At a target each is
emptied by itself, and a foreign key that refuses would hold a parent whose children are still there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable


def children_first(names: Sequence[TableName], tables: Mapping[TableName, TargetTable]) -> list[TableName]:
    """Returns the tables in an order in which each can be emptied; those of a cycle of foreign keys as they come."""
    left, ordered = list(names), list[TableName]()
    while left:
        referred = {
            fk.parent for name in left if name in tables for fk in tables[name].foreign_keys if fk.parent != name
        }
        free = [name for name in left if name not in referred] or left
        ordered += free
        left = [name for name in left if name not in free]
    return ordered
