"""The SQL by which a change is decided about: what it meets, and rows as they are told to a spoke.

Rows that are met are spelled as the change's log does (`read_back`); rows that are told, as this server's own log does:
texts as bytes in their column's charset, floating-point numbers as numbers, all else as text.  All are locked.

Rows are asked for by a join with those of a list, as `statements` says: at REPEATABLE READ that locks the gap of a row
that is not found as a look for one row does.  Where MariaDB cannot join their values, each has a query of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tidelock.adapters.mysql.target import literals
from tidelock.adapters.mysql.target.checked_statements import joined
from tidelock.adapters.mysql.target.compared_values import assigned
from tidelock.adapters.mysql.target.read_back import asked
from tidelock.adapters.mysql.target.statements import Dialect, identifier
from tidelock.adapters.mysql.target.suspect_statements import SuspectStatements, numbered
from tidelock.adapters.schema.log_spelling import spelled
from tidelock.adapters.schema.type_map import MYSQL_INTEGERS, Type, is_text
from tidelock.adapters.target.told_uniques import Wanted, told_uniques, wanting
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding

_NUMBERS: Final = frozenset((*MYSQL_INTEGERS, "year", "bit", "decimal"))
_BYTES: Final = frozenset(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"))
_AS_TEXT: Final = frozenset(("enum", "set", "date", "datetime", "timestamp", "time", "uuid", "inet4", "inet6"))


class ConflictStatements(SuspectStatements):
    """Statements for the rows of one `Binding`; as in `TableStatements`, all raise Unwritable.

    Each row of an answer begins with the place in the list that was given."""

    def __init__(self, table: Binding, dialect: Dialect, packet_bytes: int) -> None:
        super().__init__(table, dialect, packet_bytes)
        self._asked = ",".join(asked(column, "tide_old") for column in table.shape.columns)
        self.told = [column.name for column in table.target.columns]
        self.key_names = [table.shape.columns[i].name for i in table.key]
        self._told = ",".join(_logged(c.type, f"tide_old.{identifier(c.name)}") for c in table.target.columns)

    @property
    def name(self) -> TableName:
        """The table's name."""
        return self.table.name

    def no_rows(self) -> bytes:
        """Query of all columns, and of no row."""
        return self._alone(f"SELECT * FROM {self._name} LIMIT 0")

    def met(self, asked: Sequence[tuple[Row | None, Row]]) -> Iterator[bytes]:
        """Queries of the rows with these keys, each behind whether it is as before, where a row before is given."""
        if not self.joins([key for _, key in asked]):
            yield from (self._met_one(n, *one) for n, one in enumerate(asked))
            return
        befores = [(n, before) for n, (before, _) in enumerate(asked) if before is not None]
        absent = [(n, key) for n, (before, key) in enumerate(asked) if before is None]
        if befores:
            rows = [row for _, row in befores]
            texts = self._keys([self.table.key_of(row) for row in rows])
            texts = joined(texts, self._rows(self._render_was, rows)) if self.compared else texts
            legs = [self._key_leg(), *(f"NULL AS tide_was{i}" for i in self.compared)]
            same = [self._is_same(i, f"tide_old.{self._names[i]}", f"tide_new.tide_was{i}") for i in self.compared]
            asked_for = f",{' AND '.join(same) or '1'},{self._asked}"
            yield from self._numbers(legs, numbered(texts, [n for n, _ in befores]), self._locked_by_key, asked_for)
        if absent:
            texts = self._keys([key for _, key in absent])
            numbers = [n for n, _ in absent]
            yield from self._numbers(
                [self._key_leg()], numbered(texts, numbers), self._locked_by_key, f",1,{self._asked}"
            )

    def _met_one(self, number: int, before: Row | None, key: Row) -> bytes:
        compared = () if before is None else [(i, before[i]) for i in self.compared]
        texts = [(i, self._one(i, value, compare=False)) for i, value in compared]
        same = [self._is_same(i, f"tide_old.{self._names[i]}", text) for i, text in texts]
        condition = " AND ".join(same) or "1"
        place = f"{self._old()} WHERE {self.by_values(key)}"
        return self._alone(f"SELECT {number},{condition},{self._asked} FROM {place} FOR UPDATE")

    def others(self, wanted: Sequence[Wanted]) -> Iterator[tuple[tuple[int, ...], bytes]]:
        """Queries of the rows of other keys that hold a unique value of these, each with its columns."""
        for unique, positions in told_uniques(self.table):
            numbers = wanting(self.table, unique, positions, wanted)
            values = [(*(wanted[n][0][i] for i in positions), *wanted[n][1]) for n in numbers]
            place = f"{self._name} tide_old FORCE INDEX ({identifier(unique.name)})"
            if values and self.joins(values):
                yield from ((positions, sql) for sql in self._held_by_others(positions, values, numbers, place))
                continue
            for n in numbers:
                row, key, _ = wanted[n]
                held = " AND ".join(f"{self._names[i]}={self._one(i, row[i], compare=True)}" for i in positions)
                condition = f"{held} AND NOT {self.by_values(key)} FOR UPDATE"
                yield positions, self._alone(f"SELECT {n},{self._asked} FROM {place} WHERE {condition}")

    def _held_by_others(
        self, positions: Sequence[int], values: Sequence[Row], numbers: Sequence[int], place: str
    ) -> Iterator[bytes]:
        sent = (*positions, *self.table.key)
        texts = self._rows(literals.compared(self._columns, sent), values, sent)
        legs = [f"{self._names[i]} AS tide_key{m}" for m, i in enumerate(sent)]
        same = [f"tide_old.{self._names[i]}=tide_new.tide_key{m}" for m, i in enumerate(sent)]
        held, key = same[: len(positions)], same[len(positions) :]
        tail = f"{place} ON {' AND '.join(held)} WHERE NOT ({' AND '.join(key)}) FOR UPDATE"
        yield from self._numbers(legs, numbered(texts, numbers), tail, f",{self._asked}")

    def _keys(self, keys: Sequence[Row]) -> list[str]:
        return self._rows(self._render_keys, keys, self.table.key)

    @property
    def _locked_by_key(self) -> str:
        return f"{self._old()} ON {self._join()} FOR UPDATE"

    def row(self, texts: Sequence[Any]) -> Row:
        """Return the row as the change's log spells it.  Raises NotSpelled."""
        return tuple(spelled(column, text) for column, text in zip(self.table.shape.columns, texts, strict=True))

    def images(self, keys: Sequence[Row]) -> Iterator[bytes]:
        """Queries of the rows with these keys as this server's log has them, their columns as `told`."""
        if keys and self.joins(keys):
            texts = numbered(self._keys(keys), range(len(keys)))
            yield from self._numbers([self._key_leg()], texts, self._locked_by_key, f",{self._told}")
            return
        for n, key in enumerate(keys):
            yield self._alone(f"SELECT {n},{self._told} FROM {self._old()} WHERE {self.by_values(key)} FOR UPDATE")

    def key_texts(self, keys: Sequence[Row]) -> Iterator[bytes]:
        """Queries of the keys' values as this server's log has them, there or not; texts as text."""
        selects = [f"SELECT {n},{','.join(self._key_text(key))}" for n, key in enumerate(keys)]
        return self._cut("", " UNION ALL ", selects, "") if selects else iter(())

    def _key_text(self, key: Row) -> Iterator[str]:
        for i, value in zip(self.table.key, key, strict=True):
            type, literal = self._target(i).type, self._one(i, value, compare=False)
            base = Type.of(type).base.split(" ")[0]
            given = literal if base not in _NUMBERS and base not in _AS_TEXT else assigned(type, literal)
            yield f"CONVERT({literal} USING utf8mb4)" if is_text(base) else _logged(type, given)


def _logged(type: str, value: str) -> str:
    """SQL for what the log has of a value."""
    base = Type.of(type).base.split(" ")[0]
    if base == "decimal" and "zerofill" not in type:
        return f"CAST({value} AS CHAR)"  # a sum might have fewer digits behind the point
    if base in _NUMBERS:
        return f"CAST({value}+0 AS CHAR)"
    if base in ("float", "double"):
        return f"CAST({value} AS DOUBLE)"
    if base in _BYTES:
        return value
    if base in _AS_TEXT:
        return f"CAST({value} AS CHAR CHARACTER SET utf8mb4)"
    if base == "json":
        return f"CONVERT({value} USING utf8mb4)"
    if base == "vector":
        return f"CAST({value} AS BINARY)"
    return f"CONVERT({value} USING binary)"
