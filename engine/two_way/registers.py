"""Registers of a row change: what two changes must share to concern each other.

They are the row's key, before and after, once for each group of columns that the change touches, and the value of each
unique index, before and after.  A table without groups is one group.  What touches every group, an insert and a delete
among others, is said in `column_groups`.  Echo by the row alone loses rows under unique keys (history 6).

A foreign key ties rows too: where a parent goes, or changes a value that is referred to, a site deletes or changes what
refers to it there, and its log need not say so.  So that value is a register of the parent's change.  Of a child's
change it is one that is asked for (`referred`) and not noted: two children of one parent do not concern each other.

Values are compared as the index compares them (`engine.model.index`), so `A` and `a` are one register where the target
takes them for one value.  Where that cannot be said exactly, a change has EVERY register.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from tidelock.engine.model.index import Index, Key
from tidelock.engine.model.records import Row
from tidelock.engine.two_way.column_groups import Groups, touched

Register: TypeAlias = Key
Registers: TypeAlias = tuple[Register, ...]

WHOLE_ROW: Final = 0


class Layout(msgspec.Struct, frozen=True):
    """Parts that the registers of a table are made of.

    `groups`: positions of the columns of each group, which are all columns but the key's; none: the row is one group.
    `tied`: positions of the columns whose change touches every group.  `uniques`: unique indexes besides the key.
    Namespaces of the indexes differ.
    `referenced`: values by which rows refer to those of this table.  `parents`: those by which its own refer to others.
    """

    key: Index
    groups: Groups = ()
    uniques: tuple[Index, ...] = ()
    tied: tuple[int, ...] = ()
    referenced: tuple[Index, ...] = ()
    parents: tuple[Index, ...] = ()


def registers(layout: Layout, before: Row | None, after: Row | None) -> Registers | None:
    """Returns the registers of a change, each once; None stands for every register of the feed."""
    found: dict[Register, None] = {}
    numbers = _numbers(layout, before, after)
    for row in (before, after):
        if row is None:
            continue
        key = layout.key.values(row)
        if key is None or key == layout.key.index_wide():
            return None
        for group in numbers:
            found[*key, group] = None
        for unique in layout.uniques:
            value = unique.values(row)
            if value == unique.index_wide():
                return None
            if value is not None:
                found[value] = None
    referenced = _changed_values(layout.referenced, before, after) if layout.referenced else ()
    return None if referenced is None else (*found, *referenced)


def referred(layout: Layout, before: Row | None, after: Row | None) -> Registers | None:
    """Returns the registers of the parents that a row refers to, before and after; None stands for every one."""
    found: dict[Register, None] = {}
    for parent in layout.parents:
        values = [parent.values(row) for row in (before, after) if row is not None]
        if parent.index_wide() in values:
            return None
        found |= dict.fromkeys(value for value in values if value is not None)
    return tuple(found)


def _changed_values(referenced: Sequence[Index], before: Row | None, after: Row | None) -> Registers | None:
    """Returns the values of these that come, go or change; None where one cannot be said exactly."""
    found: dict[Register, None] = {}
    for reference in referenced:
        values = [reference.values(row) for row in (before, after) if row is not None]
        if reference.index_wide() in values:
            return None
        if len(values) < 2 or values[0] != values[1]:
            found |= dict.fromkeys(value for value in values if value is not None)
    return tuple(found)


def _numbers(layout: Layout, before: Row | None, after: Row | None) -> Sequence[int]:
    if not layout.groups:
        return (WHOLE_ROW,)
    if before is not None and after is not None and layout.key.values(before) != layout.key.values(after):
        return range(len(layout.groups))
    return touched(layout.groups, layout.tied, before, after)
