"""The small databases that are explored: one for each way in which rows can stand in each other's way.

Keys are chosen by the lanes that they hash to, so that rows which stand in each other's way start out apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, product

from tidelock.engine.model.hashing import home_of
from tidelock.engine.model.records import Row, TableName, Value
from tidelock.engine.model.schema import Binding, ForeignKey, TargetTable, UniqueKey
from tidelock.simulations import catalogue
from tidelock.simulations.catalogue import EXACT
from tidelock.simulations.explore.histories import Scope, Spec


def one_unique() -> Scope:
    """Two rows, a unique column that may be NULL; a third lane after the crash."""
    return Scope("one unique key", [_spec(catalogue.ACCOUNT, [(0, 0), (1, 1)], [("email", ("a", "b", None))])], (2, 3))


def one_value() -> Scope:
    """Two rows, one unique value or NULL."""
    return Scope("one unique value", [_spec(catalogue.ACCOUNT, [(0, 0), (1, 1)], [("email", ("a", None))])], (2, 3))


def three_rows() -> Scope:
    """Three rows on three lanes want one value, so that waits form chains; two lanes after the crash."""
    return Scope("three rows", [_spec(catalogue.ACCOUNT, [(0, 0), (1, 1), (0, 2)], [("email", ("a",))])], (3, 2))


def two_uniques() -> Scope:
    """Two rows, two unique columns; some of their values are equal, and must not collide."""
    uniques = (UniqueKey("hall", ("hall",)), UniqueKey("place", ("place",)))
    seat = catalogue.table("seat", dict.fromkeys(("id", "hall", "place", "note"), EXACT), ("id",), uniques)
    values = [("hall", ("a", None)), ("place", ("a", None))]
    return Scope("two unique keys", [_spec(seat, [(0, 0), (1, 1)], values)], (2, 3))


def parents() -> Scope:
    """A child of either of two parents or of none, all on different lanes; two lanes after the crash."""
    return _family("two parents", [(0, 0), (1, 1)], [(0, 2)], orphans=True)


def children() -> Scope:
    """Two children of one parent, all on different lanes; two lanes after the crash."""
    return _family("two children", [(0, 1)], [(1, 0), (0, 2)], orphans=False)


def _family(
    name: str, parent_homes: Sequence[tuple[int, int]], child_homes: Sequence[tuple[int, int]], *, orphans: bool
) -> Scope:
    parent = catalogue.table("parent", dict.fromkeys(("id", "note"), EXACT), ("id",))
    refers = ForeignKey("child_parent", TableName("shop", "child"), ("up",), parent.name, ("id",))
    child = catalogue.table("child", dict.fromkeys(("id", "up", "note"), EXACT), ("id",), (), (refers,))
    above = _spec(parent, parent_homes, [])
    ups = [*(row[0] for row in above.rows), *([None] if orphans else [])]
    below = _spec(child, child_homes, [("up", ups)])
    return Scope(name, [above, Spec(child, ("child", "parent", ""), below.rows)], (3, 2))


def _spec(table: TargetTable, homes: Sequence[tuple[int, int]], values: Sequence[tuple[str, Sequence[Value]]]) -> Spec:
    """One key for each of `homes`, (lane of two, lane of three), with all `values` of the other columns."""
    keys = plain_keys(table, homes)
    rows: list[Row] = [(key, *rest, 0) for key in keys for rest in product(*(options for _, options in values))]
    return Spec(table, (table.name.table, *(column for column, _ in values), ""), tuple(rows))


def plain_keys(table: TargetTable, homes: Sequence[tuple[int, int]]) -> list[int]:
    """The smallest keys that hash to these lanes, (of two, of three)."""
    home = home_of(Binding(0, catalogue.shape(table), table))
    keys: list[int] = []
    for lanes in homes:
        keys.append(next(k for k in count(1) if k not in keys and (home(k) % 2, home(k) % 3) == lanes))
    return keys
