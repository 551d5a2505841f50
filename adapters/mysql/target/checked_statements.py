"""The SQL of steps that look at the target's rows before they change them (`engine.batch.checked_steps`).

The comparison stands in the statement that writes: a row that is not as it is wanted is not matched, so nothing comes
between the look and the write, and the number of rows that were matched tells that one was not.  Rows travel in a
derived table, as `statements` says, with the compared values of their before-images behind the new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelock.adapters.mysql.target import literals
from tidelock.adapters.mysql.target.compared_values import assigned, comparison, shown
from tidelock.adapters.mysql.target.read_back import asked
from tidelock.adapters.mysql.target.statements import Dialect, TableStatements
from tidelock.adapters.target.compared_columns import compared, may_be_gone
from tidelock.engine.model.records import Row, Value
from tidelock.engine.model.schema import Binding, TargetColumn, signed


class CheckedStatements(TableStatements):
    """Statements for the rows of one `Binding`; as in `TableStatements`, all raise Unwritable."""

    def __init__(self, table: Binding, dialect: Dialect, packet_bytes: int) -> None:
        super().__init__(table, dialect, packet_bytes)
        self.compared = compared(table, "mysql")
        self.may_be_gone = may_be_gone(table)
        self._whole = tuple(i for i in self._written if i not in table.key)
        self._render_whole = literals.keyed(self._columns, table.key, self._whole)
        self._render_was = literals.keyed(self._columns, (), self.compared)

    def joins(self, keys: Sequence[Row]) -> bool:
        """Tells whether the keys may be joined: MariaDB finds none of those beyond ASCII in a column in latin1, say."""
        return self._dialect is Dialect.MYSQL or all(
            value.isascii() for key in keys for value in key if isinstance(value, str)
        )

    # ------------------------------------------------------------------ image

    def update_compared(self, rows: Sequence[Row], befores: Sequence[Row]) -> Iterator[bytes]:
        """Set the columns that no unique index holds, of rows that are as before."""
        texts = joined(self._rows(self._render_update, rows), self._rows(self._render_was, befores))
        tail = self._tail(self._set) + self._as_before("tide_old")
        return self._cut(self._head("UPDATE ", self._set, self.compared), self._next, texts, tail)

    def delete_compared(self, befores: Sequence[Row]) -> Iterator[bytes]:
        """Delete rows that are as before."""
        keys = [self.table.key_of(row) for row in befores]
        texts = self._rows(self._render_keys, keys, self.table.key)
        texts = joined(texts, self._rows(self._render_was, befores)) if self.compared else texts
        head = self._head(f"DELETE {self._name} FROM ", (), self.compared)
        tail = f") tide_new STRAIGHT_JOIN {self._name}{self._by_key} ON {self._join(self._name)}"
        return self._cut(head, self._next, texts, tail + self._as_before(self._name))

    def update_one_compared(self, before: Row, row: Row, *, moves: bool) -> bytes:
        """Update a single row that is as before; `moves`: its key and unique columns too."""
        same = {i for i in self.table.key if signed(before[i]) == signed(row[i])}
        positions = [i for i in self._written if i not in same] if moves else self._set
        sets = [f"{self._names[i]}={self._one(i, row[i], compare=False)}" for i in positions]
        sets = sets or [f"{self._names[i]}={self._names[i]}" for i in self._written[:1]]
        sets[-1] += self._kept_times(positions)
        return self._alone(f"UPDATE {self._old()} SET {','.join(sets)} WHERE {self._is(before)}{self._is_as(before)}")

    def delete_one_compared(self, before: Row) -> bytes:
        """Delete a single row that is as before."""
        return self._alone(f"DELETE FROM {self._name} WHERE {self._is(before)}{self._is_as(before)}")

    def found(self, before: Row) -> bytes:
        """Query of the row as it is: for each compared column whether it is as before, and its value for people."""
        columns = "".join(
            f",{self._is_same(i, self._names[i], self._one(i, before[i], compare=False))},"
            f"{shown(self._target(i).type, self._names[i])}"
            for i in self.compared
        )
        return self._alone(f"SELECT 1{columns} FROM {self._name} WHERE {self._is(before)}")

    def _as_before(self, old: str) -> str:
        parts = [self._is_same(i, f"{old}.{self._names[i]}", f"tide_new.tide_was{i}") for i in self.compared]
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _is_as(self, before: Row) -> str:
        return "".join(
            f" AND {self._is_same(i, self._names[i], self._one(i, before[i], compare=False))}" for i in self.compared
        )

    def _is_same(self, at: int, old: str, new: str) -> str:
        return comparison(self._columns[at], self._target(at).type, old, new)

    # ------------------------------------------------------------------ version

    def update_newer(self, rows: Sequence[Row], version: int) -> Iterator[bytes]:
        """Set all columns but the key's, of rows whose version is below the new one."""
        texts = self._rows(self._render_whole, rows)
        new = assigned(self._target(version).type, f"tide_new.{self._names[version]}")
        tail = f"{self._tail(self._whole)} WHERE tide_old.{self._names[version]}<{new}"
        return self._cut(self._head("UPDATE ", self._whole, ()), self._next, texts, tail)

    def update_one_newer(self, before: Row, row: Row, version: int) -> bytes:
        """Give the row with the key of `before` all values of `row`, if its version is below."""
        sets = [f"{self._names[i]}={self._one(i, row[i], compare=False)}" for i in self._written]
        older = f"{self._names[version]}<{self._version(row[version], version)}"
        return self._alone(f"UPDATE {self._old()} SET {','.join(sets)} WHERE {self._is(before)} AND {older}")

    def delete_not_newer(self, before: Row, version: int) -> bytes:
        """Delete the row, if its version is not above that of its before-image."""
        older = f"{self._names[version]}<={self._version(before[version], version)}"
        return self._alone(f"DELETE FROM {self._name} WHERE {self._is(before)} AND {older}")

    def refuse_null(self, rows: Sequence[Row], version: int) -> None:
        """Refuses rows without a version."""
        if any(row[version] is None for row in rows):
            raise literals.Unwritable(f"column {self._columns[version].name}: NULL is no version (`verify: version`)")

    def _version(self, value: Value, at: int) -> str:
        return assigned(self._target(at).type, self._one(at, value, compare=False))

    # ------------------------------------------------------------------ replace

    def holders(self, row: Row) -> Iterator[tuple[bytes, bytes]]:
        """Queries of the rows of other keys that hold a unique value of this one, each with the delete of them."""
        for found in self._held(row):
            key = ",".join(shown(self._target(i).type, self._names[i]) for i in self.table.key)
            yield self._alone(f"SELECT {key} {found} FOR UPDATE"), self._alone(f"DELETE {found}")

    def whole_holders(self, row: Row, key: Row | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Queries of the same rows, each with all its values as texts, and the delete of them; `key`: the row's, before
        it moves."""
        texts = ",".join(asked(column, self._name) for column in self.table.shape.columns)
        for found in self._held(row, key):
            yield self._alone(f"SELECT {texts} {found} FOR UPDATE"), self._alone(f"DELETE {found}")

    def _held(self, row: Row, key: Row | None = None) -> Iterator[str]:
        own = self._is(row) if key is None else self.by_values(key)
        for positions in self._other_uniques(row):
            held = " AND ".join(f"{self._names[i]}={self._one(i, row[i], compare=True)}" for i in positions)
            yield f"FROM {self._name} WHERE {held} AND NOT ({own})"

    def _other_uniques(self, row: Row) -> Iterator[list[int]]:
        """Yields the columns of each unique index besides the key of which the row has a value."""
        at = {column.name: i for i, column in enumerate(self._columns)}
        for unique in self.table.target.uniques:
            positions = [at[name] for name in unique.columns]
            if set(positions) != set(self.table.key) and all(row[i] is not None for i in positions):
                yield positions

    # ------------------------------------------------------------------ blind

    def overwrite(self, rows: Sequence[Row], columns: Sequence[int] = ()) -> Iterator[bytes]:
        """Set all columns but the key's, of rows that are there by key; of `columns`, those alone."""
        sets = self._overwritten(columns)
        render = literals.keyed(self._columns, self.table.key, sets) if columns else self._render_whole
        return self._cut(self._head("UPDATE ", sets, ()), self._next, self._rows(render, rows), self._tail(sets))

    def overwrite_one(self, row: Row, columns: Sequence[int] = ()) -> bytes:
        """The same of a single row."""
        set_ = self._overwritten(columns)
        sets = [f"{self._names[i]}={self._one(i, row[i], compare=False)}" for i in set_]
        kept = self._kept_times(set_)
        return self._alone(f"UPDATE {self._old()} SET {','.join(sets)}{kept} WHERE {self._is(row)}")

    def _overwritten(self, columns: Sequence[int]) -> tuple[int, ...]:
        return tuple(i for i in self._whole if not columns or i in columns)

    @property
    def has_more_than_key(self) -> bool:
        """Tells whether there are columns besides the key's."""
        return bool(self._whole)

    # ------------------------------------------------------------------ words of SQL

    @property
    def _next(self) -> str:
        return f",{self._row}"

    def _head(self, verb: str, sets: Sequence[int], was: Sequence[int]) -> str:
        legs = [self._key_leg(), *(f"NULL AS {self._names[i]}" for i in sets), *(f"NULL AS tide_was{i}" for i in was)]
        return f"{verb}(SELECT {','.join(legs)} FROM {self._name} WHERE FALSE UNION ALL VALUES {self._row}"

    def _tail(self, sets: Sequence[int]) -> str:
        assignments = ",".join(f"tide_old.{self._names[i]}=tide_new.{self._names[i]}" for i in sets)
        assignments += self._kept_times(sets, "tide_old.")
        return f") tide_new STRAIGHT_JOIN {self._old()} ON {self._join()} SET {assignments}"

    def _is(self, row: Row) -> str:
        return " AND ".join(f"{self._names[i]}={self._one(i, row[i], compare=True)}" for i in self.table.key)

    def _target(self, at: int) -> TargetColumn:
        target = self.table.columns[at]
        assert target is not None, "generated columns are not compared"
        return target

    def _alone(self, text: str) -> bytes:
        (statement,) = self._fitting([text])
        return statement


def joined(texts: Sequence[str], more: Sequence[str]) -> list[str]:
    """Joins two lists of rows `(…)` to one of longer rows."""
    return [f"{text[:-1]},{rest[1:]}" for text, rest in zip(texts, more, strict=True)]
