"""Conflicts of changes by the book: two conflict if they share a row, a value of a unique key, or one refers to
the other's row.  Rather too often than too seldom: what an update leaves alone counts too."""

from __future__ import annotations

from tidelock.simulations.explore.histories import Draft, Scope

_Token = tuple[object, ...]


class Book:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._known: dict[tuple[Draft, Draft], bool] = {}
        self._touched: dict[Draft, tuple[frozenset[_Token], frozenset[_Token]]] = {}

    def conflict(self, one: Draft, other: Draft) -> bool:
        found = self._known.get((one, other))
        if found is None:
            own, refers = self._of(one)
            others, they_refer = self._of(other)
            found = not (own.isdisjoint(others) and own.isdisjoint(they_refer) and refers.isdisjoint(others))
            self._known[one, other] = found
        return found

    def _of(self, draft: Draft) -> tuple[frozenset[_Token], frozenset[_Token]]:
        """Values that are its own, and values of others that it refers to."""
        found = self._touched.get(draft)
        if found is None:
            table = self._scope.bindings[draft[0]].target
            at = {column.name: i for i, column in enumerate(table.columns)}
            rows = [row for row in draft[1:] if row is not None]
            own = [(table.name, u.columns, tuple(r[at[c]] for c in u.columns)) for u in table.uniques for r in rows]
            refers = [
                (fk.parent, fk.parent_columns, tuple(r[at[c]] for c in fk.columns))
                for fk in table.foreign_keys
                for r in rows
            ]
            found = self._touched[draft] = (
                frozenset(token for token in own if None not in token[2]),
                frozenset(token for token in refers if None not in token[2]),
            )
        return found
