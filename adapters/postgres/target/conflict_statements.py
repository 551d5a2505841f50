"""The SQL by which a change is decided about: what it meets, and rows as they are told to a spoke.

Rows that are met are spelled as the change's log does (`read_back`); rows that are told, as this database's own log
does.  All are locked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidelock.adapters.postgres.target import literals
from tidelock.adapters.postgres.target.checked_statements import CheckedStatements
from tidelock.adapters.postgres.target.read_back import asked, reader
from tidelock.adapters.postgres.target.statements import identifier, output_text
from tidelock.adapters.postgres.target.values import ZeroDates
from tidelock.adapters.target.told_uniques import told_uniques
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

    def met(self, before: Row | None, key: Row) -> str:
        """Query of the row with this key, behind whether it is as before, and the transaction that wrote it."""
        same = [self._is_same(i, self._compared_literal(before, i)) for i in self._compared] if before else []
        condition = " AND ".join(same) or "true"
        found = f"SELECT {condition}, t.xmin::text, {self._asked} FROM {self.table} AS t"
        return f"{found} WHERE {self.keyed(key)} FOR UPDATE"

    def others(self, row: Row, key: Row) -> Iterator[tuple[tuple[int, ...], str]]:
        """Queries of the rows of other keys than `key` that hold a unique value of `row`, each with its columns.

        They come behind the transaction that wrote them."""
        for _, positions in told_uniques(self.binding):
            if any(row[i] is None for i in positions):
                continue
            held = " AND ".join(f"t.{self._quoted[i]} = {self._compared_literal(row, i)}" for i in positions)
            other = f"{held} AND NOT ({self.keyed(key)})"
            yield positions, f"SELECT t.xmin::text, {self._asked} FROM {self.table} AS t WHERE {other} FOR UPDATE"

    def row(self, texts: Sequence[Any]) -> Row:
        """Return the row as the change's log spells it.  Raises NotSpelled."""
        return tuple(read(text) for read, text in zip(self._readers, texts, strict=True))

    def image(self, key: Row) -> str:
        """Query of the row with this key as this database's log has it, its columns as `told`."""
        return f"SELECT {self._told} FROM {self.table} AS t WHERE {self.keyed(key)} FOR UPDATE"

    def key_texts(self, key: Row) -> str:
        """Query of the key's values as this database's log has them, there or not."""
        columns = self._columns([key], self.binding.key)
        texts = [
            _logged(self._targets[i].type, f"{literals.elements(self._names[i], v)[0]}::{self._targets[i].type}")
            for i, v in zip(self.binding.key, columns, strict=True)
        ]
        return f"SELECT {', '.join(texts)}"


def together(queries: Sequence[str]) -> str:
    """Returns one query of several that have columns of the same types: their rows, each behind its query's number.

    Each is a query of its own behind FROM, as PostgreSQL locks no rows of a UNION."""
    numbered = (f"SELECT {n} AS number, q.* FROM ({query}) AS q" for n, query in enumerate(queries))
    return " UNION ALL ".join(numbered)


def _logged(type: str, value: str) -> str:
    """SQL for what the log has of a value."""
    if type.startswith(_PADDED):
        return f"{value}::text"
    return f"CASE WHEN {value} IS DISTINCT FROM NULL THEN {output_text(value)} END"
