"""The SQL by which a change is decided about: what it meets, and rows as they are told to a spoke.

Rows that are met are spelled as the change's log does (`read_back`); rows that are told, as this database's own log
does.  All are locked.  They are found by a join with the rows of a list, whose place each begins with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidelock.adapters.postgres.target import literals
from tidelock.adapters.postgres.target.checked_statements import CheckedStatements
from tidelock.adapters.postgres.target.equal_rows import output_text
from tidelock.adapters.postgres.target.read_back import asked, reader
from tidelock.adapters.postgres.target.statements import STATEMENT_ROWS, identifier
from tidelock.adapters.postgres.target.values import ZeroDates
from tidelock.adapters.target.told_uniques import Wanted, told_uniques, wanting
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding

_PADDED = "character("


class ConflictStatements(CheckedStatements):
    """The SQL of one `Binding`.  Methods raise Unwritable."""

    def __init__(self, binding: Binding, zero_dates: ZeroDates) -> None:
        super().__init__(binding, zero_dates)
        pairs = list(zip(binding.shape.columns, self._targets, strict=True))
        self._asked = ", ".join(asked(column, target.type, "t") for column, target in pairs)
        self._readers = [reader(column, target.type) for column, target in pairs]
        told = [column for column in binding.target.columns if not column.generated]
        self.told = [column.name for column in told]
        self.key_names = [binding.shape.columns[i].name for i in binding.key]
        self._told = ", ".join(_logged(column.type, f"t.{identifier(column.name)}") for column in told)

    @property
    def name(self) -> TableName:
        """The table's name."""
        return self.binding.name

    def columns(self) -> str:
        """Query of the names of the columns that the log tells."""
        place = f"'{self.table.replace(chr(39), chr(39) * 2)}'::regclass"
        return (
            f"SELECT attname::text FROM pg_attribute WHERE attrelid = {place} AND attnum > 0 AND NOT attisdropped "
            "AND attgenerated = ''"
        )

    def lock_table(self) -> str:
        """Keep everybody else from writing to the table until the transaction ends."""
        return f"LOCK TABLE {self.table} IN SHARE ROW EXCLUSIVE MODE"

    def met(self, asked: Sequence[tuple[Row | None, Row]]) -> Iterator[str]:
        """Queries of the rows with these keys, each behind whether it is as before, where a row before is given, and
        the transaction that wrote it."""
        told = f"t.xmin::text, {self._asked}"
        befores = [(n, before) for n, (before, _) in enumerate(asked) if before is not None]
        condition = " AND ".join(self._same({})) or "true"
        for part in self._cut_numbered(befores):
            rows = [row for _, row in part]
            columns = [("b", i, self._array(rows, i)) for i in (*self.binding.key, *self._compared)]
            yield self._locked([n for n, _ in part], columns, f"{condition}, {told}", self._by_key("b"))
        absent = [(n, key) for n, (before, key) in enumerate(asked) if before is None]
        for number in range(0, len(absent), STATEMENT_ROWS):
            numbers, keys = zip(*absent[number : number + STATEMENT_ROWS], strict=True)
            yield self._locked(numbers, self._key_columns("b", keys), f"true, {told}", self._by_key("b"))

    def others(self, wanted: Sequence[Wanted]) -> Iterator[tuple[tuple[int, ...], str]]:
        """Queries of the rows of other keys that hold a unique value of these, each with its columns; they come behind
        the transaction that wrote them."""
        for unique, positions in told_uniques(self.binding):
            held = " AND ".join(f"t.{self._quoted[i]} = {self._typed(i)}" for i in positions)
            asked = [(n, wanted[n][0]) for n in wanting(self.binding, unique, positions, wanted)]
            for part in self._cut_numbered(asked):
                numbers, rows = [n for n, _ in part], [row for _, row in part]
                columns = [("c", i, self._array(rows, i)) for i in positions]
                columns += self._key_columns("b", [wanted[n][1] for n in numbers])
                condition = f"{held} AND NOT ({self._by_key('b')})"
                yield positions, self._locked(numbers, columns, f"t.xmin::text, {self._asked}", condition)

    def _cut_numbered(self, rows: Sequence[tuple[int, Row]]) -> Iterator[Sequence[tuple[int, Row]]]:
        start = 0
        for part in self._cut([row for _, row in rows]):
            yield rows[start : start + len(part)]
            start += len(part)

    def _key_columns(self, alias: str, keys: Sequence[Row]) -> list[tuple[str, int, str]]:
        columns = zip(self.binding.key, self._columns(list(keys), self.binding.key), strict=True)
        return [(alias, i, literals.array(self._names[i], texts)) for i, texts in columns]

    def _locked(
        self, numbers: Sequence[int], columns: Sequence[tuple[str, int, str]], asked: str, condition: str
    ) -> str:
        """Query of the rows that the condition finds, locked, each behind its number."""
        typed = ", ".join(f"{text}::{self._element(i)}[]" for _, i, text in columns)
        names = ", ".join(f"{alias}{i}" for alias, i, _ in columns)
        source = f"unnest({typed}, {literals.numbers(numbers)}::int[]) AS s({names}, number)"
        return f"SELECT s.number, {asked} FROM {source} JOIN {self.table} AS t ON {condition} FOR UPDATE OF t"

    def row(self, texts: Sequence[Any]) -> Row:
        """Return the row as the change's log spells it.  Raises NotSpelled."""
        return tuple(read(text) for read, text in zip(self._readers, texts, strict=True))

    def images(self, keys: Sequence[Row]) -> Iterator[str]:
        """Queries of the rows with these keys as this database's log has them, their columns as `told`."""
        for start in range(0, len(keys), STATEMENT_ROWS):
            part = keys[start : start + STATEMENT_ROWS]
            numbers = range(start, start + len(part))
            yield self._locked(numbers, self._key_columns("b", part), self._told, self._by_key("b"))

    def key_texts(self, keys: Sequence[Row]) -> Iterator[str]:
        """Queries of the keys' values as this database's log has them, there or not."""
        for start in range(0, len(keys), STATEMENT_ROWS):
            part = keys[start : start + STATEMENT_ROWS]
            columns = self._key_columns("b", part)
            typed = ", ".join(f"{text}::{self._element(i)}[]" for _, i, text in columns)
            names = ", ".join(f"{alias}{i}" for alias, i, _ in columns)
            types = [(i, self._targets[i].type) for i in self.binding.key]
            texts = ", ".join(_logged(type, f"{self._typed(i, 'b')}::{type}") for i, type in types)
            numbers = literals.numbers(range(start, start + len(part)))
            yield f"SELECT s.number, {texts} FROM unnest({typed}, {numbers}::int[]) AS s({names}, number)"


def _logged(type: str, value: str) -> str:
    """SQL for what the log has of a value."""
    if type.startswith(_PADDED):
        return f"{value}::text"
    return f"CASE WHEN {value} IS DISTINCT FROM NULL THEN {output_text(value)} END"
