"""The SQL that looks for rows in conflict: queries for the indexes of rows in a list (`adapters.target.suspect_looks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelock.adapters.postgres.target import literals
from tidelock.adapters.postgres.target.checked_statements import CheckedStatements
from tidelock.adapters.postgres.target.statements import parts
from tidelock.adapters.target.told_uniques import told_uniques
from tidelock.engine.model.records import Row


class SuspectStatements(CheckedStatements):
    """The SQL of one `Binding`.  Methods raise Unwritable."""

    def as_before(self, befores: list[Row]) -> Iterator[str]:
        """Queries for the rows that are as before."""
        condition, start = " AND ".join([self._by_key("b"), *self._same({})]), 0
        for part in self._cut(befores):
            columns = [("b", i, self._array(part, i)) for i in (*self.binding.key, *self._compared)]
            yield self._numbers(columns, condition, range(start, start + len(part)))
            start += len(part)

    def there(self, keys: list[Row]) -> Iterator[str]:
        """Queries for the keys that are there."""
        start = 0
        for part in parts(keys, self._large_key):
            arrays = zip(self.binding.key, self._columns(part, self.binding.key), strict=True)
            columns = [("b", i, literals.array(self._names[i], texts)) for i, texts in arrays]
            yield self._numbers(columns, self._by_key("b"), range(start, start + len(part)))
            start += len(part)

    def held(self, rows: list[Row]) -> Iterator[str]:
        """Queries for the rows of which a row of another key holds a unique value."""
        for unique, positions in told_uniques(self.binding):
            if unique.columns == self.binding.target.key:
                continue
            start = 0
            held = " AND ".join(f"t.{self._quoted[i]} = {self._typed(i)}" for i in positions)
            for part in parts(rows, self._large):
                columns = [("c", i, self._array(part, i)) for i in dict.fromkeys((*positions, *self.binding.key))]
                condition = f"{held} AND NOT ({self._by_key('c')})"
                yield self._numbers(columns, condition, range(start, start + len(part)))
                start += len(part)

    def _numbers(self, columns: Sequence[tuple[str, int, str]], condition: str, numbers: range) -> str:
        typed = ", ".join(f"{text}::{self._element(i)}[]" for _, i, text in columns)
        names = ", ".join(f"{alias}{i}" for alias, i, _ in columns)
        source = f"unnest({typed}) WITH ORDINALITY AS s({names}, number)"
        return f"SELECT s.number - 1 + {numbers.start} FROM {source} JOIN {self.table} AS t ON {condition}"
