"""The SQL that takes a chunk from its staging table into the table that it is for: texts only.

- Rows of the table itself are inserted plainly, so that a clash is an error.  Where the target's rows win,
  `ON DUPLICATE KEY UPDATE` sets a column to what it is: whatever row it hits stays as it is, and unlike INSERT IGNORE
  it passes over nothing else, be it a row without its parent or a value that does not fit.
- Keys come as the log has them; of which kind a value is written follows from the value and the target's column.
- What ran with foreign keys unchecked is looked over by `orphans`: a server does not check later what it has left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from tidelock.adapters.mysql.target.statements import Dialect, TableStatements, identifier, qualified
from tidelock.engine.model.records import Column, Kind, Row, Shape, TableName, Value
from tidelock.engine.model.schema import Binding, ForeignKey, TargetTable, UniqueKey

_NUMBER = re.compile(r"(?:tiny|small|medium|big)?int\b|decimal\b|float\b|double\b")


class KeyStatements:
    """Statements for rows of `table` by their keys alone, or for those that are staged for it in `name`."""

    def __init__(self, table: TargetTable, dialect: Dialect, packet_bytes: int, name: TableName | None = None) -> None:
        self._table = table if name is None else staged_table(table, name)
        self._dialect = dialect
        self._packet_bytes = packet_bytes

    def delete(self, keys: Sequence[Row]) -> Iterator[bytes]:
        """A key that is not there is no error.  Raises Unwritable."""
        for places in self._alike(keys):
            alike = [keys[place] for place in places]
            yield from self._statements(alike[0]).delete(alike)

    def present(self, keys: Sequence[Row]) -> Iterator[tuple[list[int], bytes]]:
        """Queries for the indexes of those that are there, within these places in `keys`.  Raises Unwritable."""
        for places in self._alike(keys):
            alike = [keys[place] for place in places]
            for query in self._statements(alike[0]).present(alike):
                yield places, query

    def _alike(self, keys: Sequence[Row]) -> Iterator[list[int]]:
        groups: defaultdict[tuple[type, ...], list[int]] = defaultdict(list)
        for place, key in enumerate(keys):
            groups[tuple(map(type, key))].append(place)
        yield from groups.values()

    def _statements(self, key: Row) -> TableStatements:
        types = {column.name: column.type for column in self._table.columns}
        columns = tuple(Column(name, _kind(types[name], v)) for name, v in zip(self._table.key, key, strict=True))
        binding = Binding(0, Shape(self._table.name, columns), self._table)
        return TableStatements(binding, self._dialect, self._packet_bytes)


NUMBER = "tide_number"
"""A column of the staging table of a table without a key, and of `Part.numbers`."""


def staged_table(table: TargetTable, name: TableName) -> TargetTable:
    """The one that `adapters.mysql.target.staging` makes for `table`."""
    uniques = (UniqueKey("PRIMARY", table.key),) if table.key else ()
    return replace(table, name=name, uniques=uniques, foreign_keys=(), references=())


def _kind(type_: str, value: Value) -> Kind:
    match value:
        case int():
            return Kind.INT
        case float():
            return Kind.DOUBLE
        case bytes():
            return Kind.BINARY
        case _:
            return Kind.DECIMAL if _NUMBER.match(type_) else Kind.TEXT


class Part(msgspec.Struct, frozen=True):
    """Staged rows with these numbers.  `numbers`: the table that has the number of each key; without a key the staging
    table has them itself."""

    numbers: TableName | None
    first: int
    last: int


class ChunkMergeSql:
    """`columns`: of the staging table `name`, which all are the table's.  `part`: only these rows of it."""

    def __init__(self, name: TableName, columns: Sequence[str], table: TargetTable, part: Part | None = None) -> None:
        self._into = qualified(table.name)
        self._columns = [identifier(column) for column in columns]
        self._key = [identifier(column) for column in table.key]
        self._rows = staged_rows(name, table, part.numbers if part is not None else None)
        self._where = "TRUE" if part is None else f"{NUMBER} BETWEEN {part.first:d} AND {part.last:d}"

    def insert(self) -> bytes:
        """Insert all staged rows; a row that is there is an error."""
        return self._insertion("").encode()

    def insert_beside(self) -> bytes:
        """A row that clashes with one that is there is passed over, and counts all the same."""
        first = (self._key or self._columns)[0]
        return self._insertion(f" ON DUPLICATE KEY UPDATE {self._into}.{first}={self._into}.{first}").encode()

    def update(self) -> bytes:
        """Give rows that are there by key all values of the staged ones."""
        sets = ",".join(f"tide_old.{name}=tide_new.{name}" for name in self._columns)
        join = f"{self._rows} STRAIGHT_JOIN {self._into} tide_old ON {self._same('tide_old')}"
        return f"UPDATE {join} SET {sets} WHERE {self._where}".encode()

    def insert_missing(self) -> bytes:
        """Insert rows that are not there by key."""
        there = f"SELECT 1 FROM {self._into} tide_old WHERE {self._same('tide_old')}"
        return self._insertion(f" AND NOT EXISTS ({there})").encode()

    def delete(self) -> bytes:
        """Delete rows that are there by key."""
        join = f"{self._rows} STRAIGHT_JOIN {self._into} ON {self._same(self._into)}"
        return f"DELETE {self._into} FROM {join} WHERE {self._where}".encode()

    def _insertion(self, ending: str) -> str:
        listed, taken = (",".join(f"{of}{name}" for name in self._columns) for of in ("", "tide_new."))
        return f"INSERT INTO {self._into} ({listed}) SELECT {taken} FROM {self._rows} WHERE {self._where}{ending}"

    def _same(self, other: str) -> str:
        return " AND ".join(f"{other}.{name}=tide_new.{name}" for name in self._key)


def staged_rows(name: TableName, table: TargetTable, numbers: TableName | None, alias: str = "tide_new") -> str:
    """The staged rows as a relation, joined to their `numbers` where these are a table of their own.  `alias`: '' where
    the rows are deleted, as an alias after DELETE belongs to the session's database, and ours has none."""
    if numbers is None:
        return f"{qualified(name)} {alias}"
    called = alias or qualified(name)
    same = " AND ".join(f"{called}.{key}=tide_numbers.{key}" for key in map(identifier, table.key))
    return f"{qualified(numbers)} tide_numbers STRAIGHT_JOIN {qualified(name)} {alias} ON {same}"


def orphans(key: ForeignKey) -> bytes:
    """A query for one row that breaks the foreign key, if there is any."""
    pairs = [(identifier(c), identifier(p)) for c, p in zip(key.columns, key.parent_columns, strict=True)]
    join = " AND ".join(f"tide_parent.{parent}=tide_child.{child}" for child, parent in pairs)
    given = " AND ".join(f"tide_child.{child} IS NOT NULL" for child, _ in pairs)
    return (
        f"SELECT 1 FROM {qualified(key.child)} tide_child WHERE {given} AND NOT EXISTS "
        f"(SELECT 1 FROM {qualified(key.parent)} tide_parent WHERE {join}) LIMIT 1"
    ).encode()
