"""The SQL that carries out a step on one table: texts only, cut to fit the server's packets.

Why these forms (design 7):
- With a second unique index, `ON DUPLICATE KEY UPDATE` and `REPLACE` hit whatever row holds the value, silently.
  They are used only where the key is the sole unique index; else rows are inserted plainly and updated by key.
- An update joins the table to its new rows.  The first leg of the union, `SELECT key FROM table WHERE FALSE`, gives the
  key columns the types and collations of the table's own, so that the join finds rows exactly as the index does and by
  the index; `STRAIGHT_JOIN` makes the new rows drive it.
- `FORCE INDEX`, because a server scans a small table, and a scan waits for rows that other lanes have locked.  So do
  both for `DELETE … WHERE key IN (…)`, whatever the hint.
- A column with ON UPDATE CURRENT_TIMESTAMP changes by itself wherever an update does not set it.  So each time column
  that is left out, as those of unique indexes are, is set to what it is.
- A row may hold `UNKNOWN`, for a value that stays as it is: it is updated by key, and its known columns alone are set.
- Without a key, one equal row is one whose every column is `<=>`, and text also equal as bytes: a `_ci` collation or
  trailing spaces must not take another row.  Nor may `1.0` in a document take `1`, or one zero the other.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

import msgspec

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.mysql.target import literals
from tidelock.adapters.mysql.target.literals import Render, Unwritable
from tidelock.adapters.schema.type_map import is_text
from tidelock.engine.model.records import UNKNOWN, Column, Kind, Row, TableName, Value
from tidelock.engine.model.schema import Binding, TargetColumn, TargetTable, signed


def identifier(name: str) -> str:
    """Quote a name."""
    return quote("mysql", name)


def qualified(name: TableName) -> str:
    """Quote a table's name with its schema."""
    return f"{identifier(name.schema)}.{identifier(name.table)}"


class Dialect(enum.Enum):
    """The SQL in which MySQL 8.0.19 and MariaDB 10.3 differ."""

    MYSQL = "MySQL"
    MARIADB = "MariaDB"

    @property
    def share(self) -> str:
        """Ends a SELECT that keeps its rows from being changed until we commit."""
        return "FOR SHARE" if self is Dialect.MYSQL else "LOCK IN SHARE MODE"


class TableStatements:
    """Statements for the rows of one `Binding`.  Each method raises Unwritable for a value that no literal can hold."""

    def __init__(self, table: Binding, dialect: Dialect, packet_bytes: int) -> None:
        """`packet_bytes`: the longest statement the server takes."""
        self.table = table
        self.sole_unique = _is_sole_unique(table)
        self._dialect = dialect
        self._packet_bytes = packet_bytes
        self._columns = tuple(map(_as_written, table.shape.columns, table.columns))
        self._written = tuple(i for i, c in enumerate(table.columns) if c is not None)
        fixed = {*table.unique_positions, *table.key}
        self._set = tuple(i for i in self._written if i not in fixed)
        """Returns the columns that an update by key sets: no unique column ever."""
        self._own_time = tuple(i for i in self._written if _tells_time(table.columns[i]))
        index = key_index(table.target)
        self._by_key = f" FORCE INDEX ({identifier(index)})" if index else ""
        self._name = qualified(table.name)
        self._names = [identifier(c.name) for c in self._columns]
        self._row = "ROW" if dialect is Dialect.MYSQL else ""
        """Returns the text before each row of a VALUES table."""
        self._render_insert = literals.stored(self._columns, self._written)
        self._render_update = literals.keyed(self._columns, table.key, self._set)
        self._render_known: dict[tuple[int, ...], Render] = {}
        self._render_keys = literals.compared(self._columns, table.key)
        self._insert = f"INSERT INTO {self._name} ({self._list(self._written)}) VALUES "

    @property
    def updates(self) -> bool:
        """Tells whether there is a column to set once a row is there by key."""
        return bool(self._set)

    def insert(self, rows: Sequence[Row]) -> Iterator[bytes]:
        """Plain inserts; a row that is there is error 1062."""
        return self._cut(self._insert, ",", self._rows(self._render_insert, rows), "")

    def upsert(self, rows: Sequence[Row]) -> Iterator[bytes]:
        """Insert or overwrite by key, in one go; only where the key is the sole unique index."""
        assert self.sole_unique, "another row could be hit through a second unique index"
        sets = self._set or self.table.key[:1]  # nothing to set: a key column to itself
        names = [self._names[i] for i in (*sets, *(i for i in self._own_time if i not in sets))]
        if self._dialect is Dialect.MYSQL:
            tail = " AS tide_row ON DUPLICATE KEY UPDATE " + ",".join(f"{n}=tide_row.{n}" for n in names)
        else:
            tail = " ON DUPLICATE KEY UPDATE " + ",".join(f"{n}=VALUES({n})" for n in names)
        return self._cut(self._insert, ",", self._rows(self._render_insert, rows), tail)

    def update(self, rows: Sequence[Row]) -> Iterator[bytes]:
        """Set the columns that no unique index holds, by key; the matched rows together say how many were there."""
        return self._update(rows, self._set, self._render_update)

    def update_known(self, rows: Sequence[Row], known: tuple[int, ...]) -> Iterator[bytes]:
        """Set the columns `known` alone, one of `known_of` each row, as `update` does."""
        render = self._render_known.get(known)
        if render is None:
            render = self._render_known[known] = literals.keyed(self._columns, self.table.key, known)
        return self._update(rows, known, render)

    def known_of(self, row: Row) -> tuple[int, ...]:
        """Returns the columns that an update by key sets of this row."""
        return tuple([i for i in self._set if row[i] is not UNKNOWN])

    def _update(self, rows: Sequence[Row], positions: Sequence[int], render: Render) -> Iterator[bytes]:
        first = ",".join([self._key_leg(), *(f"NULL AS {self._names[i]}" for i in positions)])
        sets = ",".join(f"tide_old.{self._names[i]}=tide_new.{self._names[i]}" for i in positions)
        sets += self._kept_times(positions, "tide_old.")
        head = f"UPDATE (SELECT {first} FROM {self._name} WHERE FALSE UNION ALL VALUES {self._row}"
        tail = f") tide_new STRAIGHT_JOIN {self._old()} ON {self._join()} SET {sets}"
        return self._cut(head, "," + self._row, self._rows(render, rows), tail)

    def present(self, rows: Sequence[Row]) -> Iterator[bytes]:
        """Queries for the indexes in `rows` of those that are there by key; they see the latest committed state."""
        return self.present_keys([self.table.key_of(row) for row in rows])

    def present_keys(self, keys: Sequence[Row]) -> Iterator[bytes]:
        """The same, by keys."""
        texts = [f"{text[:-1]},{n})" for n, text in enumerate(self._rows(self._render_keys, keys, self.table.key))]
        leg = f"SELECT {self._key_leg()},NULL AS n FROM {self._name} WHERE FALSE"
        head = f"SELECT tide_new.n FROM ({leg} UNION ALL VALUES {self._row}"
        tail = f") tide_new STRAIGHT_JOIN {self._old()} ON {self._join()}"
        return self._cut(head, "," + self._row, texts, tail)

    def delete(self, keys: Sequence[Row]) -> Iterator[bytes]:
        """Delete by key, or one equal row for each entry where there is none."""
        if not self.table.key:
            return self._fitting(f"DELETE FROM {self._name} WHERE {self._equal(row)} LIMIT 1" for row in keys)
        texts = self._rows(self._render_keys, keys, self.table.key)
        if self._dialect is Dialect.MARIADB and not all(map(str.isascii, texts)):
            # It does not join a column in latin1, say, to such texts, and finds none of them in a list of rows.
            return self._cut(f"DELETE FROM {self._name} WHERE ", " OR ", [self.by_values(key) for key in keys], "")
        name = self._name  # an alias after DELETE belongs to the session's database, and ours has none
        head = f"DELETE {name} FROM (SELECT {self._key_leg()} FROM {name} WHERE FALSE UNION ALL VALUES {self._row}"
        tail = f") tide_new STRAIGHT_JOIN {name}{self._by_key} ON {self._join(name)}"
        return self._cut(head, "," + self._row, texts, tail)

    def move(self, key: Row, row: Row) -> bytes:
        """Give the row `key` (a whole row without a key) all known values of `row`; key columns only where they differ.
        """
        values = zip(self.table.key, key, strict=bool(self.table.key))
        same = {i for i, value in values if signed(row[i]) == signed(value)}
        return self._update_one(key, row, [i for i in self._written if i not in same and row[i] is not UNKNOWN])

    def update_one(self, row: Row) -> bytes:
        """Update a single row, also where no join can compare the key (error 1267)."""
        return self._update_one(self.table.key_of(row), row, self.known_of(row))

    def _update_one(self, key: Row, row: Row, positions: Sequence[int]) -> bytes:
        sets = [f"{self._names[i]}={self._one(i, row[i], compare=False)}" for i in positions]
        if not sets:
            sets = [f"{self._names[i]}={self._names[i]}" for i in self._written[:1]]
        sets[-1] += self._kept_times(positions)
        if self.table.key:
            columns = zip(self.table.key, key, strict=True)
            where = " AND ".join(f"{self._names[i]}={self._one(i, value, compare=True)}" for i, value in columns)
            update = f"UPDATE {self._old()} SET {','.join(sets)} WHERE {where}"
        else:
            update = f"UPDATE {self._name} SET {','.join(sets)} WHERE {self._equal(key)} LIMIT 1"
        (statement,) = self._fitting([update])
        return statement

    def by_values(self, key: Row) -> str:
        """Write the condition that finds the row with this key."""
        values = zip(self.table.key, key, strict=True)
        return f"({' AND '.join(f'{self._names[i]}={self._one(i, value, compare=True)}' for i, value in values)})"

    def _kept_times(self, sets: Sequence[int], of: str = "") -> str:
        """Write what has the time columns stay as they are that are not set."""
        names = (self._names[i] for i in self._own_time if i not in sets)
        return "".join(f",{of}{name}={of}{name}" for name in names)

    def _old(self) -> str:
        return f"{self._name} tide_old{self._by_key}"

    def _equal(self, row: Row) -> str:
        """Write the condition that a row equals `row` exactly, for tables without a key."""
        return " AND ".join(self._same(i, row[i]) for i in self._written)

    def _same(self, at: int, value: Value) -> str:
        column, target, name = self._columns[at], self.table.columns[at], self._names[at]
        assert target is not None, "generated columns are not compared"
        literal = self._one(at, value, compare=True)
        if value is None:
            return f"{name} IS NULL"
        if target.type == "json" and self._dialect is Dialect.MYSQL:
            document = f"CAST({literal} AS JSON)"
            texts = (f"CAST(CAST({one} AS CHAR) AS BINARY)" for one in (name, document))
            return f"{name}={document} AND {'='.join(texts)}"  # 1 and 1.0 are equal
        if column.kind is Kind.VECTOR:
            return f"HEX({name})={literals.text(value.hex().upper())}"
        if column.kind in _FLOATS and value == 0 and self._dialect is Dialect.MYSQL:  # MariaDB keeps no sign of a zero
            # The zeros are equal, and beside `=` MySQL puts one for the other.
            return f"CAST({name} AS CHAR)='{'-0' if signed(value) == '-0' else '0'}'"
        if column.kind not in _AS_BYTES:
            return f"{name}<=>{literal}"
        exact = f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)=CAST({literal} AS BINARY)"
        # The plain comparison lets an index help; a literal beyond ASCII may not exist in the column's charset.
        return f"{name}={literal} AND {exact}" if value.isascii() else exact

    def _one(self, at: int, value: Value, *, compare: bool) -> str:
        return literals.one(self._columns[at], value, compare=compare)

    def _list(self, positions: Sequence[int]) -> str:
        return ",".join(self._names[i] for i in positions)

    def _key_leg(self) -> str:
        return ",".join(f"{self._names[i]} AS tide_key{n}" for n, i in enumerate(self.table.key))

    def _join(self, old: str = "tide_old") -> str:
        pairs = enumerate(self.table.key)
        return " AND ".join(f"{old}.{self._names[i]}=tide_new.tide_key{n}" for n, i in pairs)

    def _rows(self, render: Render, rows: Sequence[Row], positions: Sequence[int] = ()) -> list[str]:
        try:
            return render(rows)
        except (AttributeError, TypeError, ValueError):
            raise literals.unwritable(self._columns, positions or range(len(self._columns)), rows) from None

    def _cut(self, head: str, separator: str, texts: Sequence[str], tail: str) -> Iterator[bytes]:
        """One statement, or as many halves as the packets ask for."""
        statement = self._encode(head + separator.join(texts) + tail)
        if len(statement) <= self._packet_bytes:
            yield statement
        elif len(texts) == 1:
            raise self._too_long(statement)
        else:
            half = len(texts) // 2
            yield from self._cut(head, separator, texts[:half], tail)
            yield from self._cut(head, separator, texts[half:], tail)

    def _fitting(self, texts: Iterator[str] | Sequence[str]) -> Iterator[bytes]:
        for text in texts:
            statement = self._encode(text)
            if len(statement) > self._packet_bytes:
                raise self._too_long(statement)
            yield statement

    def _encode(self, statement: str) -> bytes:
        try:
            return statement.encode()
        except UnicodeEncodeError:
            raise Unwritable("a text is not valid Unicode (a lone surrogate)") from None

    def _too_long(self, statement: bytes) -> Unwritable:
        return Unwritable(
            f"a row takes a statement of {len(statement)} bytes, more than the target's max_allowed_packet "
            f"({self._packet_bytes}); raise it there (SET GLOBAL max_allowed_packet=…)"
        )


_FLOATS = frozenset((Kind.FLOAT, Kind.DOUBLE))
_AS_BYTES = frozenset((Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON))


def _as_written(column: Column, target: TargetColumn | None) -> Column:
    """A document is text where the target's column is (always at MariaDB); a text holds whatever PostgreSQL spells."""
    if target is None:
        return column
    document = column.kind is Kind.JSON and target.type != "json"
    spelled = bool(column.type) and column.kind in literals.SPELLED and is_text(target.type)
    return msgspec.structs.replace(column, kind=Kind.TEXT) if document or spelled else column


def _tells_time(column: TargetColumn | None) -> bool:
    return column is not None and column.type.startswith(("timestamp", "datetime"))


def key_index(table: TargetTable) -> str:
    """The name of the unique index over the table's key; '' where there is none."""
    return next((unique.name for unique in table.uniques if unique.columns == table.key), "")


def _is_sole_unique(table: Binding) -> bool:
    """Tell whether the table's only unique index is its key, so that no other row can be hit by a duplicate."""
    uniques = table.target.uniques
    return bool(table.key) and len(uniques) == 1 and uniques[0].columns == table.target.key and not uniques[0].opaque
