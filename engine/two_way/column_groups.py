"""Groups of a table's columns: what a change touches, and so writes at a spoke, where columns are in groups.

A change of the arbiter writes the groups that it touches over the spoke's row, and leaves the others as they are there:
what the spoke has written to those is not older, and needs no echo.  What is sent counts on the registers of the same
groups, so this rule is the one for both (`registers`, `engine.batch.group_steps`).  Writing more than what counts as
sent would lose what the spoke has written there.

A row that is not there is written whole.  So is a row whose change touches every group: an insert, and a change of a
column that is *tied* (of the key, of a unique index, of a foreign key), since such a row leaves and comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TypeAlias

from tidelock.engine.model.records import Row, Value

Groups: TypeAlias = tuple[tuple[int, ...], ...]


def groups_at(named: Iterable[Sequence[str]], at: Mapping[str, int], key: Sequence[int]) -> Groups:
    """Returns the positions of each group: of those that are named, and of one more that has all other columns but the
    key's; none where there is no group.  `at`: positions of the columns by name."""
    groups = [tuple(at[name] for name in names if name in at) for names in named]
    grouped = {place for group in groups for place in group}
    rest = tuple(place for place in at.values() if place not in grouped and place not in key)
    return (*groups, rest) if groups and rest else tuple(groups)


def touched(groups: Groups, tied: Iterable[int], before: Row | None, after: Row | None) -> Sequence[int]:
    """Returns the numbers of the groups that a change touches."""
    if before is None or after is None or any(before[at] != after[at] for at in tied):
        return range(len(groups))
    return [n for n, group in enumerate(groups) if any(before[at] != after[at] for at in group)]


def laid_over(columns: Container[int], after: Row, here: Row | None) -> Row:
    """Returns the row that stands where these columns of `after` are written over what is there."""
    if here is None:
        return after
    return tuple(value if at in columns else here[at] for at, value in enumerate(after))


class TouchedRows:
    """Groups that the changes of a batch touch, row by row: a row's changes together touch what each of them does.

    A value that went and came back was written in between, so it is touched.  `identity`: what tells rows apart.
    """

    def __init__(self, groups: Groups, tied: Iterable[int], identity: Callable[[Row], Value]) -> None:
        self._groups, self._tied, self._identity = groups, tuple(tied), identity
        self._all = frozenset(range(len(groups)))
        self._rows: dict[Value, frozenset[int]] = {}

    def add(self, before: Row | None, after: Row | None) -> frozenset[int]:
        """Takes the next change; returns what its row is touched in by now."""
        numbers = frozenset(touched(self._groups, self._tied, before, after))
        keys = dict.fromkeys(self._identity(row) for row in (before, after) if row is not None)
        if len(keys) > 1:
            numbers = self._all
        for key in keys:
            numbers = self._rows[key] = numbers | self._rows.get(key, frozenset())
        return numbers

    def columns(self, row: Row) -> tuple[int, ...] | None:
        """Returns the positions that are written where the row is there; None: all."""
        return self.columns_of(self._rows.get(self._identity(row), self._all))

    def columns_of(self, numbers: frozenset[int]) -> tuple[int, ...] | None:
        """Returns the positions of groups; None: of all."""
        return None if numbers == self._all else tuple(sorted(at for n in numbers for at in self._groups[n]))
