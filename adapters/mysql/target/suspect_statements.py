"""The SQL that looks for rows in conflict: queries for the indexes of rows in a list (`adapters.target.suspect_looks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelock.adapters.mysql.target import literals
from tidelock.adapters.mysql.target.checked_statements import CheckedStatements, joined
from tidelock.adapters.mysql.target.statements import identifier
from tidelock.adapters.target.told_uniques import told_uniques
from tidelock.engine.model.records import Row


class SuspectStatements(CheckedStatements):
    """Statements for the rows of one `Binding`; as in `TableStatements`, all raise Unwritable."""

    def as_before(self, befores: Sequence[Row]) -> Iterator[bytes]:
        """Queries for the rows that are as before."""
        keys = [self.table.key_of(row) for row in befores]
        if not self.joins(keys):
            for n, before in enumerate(befores):
                yield self._alone(f"SELECT {n} FROM {self._name} WHERE {self._is(before)}{self._is_as(before)}")
            return
        texts = self._rows(self._render_keys, keys, self.table.key)
        texts = joined(texts, self._rows(self._render_was, befores)) if self.compared else texts
        legs = [self._key_leg(), *(f"NULL AS tide_was{i}" for i in self.compared)]
        tail = f"{self._old()} ON {self._join()}{self._as_before('tide_old')}"
        yield from self._numbers(legs, numbered(texts, range(len(texts))), tail)

    def there(self, keys: Sequence[Row]) -> Iterator[bytes]:
        """Queries for the keys that are there."""
        if self.joins(keys):
            yield from self.present_keys(keys)
            return
        for n, key in enumerate(keys):
            yield self._alone(f"SELECT {n} FROM {self._name} WHERE {self.by_values(key)}")

    def held(self, rows: Sequence[Row]) -> Iterator[bytes]:
        """Queries for the rows of which a row of another key holds a unique value."""
        key = self.table.key
        for unique, positions in told_uniques(self.table):
            if unique.columns == self.table.target.key:
                continue
            wanting = [n for n, row in enumerate(rows) if all(row[i] is not None for i in positions)]
            if not wanting:
                continue
            sent = tuple(dict.fromkeys((*positions, *key)))
            values = [tuple(rows[n][i] for i in sent) for n in wanting]
            texts = self._rows(literals.compared(self._columns, sent), values, sent)
            legs = [f"{self._names[i]} AS tide_key{m}" for m, i in enumerate(sent)]
            same = {i: f"tide_old.{self._names[i]}=tide_new.tide_key{m}" for m, i in enumerate(sent)}
            other = f"NOT ({' AND '.join(same[i] for i in key)})"
            place = f"{self._name} tide_old FORCE INDEX ({identifier(unique.name)})"
            tail = f"{place} ON {' AND '.join(same[i] for i in positions)} WHERE {other}"
            yield from self._numbers(legs, numbered(texts, wanting), tail)

    def _numbers(self, legs: Sequence[str], texts: Sequence[str], tail: str, asked: str = "") -> Iterator[bytes]:
        """`asked`: more columns, each behind a comma."""
        leg = f"SELECT {','.join(legs)},NULL AS n FROM {self._name} WHERE FALSE"
        head = f"SELECT tide_new.n{asked} FROM ({leg} UNION ALL VALUES {self._row}"
        return self._cut(head, f",{self._row}", texts, f") tide_new STRAIGHT_JOIN {tail}")


def numbered(texts: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """Puts a number behind each row `(…)`."""
    return [f"{text[:-1]},{n})" for text, n in zip(texts, numbers, strict=True)]
