"""The SQL by which a change is decided about: what it meets, and rows as they are told to a spoke.

Rows that are met are spelled as the change's log does (`read_back`); rows that are told, as this server's own log does:
texts as bytes in their column's charset, floating-point numbers as numbers, all else as text.  All are locked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tidelock.adapters.mysql.target.checked_statements import CheckedStatements
from tidelock.adapters.mysql.target.compared_values import assigned
from tidelock.adapters.mysql.target.read_back import asked
from tidelock.adapters.mysql.target.statements import Dialect, identifier
from tidelock.adapters.schema.log_spelling import spelled
from tidelock.adapters.schema.type_map import MYSQL_INTEGERS, Type, is_text
from tidelock.adapters.target.told_uniques import told_uniques
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding

_NUMBERS: Final = frozenset((*MYSQL_INTEGERS, "year", "bit", "decimal"))
_BYTES: Final = frozenset(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"))
_AS_TEXT: Final = frozenset(("enum", "set", "date", "datetime", "timestamp", "time", "uuid", "inet4", "inet6"))


class ConflictStatements(CheckedStatements):
    """Statements for the rows of one `Binding`; as in `TableStatements`, all raise Unwritable."""

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

    def met(self, before: Row | None, key: Row) -> bytes:
        """Query of the row with this key, behind whether it is as before."""
        compared = () if before is None else [(i, before[i]) for i in self.compared]
        literals = [(i, self._one(i, value, compare=False)) for i, value in compared]
        same = [self._is_same(i, f"tide_old.{self._names[i]}", literal) for i, literal in literals]
        condition = " AND ".join(same) or "1"
        place = f"{self._old()} WHERE {self.by_values(key)}"
        return self._alone(f"SELECT {condition},{self._asked} FROM {place} FOR UPDATE")

    def others(self, row: Row, key: Row) -> Iterator[tuple[tuple[int, ...], bytes]]:
        """Queries of the rows of other keys than `key` that hold a unique value of `row`, each with its columns."""
        for unique, positions in told_uniques(self.table):
            if any(row[i] is None for i in positions):
                continue
            held = " AND ".join(f"{self._names[i]}={self._one(i, row[i], compare=True)}" for i in positions)
            place = f"{self._name} tide_old FORCE INDEX ({identifier(unique.name)})"
            yield positions, self._alone(
                f"SELECT {self._asked} FROM {place} WHERE {held} AND NOT {self.by_values(key)} FOR UPDATE"
            )

    def row(self, texts: Sequence[Any]) -> Row:
        """Return the row as the change's log spells it.  Raises NotSpelled."""
        return tuple(spelled(column, text) for column, text in zip(self.table.shape.columns, texts, strict=True))

    def image(self, key: Row) -> bytes:
        """Query of the row with this key as this server's log has it, its columns as `told`."""
        return self._alone(f"SELECT {self._told} FROM {self._old()} WHERE {self.by_values(key)} FOR UPDATE")

    def key_texts(self, key: Row) -> bytes:
        """Query of the key's values as this server's log has them, there or not; texts as text."""
        texts = []
        for i, value in zip(self.table.key, key, strict=True):
            type, literal = self._target(i).type, self._one(i, value, compare=False)
            base = Type.of(type).base.split(" ")[0]
            given = literal if base not in _NUMBERS and base not in _AS_TEXT else assigned(type, literal)
            texts.append(f"CONVERT({literal} USING utf8mb4)" if is_text(base) else _logged(type, given))
        return self._alone(f"SELECT {','.join(texts)}")


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
