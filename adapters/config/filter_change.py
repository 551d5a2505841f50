"""A comparison of two row filters: whether one takes every row that the other takes.

It looks at the form of the conditions alone.  What it cannot tell counts as neither, so no row is taken for copied that
is not.
"""

from __future__ import annotations

from enum import Enum

from tidelock.engine.capture.row_filter import And, Compare, Condition, In, Or


class FilterChange(Enum):
    """The way from one filter to another."""

    SAME = "same"
    WIDER = "wider"
    NARROWER = "narrower"
    OTHER = "other"


def compared(before: str, after: str) -> FilterChange:
    """Returns what a filter becomes; '' takes every row.  Both can be read."""
    if before == after:
        return FilterChange.SAME
    if not after:
        return FilterChange.WIDER
    if not before:
        return FilterChange.NARROWER
    from tidelock.adapters.config.row_filter import parse_where  # sqlglot is slow to import, and few feeds filter

    old, new = parse_where(before), parse_where(after)
    match implies(old, new), implies(new, old):
        case True, True:
            return FilterChange.SAME
        case True, False:
            return FilterChange.WIDER
        case False, True:
            return FilterChange.NARROWER
        case _:
            return FilterChange.OTHER


def implies(first: Condition, second: Condition) -> bool:
    """Tells whether every row that the first takes is surely one that the second takes."""
    if first == second:
        return True
    if isinstance(first, Or):
        return all(implies(part, second) for part in first.of)
    if isinstance(second, And):
        return all(implies(first, part) for part in second.of)
    if isinstance(first, And) and any(implies(part, second) for part in first.of):
        return True
    if isinstance(second, Or) and any(implies(first, part) for part in second.of):
        return True
    one, other = _listed(first), _listed(second)
    return one is not None and other is not None and one[0] == other[0] and one[1] <= other[1]


def _listed(condition: Condition) -> tuple[str, frozenset[str]] | None:
    """Returns the column and the literals of a condition that its value is one of them."""
    if isinstance(condition, In):
        return condition.column, frozenset(condition.literals)
    if isinstance(condition, Compare) and condition.op == "=":
        return condition.column, frozenset((condition.literal,))
    return None
