"""The table partitioning of a scaled-out feed: which group, and so which partition of the log, a table belongs to.

A *table group* is what must stay together: tables that foreign keys join, because their rows wait for each other in
one lock table.  Groups are of *target* tables, and it is the target's foreign keys that count.  A partition takes
several groups where there are more groups than partitions; they are balanced by weight (observed rows), heaviest
first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import TargetTable


class TablePartitioning(msgspec.Struct, frozen=True):
    """Assignment of tables to partitions.  `version` rises by one with each, which holds from `position` on: a drained
    point.

    `since[g]`: where the log of partition g begins; its length is the number of partitions.  `left`: groups that a
    table has left with this version, for another one.
    """

    version: int
    position: Position
    since: tuple[Position, ...]
    tables: tuple[tuple[TableName, int], ...]
    left: tuple[int, ...] = ()

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return len(self.since)


def partition_tables(
    tables: Mapping[TableName, TargetTable],
    partitions: int,
    position: Position,
    before: TablePartitioning | None = None,
    weights: Mapping[TableName, int] = {},
) -> TablePartitioning:
    """Returns the partitioning that holds from `position` on.

    A group stays where most of its weight was, so that a new table moves none of the others; with none before, the
    heaviest group is placed first, each in the lightest partition.

    `weights`: observed rows by table (1 where there are none).  `partitions`: never less than before.
    """
    old = dict(before.tables) if before else {}
    assert before is None or partitions >= before.partitions, "partitions are never taken away"
    loads = [0] * partitions
    placed: dict[TableName, int] = {}
    homeless: list[list[TableName]] = []
    groups = sorted(joined_tables(tables), key=lambda group: (-_weight(group, weights), group[0]))
    for group in groups:
        homes: dict[int, int] = {}
        for name in group:
            if name in old:
                homes[old[name]] = homes.get(old[name], 0) + weights.get(name, 1)
        if not homes:
            homeless.append(group)
            continue
        home = min(homes, key=lambda partition: (-homes[partition], partition))
        placed.update(dict.fromkeys(group, home))
        loads[home] += _weight(group, weights)
    for group in homeless:
        home = loads.index(min(loads))
        placed.update(dict.fromkeys(group, home))
        loads[home] += _weight(group, weights)
    since = before.since if before else ()
    return TablePartitioning(
        version=before.version + 1 if before else 1,
        position=position,
        since=(*since, *[position] * (partitions - len(since))),
        tables=tuple(sorted(placed.items())),
        left=tuple(sorted({home for name, home in old.items() if placed.get(name, home) != home})),
    )


def joined_tables(tables: Mapping[TableName, TargetTable]) -> list[list[TableName]]:
    """Returns the tables in groups that foreign keys join, each sorted, in the order of their first names."""
    root = {name: name for name in tables}

    def find(name: TableName) -> TableName:
        while root[name] != name:
            root[name] = name = root[root[name]]
        return name

    for table in tables.values():
        for key in (*table.foreign_keys, *table.references):
            if key.child in root and key.parent in root:
                one, other = sorted((find(key.child), find(key.parent)))
                root[other] = one
    groups: dict[TableName, list[TableName]] = {}
    for name in sorted(tables):
        groups.setdefault(find(name), []).append(name)
    return list(groups.values())


def _weight(group: Sequence[TableName], weights: Mapping[TableName, int]) -> int:
    return sum(weights.get(name, 1) for name in group)
