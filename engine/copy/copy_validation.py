"""Validation of copies: which tables can be copied, and together with which (design 8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable


def fault(
    splits: Sequence[ChunkSplit], under_way: Iterable[ChunkSplit], tables: Mapping[TableName, TargetTable]
) -> str:
    """Returns why these tables cannot be copied beside those that are being copied; '' if they can."""
    copying = {split.table for split in under_way if split.by is not By.KEYS}
    copied = {split.table for split in (*splits, *under_way)}
    for split in splits:
        table = tables.get(split.table)
        if table is None:
            return f"the target has no table {split.table}"
        if why := split.fault() or _key_fault(split, table):
            return f"{split.table} cannot be split: {why}"
        if split.by is By.KEYS and split.table in copying:
            return f"{split.table} is being copied, which mends its rows"
        if split.bounds and any(fk.parent == table.name for fk in table.foreign_keys):
            return f"{split.table} refers to itself: it must be one chunk"
        outside = [fk.child for fk in table.references if fk.child in tables and fk.child not in copied]
        if outside and not split.keeps_target_rows:
            return f"{outside[0]} refers to {split.table}: copy both at once"
        if split.table in _ancestors(split.table, copied, tables):
            return f"{split.table} is in a cycle of foreign keys: drop one at the target for the time of the copy"
    return ""


def _key_fault(split: ChunkSplit, table: TargetTable) -> str:
    if split.bounds and not table.key:
        return "it has no key, so it must be one chunk"
    if split.keeps_target_rows and not table.key:
        return "it has no key, so rows that are there cannot be told from those that come"
    if split.by is By.KEYS and split.columns != table.key:
        return f"its key is {', '.join(table.key)}, not {', '.join(split.columns)}"
    return ""


def _ancestors(name: TableName, copied: set[TableName], tables: Mapping[TableName, TargetTable]) -> list[TableName]:
    """The tables that it refers to, over any number of others; itself only over others."""
    found: list[TableName] = []
    frontier = [name]
    while frontier:
        child = frontier.pop()
        for fk in tables[child].foreign_keys:
            if fk.parent != child and fk.parent in copied and fk.parent in tables and fk.parent not in found:
                found.append(fk.parent)
                frontier.append(fk.parent)
    return found
