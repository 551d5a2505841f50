"""Maps the type of a source column to a type of a target that holds its values (design 9), for making tables."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from tidelock.engine.model.records import Column, Kind

_BOUND = re.compile(r"\(([^()]*)\)")
_COMMENT = re.compile(r"\s*/\*.*?\*/")
POSTGRES_INTEGERS = {"smallint": 2, "integer": 4, "bigint": 8}
MYSQL_INTEGERS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_POSTGRES_PLAIN = {
    Kind.YEAR: "smallint",
    Kind.FLOAT: "real",
    Kind.DOUBLE: "double precision",
    Kind.DATE: "date",
    Kind.TIME: "interval",
    Kind.BINARY: "bytea",
    Kind.ENUM: "text",
    Kind.SET: "text",
    Kind.JSON: "jsonb",
    Kind.GEOMETRY: "bytea",
    Kind.VECTOR: "bytea",
    Kind.UUID: "uuid",
    Kind.INET4: "inet",
    Kind.INET6: "inet",
    Kind.BOOL: "boolean",
    Kind.OTHER: "text",
}
_POSTGRES_NAMES = {
    "varchar": "character varying", "timestamptz": "timestamp with time zone", "decimal": "numeric",
    "timestamp": "timestamp without time zone",
}  # fmt: skip
CHARACTERS = {Kind.DATE: 10, Kind.DATETIME: 19, Kind.TIMESTAMP: 19, Kind.TIME: 10, Kind.YEAR: 4} | {
    Kind.UUID: 36,
    Kind.INET4: 15,
    Kind.INET6: 45,
}


LABEL_CHARACTERS = 63
"""Bytes that a label of a PostgreSQL enum has at most."""
MOST_DIGITS, MOST_SCALE = 65, 30
"""Digits that a DECIMAL of MySQL and MariaDB has at most, and those behind the point."""
# Longest texts of PostgreSQL's types that have one; what is not here has none.
OTHER_CHARACTERS = {
    "inet": 43, "cidr": 43, "macaddr": 17, "macaddr8": 23, "money": 27, "pg_lsn": 17, "xid": 10, "xid8": 20, "cid": 10,
    "time with time zone": 24, "interval": 128, "int4range": 25, "int8range": 43, '"char"': 4, "tid": 18,
}  # fmt: skip


class Type(NamedTuple):
    """A type as the target spells it, taken apart: `numeric(10,2)` is ("numeric", (10, 2))."""

    base: str
    numbers: tuple[int, ...]
    unsigned: bool

    @classmethod
    @functools.lru_cache(maxsize=1024)  # thousands of tables share a few types
    def of(cls, text: str) -> Type:
        """Parses a type."""
        found = _BOUND.search(text)
        numbers = tuple(int(n) for n in found[1].split(",")) if found and re.fullmatch(r"[\d,\s-]+", found[1]) else ()
        bare = " ".join(_BOUND.sub("", text).split())
        unsigned = " unsigned" in bare
        return cls(re.sub(r" (unsigned|zerofill|signed)\b", "", bare).strip(), numbers, unsigned)

    def first(self, default: int) -> int:
        """Returns the first number of the type, or `default`."""
        return self.numbers[0] if self.numbers else default


def same_postgres_type(one: str, other: str) -> bool:
    """Tells whether two spellings are of one type of PostgreSQL."""
    return _postgres_name(one) == _postgres_name(other)


def _postgres_name(text: str) -> tuple[str, tuple[int, ...]]:
    """Returns a type's name, as PostgreSQL's catalogue has it, and its numbers."""
    type_ = Type.of(text)
    numbers = (*type_.numbers, 0) if type_.base in ("numeric", "decimal") and len(type_.numbers) == 1 else type_.numbers
    return _POSTGRES_NAMES.get(type_.base, type_.base), numbers


def postgres_type(column: Column) -> str:
    """Returns the type for CREATE TABLE in PostgreSQL: its own, of a column of a PostgreSQL source."""
    if column.type:
        return column.type
    match column.kind:
        case Kind.INT:
            return _postgres_integer(column)
        case Kind.BIT:
            return "boolean" if column.length == 1 else f"bit({column.length})"
        case Kind.DECIMAL:
            return f"numeric({column.precision},{column.scale})"
        case Kind.DATETIME:
            return f"timestamp({column.scale})"
        case Kind.TIMESTAMP:
            return f"timestamptz({column.scale})"
        case Kind.TEXT:
            return f"varchar({column.length})" if column.length else "text"
        case kind:
            return _POSTGRES_PLAIN[kind]


def _postgres_integer(column: Column) -> str:
    low, high = integer_range(column)
    for name, size in POSTGRES_INTEGERS.items():
        if -(1 << 8 * size - 1) <= low and high < 1 << 8 * size - 1:
            return name
    return "numeric(20)"


def mysql_type(column: Column) -> str:
    """Returns the type for CREATE TABLE in MySQL and MariaDB where the source's own spelling is not theirs."""
    unsigned = " unsigned" if column.unsigned else ""
    if column.type and (own := _of_postgres(column)):
        return own
    match column.kind:
        case Kind.INT:
            return next(n for n, size in MYSQL_INTEGERS.items() if size == column.length) + unsigned
        case Kind.BIT:
            return f"bit({column.length})"
        case Kind.DECIMAL:
            return f"decimal({column.precision},{column.scale}){unsigned}"
        case Kind.DATETIME | Kind.TIMESTAMP | Kind.TIME:
            return column.kind.value + (f"({column.scale})" if column.scale else "")
        case Kind.TEXT:
            return f"varchar({column.length})" if 0 < column.length <= 16_000 else "longtext"
        case Kind.BINARY:
            return f"varbinary({column.length})" if 0 < column.length <= 60_000 else "longblob"
        case Kind.ENUM | Kind.SET:
            return f"{column.kind.value}({','.join(quoted(label) for label in column.labels)})"
        case Kind.UUID:
            return "char(36)"
        case Kind.INET4 | Kind.INET6:
            return f"varchar({CHARACTERS[column.kind]})"
        case Kind.VECTOR:
            return "longblob"
        case Kind.FLOAT | Kind.DOUBLE:
            return column.kind.value + unsigned
        case _:
            return column.kind.value


def _of_postgres(column: Column) -> str:
    """Returns the type for a column of a PostgreSQL source where it is not that of its kind; '' where it is.

    TIMESTAMP ends in 2038 there.  PostgreSQL pads char(n) of any length, and json keeps its text.  A label that is
    added to an enum is not in the log, so texts are what holds labels.
    """
    match column.kind:
        case Kind.TIMESTAMP:
            return f"datetime({column.scale})" if column.scale else "datetime"
        case Kind.DECIMAL if column.precision > MOST_DIGITS or column.scale > MOST_SCALE:
            return "longtext"
        case Kind.TEXT if column.type.startswith("character(") and column.length <= 255:
            return f"char({column.length})"
        case Kind.ENUM:
            return f"varchar({LABEL_CHARACTERS})"
        case Kind.JSON if column.type == "json":
            return "longtext"
        case Kind.BOOL:
            return "tinyint(1)"
        case Kind.OTHER:
            longest = other_characters(column)
            return f"varchar({longest})" if longest else "longtext"
        case _:
            return ""


def is_text(type_: str) -> bool:
    """Returns whether a type of MySQL and MariaDB holds texts."""
    return type_.startswith(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"))


def other_characters(column: Column) -> int:
    """Returns the longest text of an OTHER, in characters; 0: any."""
    bare = _BOUND.sub("", column.type)
    return OTHER_CHARACTERS["interval"] if bare.startswith("interval") else OTHER_CHARACTERS.get(bare, 0)


def without_comments(type_: str) -> str:
    """Returns COLUMN_TYPE without MariaDB's comment that a column is COMPRESSED, which changes no value."""
    return _COMMENT.sub("", type_)


def quoted(text: str) -> str:
    """Returns a string literal of either dialect; MySQL reads it so with NO_BACKSLASH_ESCAPES or without a backslash in
    it.
    """
    return "'" + text.replace("'", "''") + "'"


def integer_range(column: Column) -> tuple[int, int]:
    """Returns the smallest and largest value of an INT, YEAR, BIT or BOOL."""
    match column.kind:
        case Kind.YEAR:
            return 0, 2155
        case Kind.BOOL:
            return 0, 1
        case Kind.BIT:
            return 0, (1 << column.length) - 1
    bits = 8 * column.length
    return (0, (1 << bits) - 1) if column.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
