"""Rows made of a change and the row that it meets, group by group.

A change writes the groups that it touches, whole, and leaves the others as they are here.  `delta` adds what the change
added; of a NULL nothing can be told, so the value that came stays there, as with `arrival`.  `max` and `min` keep one
of the two values; a NULL is neither.  Numbers compare as numbers, however they are spelled, and before all texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from tidelock.engine.model.index import number
from tidelock.engine.model.records import Row, Value
from tidelock.engine.two_way.policies import Group, Policy


def changed_groups(groups: Sequence[Group], before: Row, after: Row) -> list[Group]:
    """Returns the groups of which the change touches a column."""
    return [group for group in groups if any(before[at] != after[at] for at in group.columns)]


def overlaid(groups: Sequence[Group], before: Row | None, after: Row | None, here: Row | None) -> Row | None:
    """Returns the row that a change without a conflict leaves: its own, with the groups that it does not touch as they
    are here."""
    if not groups or before is None or after is None or here is None:
        return after
    row = list(after)
    touched = changed_groups(groups, before, after)
    for group in groups:
        if group not in touched:
            for at in group.columns:
                row[at] = here[at]
    return tuple(row)


def merged_row(
    touched: Sequence[Group], before: Row, after: Row, here: Row, *, later: bool
) -> tuple[Row, bool, bool]:
    """Returns the row of both, whether something of `here` is lost in it, and whether something of `after` is.

    The key is that of the change.
    """
    row = list(here)
    in_groups = {at for group in touched for at in group.columns}
    for at in range(len(row)):
        if at not in in_groups and before[at] != after[at]:
            row[at] = after[at]  # the key
    for group in touched:
        for at in group.columns:
            row[at] = _value(group.policy, before[at], after[at], here[at], later=later)
    ours = any(row[at] != here[at] and _drops(group, before[at], here[at]) for group in touched for at in group.columns)
    theirs = any(row[at] != after[at] and group.policy is not Policy.DELTA for group in touched for at in group.columns)
    return tuple(row), ours, theirs


def added(here: Value, before: Value, after: Value) -> Value:
    """Returns `here` and what the change added; a number that is spelled as text stays one."""
    if isinstance(here, str):
        return str(Decimal(here) + Decimal(after) - Decimal(before))
    return here + after - before


def rank(value: Value) -> tuple[int, Value]:
    """Returns what a value is compared by."""
    found = number(value)
    return (1, value) if isinstance(found, str) else (0, found)


def _drops(group: Group, before: Value, here: Value) -> bool:
    """Is it a loss that `here` does not stand?  Not where it is what the change was made from, nor where it is added
    to."""
    if group.policy is Policy.DELTA:
        return before is None or here is None
    return bool(before != here)


def _value(policy: Policy, before: Value, after: Value, here: Value, *, later: bool) -> Value:
    match policy:
        case Policy.DELTA if before is not None and after is not None and here is not None:
            return added(here, before, after)
        case Policy.MAX | Policy.MIN if after is not None and here is not None:
            return max(here, after, key=rank) if policy is Policy.MAX else min(here, after, key=rank)
        case Policy.MAX | Policy.MIN:
            return here if after is None else after
        case Policy.ARBITER:
            return here
        case Policy.LATEST | Policy.DELETE_WINS:
            return after if later else here
        case _:
            return after
