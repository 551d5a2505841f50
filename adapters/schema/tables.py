"""Makes `TargetTable`s from rows of a catalogue: what the dialects share.

Where in doubt it assumes the worst: an index whose equality cannot be computed from a log row is `opaque`, and says
why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import ForeignKey, TargetColumn, TargetTable, UniqueKey


class Index(msgspec.Struct, frozen=True):
    """An index of the catalogue.  `unique`: as the engine sees it.  `primary`: of a primary key.

    `identifies`: equal values in its columns mean the same row, and the target takes them as such in an upsert: not so
    for partial, deferrable, expression and exclusion indexes.
    """

    table: TableName
    unique: UniqueKey
    primary: bool
    identifies: bool


def key_of(columns: Iterable[TargetColumn], indexes: Sequence[Index]) -> tuple[str, ...]:
    """Returns the columns that identify a row: primary key, else a unique index over NOT NULL columns, else none.

    The primary key serves even where it is opaque (equal columns are the same row under any equality).  Of several
    others the one with the fewest columns wins, then the first by name, so that every run chooses the same.
    """
    writable = {c.name for c in columns if not c.generated}
    required = {c.name for c in columns if not c.nullable}
    usable = [i for i in indexes if i.identifies and writable.issuperset(i.unique.columns)]
    for index in usable:
        if index.primary:
            return index.unique.columns
    plain = [i.unique for i in usable if not i.unique.opaque and required.issuperset(i.unique.columns)]
    return min(plain, key=lambda u: (len(u.columns), u.name)).columns if plain else ()


def assemble(
    names: Sequence[TableName],
    columns: Mapping[TableName, Sequence[TargetColumn]],
    indexes: Iterable[Index],
    foreign_keys: Iterable[ForeignKey],
) -> dict[TableName, TargetTable]:
    """Returns the tables of `names` that exist, in that order."""
    by_table: dict[TableName, list[Index]] = defaultdict(list)
    for index in indexes:
        by_table[index.table].append(index)
    children: dict[TableName, list[ForeignKey]] = defaultdict(list)
    parents: dict[TableName, list[ForeignKey]] = defaultdict(list)
    for key in foreign_keys:
        children[key.child].append(key)
        parents[key.parent].append(key)
    return {
        name: TargetTable(
            name=name,
            columns=tuple(columns[name]),
            key=key_of(columns[name], by_table[name]),
            uniques=tuple(i.unique for i in by_table[name]),
            foreign_keys=tuple(children[name]),
            references=tuple(parents[name]),
        )
        for name in dict.fromkeys(names)
        if name in columns
    }
