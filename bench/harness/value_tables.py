"""Tables that hold the values of `bench.harness.values`, and what becomes of their rows in two rounds.

Changes of one row go in two rounds, each replicated for itself: in one they would be merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from bench.harness.session import Flavor
from bench.harness.values import ColumnValues

LARGE_BYTES = 17 << 20  # more than the 16 MiB of one packet of the protocol


class Part(Protocol):
    """Statements for the source."""

    @property
    def ddl(self) -> list[str]: ...

    def before(self) -> Iterator[str]:
        """The first round."""

    def after(self) -> Iterator[str]:
        """The second."""


class Cell(NamedTuple):
    """One value of one column; `number` makes the ids of its rows; `reason`: why the target refuses it, or ''."""

    number: int
    column: str
    sql: str
    reason: str


def cells(columns: list[ColumnValues], target: Flavor) -> list[Cell]:
    pairs = ((column.name, value) for column in columns for value in column.values)
    return [Cell(number, name, value.sql, value.reason(target)) for number, (name, value) in enumerate(pairs)]


class Keyed:
    """A row a value, all other columns NULL.  `id`: the number, and thousands by what becomes of the row.

    A value that is refused makes fewer changes, as finding each among the others takes many transactions.
    """

    ARRIVES, LEAVES, GOES, NOTED, MOVES, MOVED = range(0, 6000, 1000)
    CHANGES = 5  # of one value that is refused: they are all parked

    def __init__(self, columns: list[ColumnValues], target: Flavor) -> None:
        self.cells = cells(columns, target)
        lines = "".join(f", {c.name} {c.type} NULL" for c in columns)
        self.ddl = [f"CREATE TABLE keyed (id int PRIMARY KEY, note int{lines})"]

    def before(self) -> Iterator[str]:
        for number, column, value, reason in self.cells:
            yield f"INSERT INTO keyed (id) VALUES ({self.ARRIVES + number})"
            for kind in (self.LEAVES, self.GOES, *(() if reason else (self.NOTED, self.MOVES))):
                yield f"INSERT INTO keyed (id, {column}) VALUES ({kind + number}, {value})"

    def after(self) -> Iterator[str]:
        for number, column, value, _ in self.cells:
            yield f"UPDATE keyed SET {column} = {value} WHERE id = {self.ARRIVES + number}"
            yield f"UPDATE keyed SET {column} = NULL WHERE id = {self.LEAVES + number}"
            yield f"DELETE FROM keyed WHERE id = {self.GOES + number}"
            yield f"UPDATE keyed SET note = 1 WHERE id = {self.NOTED + number}"
            yield f"UPDATE keyed SET id = {self.MOVED + number} WHERE id = {self.MOVES + number}"


class Keyless:
    """The same, but a row is found by all its values.  `n`: ten times the number, and what becomes of the row."""

    CHANGED, GOES, TWICE, AFTER = range(4)
    CHANGES = 2

    def __init__(self, columns: list[ColumnValues], target: Flavor) -> None:
        self.cells = cells(columns, target)
        self.ddl = [f"CREATE TABLE keyless (n int{''.join(f', {c.name} {c.type} NULL' for c in columns)})"]

    def before(self) -> Iterator[str]:
        for number, column, value, reason in self.cells:
            for kind in (self.CHANGED,) if reason else (self.CHANGED, self.GOES, self.TWICE, self.TWICE):
                yield f"INSERT INTO keyless (n, {column}) VALUES ({10 * number + kind}, {value})"

    def after(self) -> Iterator[str]:
        for number, *_ in self.cells:
            n = 10 * number
            yield f"UPDATE keyless SET n = {n + self.AFTER} WHERE n = {n + self.CHANGED}"
            yield f"DELETE FROM keyless WHERE n = {n + self.GOES}"
            yield f"DELETE FROM keyless WHERE n = {n + self.TWICE} LIMIT 1"


class Keys:
    """A table a column, the value its primary key `v`; `n`: the number of the value, and 100 in the second round."""

    CHANGES = 2

    def __init__(self, columns: list[ColumnValues]) -> None:
        self.columns = [column for column in columns if column.key]
        self.ddl = [f"CREATE TABLE {c.name} (v {c.type} NOT NULL PRIMARY KEY, n int)" for c in self.columns]

    def before(self) -> Iterator[str]:
        """IGNORE: `-0.0` is the same key as `0`."""
        for column in self.columns:
            for n, value in enumerate(column.values):
                yield f"INSERT IGNORE INTO {column.name} VALUES ({value.sql}, {n})"

    def after(self) -> Iterator[str]:
        """Each key is found again; the first is freed, and taken by the second's row."""
        for column in self.columns:
            yield f"UPDATE {column.name} SET n = n + 100"
            yield f"DELETE FROM {column.name} WHERE n = 100"
            yield f"UPDATE {column.name} SET v = {column.values[0].sql} WHERE n = 101"


class WideKeys:
    """Tables `k0`, `k1`, … whose keys are a number `n` and ten columns of other kinds; row `n` has a value of each, and
    0 in `v`."""

    WIDTH = 10

    def __init__(self, columns: list[ColumnValues]) -> None:
        keys = [column for column in columns if column.key]
        self._groups = [keys[start : start + self.WIDTH] for start in range(0, len(keys), self.WIDTH)]
        self.tables = [f"k{number}" for number in range(len(self._groups))]

    @property
    def ddl(self) -> list[str]:
        return [self._ddl(table, group) for table, group in zip(self.tables, self._groups, strict=True)]

    def _ddl(self, table: str, group: list[ColumnValues]) -> str:
        typed = ", ".join(f"{column.name} {column.type} NOT NULL" for column in group)
        return f"CREATE TABLE {table} (n int, {typed}, v int, PRIMARY KEY (n, {', '.join(c.name for c in group)}))"

    def before(self) -> Iterator[str]:
        for table, group in zip(self.tables, self._groups, strict=True):
            for n in range(max(len(column.values) for column in group)):
                values = ", ".join(column.values[n % len(column.values)].sql for column in group)
                yield f"INSERT INTO {table} VALUES ({n}, {values}, 0)"


class Long:
    """The longest texts and bytes of a column, a value beyond one packet of the protocol, a thousand columns."""

    tables = ("longest", "longest_latin1", "large", "thousand")
    _TYPES = ("smallint", "varchar(3)", "tinyint unsigned", "int", "decimal(4,2)", "date")
    _VALUES = ("-32768", "'abc'", "255", "2147483647", "'-99.99'", "'2024-02-29'")

    def __init__(self) -> None:
        columns = ", ".join(f"c{n} {self._TYPES[n % 6]}" for n in range(999))
        self.ddl = [
            "CREATE TABLE longest (id int PRIMARY KEY, v varchar(16379))",
            "CREATE TABLE longest_latin1 (id int PRIMARY KEY, v varchar(65526) character set latin1)",
            "CREATE TABLE large (id int PRIMARY KEY, t longtext, b longblob)",
            f"CREATE TABLE thousand (id int PRIMARY KEY, {columns})",
        ]

    def before(self) -> Iterator[str]:
        yield "INSERT INTO longest VALUES (1, REPEAT('😀', 16379)), (2, ''), (3, REPEAT('é', 16379))"
        yield "INSERT INTO longest_latin1 VALUES (1, REPEAT('é', 65526)), (2, NULL)"
        yield f"INSERT INTO large VALUES (1, NULL, {_large(1)}), (2, REPEAT('é''', 1000000), x''), (3, '', NULL)"
        for row in range(3):
            values = ", ".join(self._VALUES[n % 6] if (n + row) % 4 else "NULL" for n in range(999))
            yield f"INSERT INTO thousand VALUES ({row}, {values})"

    def after(self) -> Iterator[str]:
        yield "UPDATE longest SET v = REPEAT('ñ', 16379) WHERE id = 2"
        yield "DELETE FROM longest WHERE id = 3"
        yield "UPDATE longest_latin1 SET v = REPEAT('ÿ', 65526)"
        yield f"UPDATE large SET b = {_large(2)} WHERE id = 3"
        yield "UPDATE large SET t = CONCAT(t, REPEAT('日', 1000000)) WHERE id = 2"
        yield "DELETE FROM large WHERE id = 1"
        yield "UPDATE thousand SET c0 = 7, c500 = NULL, c998 = NULL WHERE id = 1"
        yield "DELETE FROM thousand WHERE id = 2"


def _large(last: int) -> str:
    return f"CONCAT(REPEAT(x'00ff5c27', {LARGE_BYTES // 4}), x'0{last}')"


class Named:
    """Names that must be quoted, in a database of such a name."""

    tables = ("select", "Order", "order", 'It\'s "quoted" `so`', "日本 tablé", "dotted.name", "100%s", "back\\slash")
    columns = ("group", "Upper Case", "ünï", "o'clock", '"q"', "back`tick", "a\\b", "%s", "{x}", "$1", "a,b", "(c)")

    def __init__(self, suffix: str) -> None:
        self.schema = f'Tide "Ünï" select\'s {suffix}'
        columns = ", ".join(f"{_tick(column)} varchar(20)" for column in self.columns)
        self.ddl = [f"CREATE DATABASE {_tick(self.schema)}"] + [
            f"CREATE TABLE {self._place(table)} (`primary` int, `KEY` int, {columns}, PRIMARY KEY (`KEY`, `primary`))"
            for table in self.tables
        ]

    def _place(self, table: str) -> str:
        return f"{_tick(self.schema)}.{_tick(table)}"

    def before(self) -> Iterator[str]:
        for table in self.tables:
            for row in range(4):
                values = ", ".join(f"'{row}.{n}'" for n in range(len(self.columns)))
                yield f"INSERT INTO {self._place(table)} VALUES ({row}, {row}, {values})"

    def after(self) -> Iterator[str]:
        sets = ", ".join(f"{_tick(column)} = 'new'" for column in self.columns)
        for table in self.tables:
            yield f"UPDATE {self._place(table)} SET {sets} WHERE `KEY` = 1"
            yield f"UPDATE {self._place(table)} SET `KEY` = 9 WHERE `KEY` = 2"
            yield f"DELETE FROM {self._place(table)} WHERE `KEY` = 3"

    def expected(self) -> list[tuple[str, ...]]:
        """The rows of each table after both rounds, by `KEY`; `primary` and `KEY` first."""
        width = range(len(self.columns))
        return [
            ("0", "0", *(f"0.{n}" for n in width)),
            ("1", "1", *("new" for _ in width)),
            ("2", "9", *(f"2.{n}" for n in width)),
        ]


def _tick(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
