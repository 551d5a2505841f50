"""The key of a row: back from how verify shows it to the value that the log holds, and as SQL for either server.

A key is spelled in three ways.  A server's text in its form (`adapters.spark.comparable_values`) is what rows are
compared and reported by.  The canonical value (`engine.model.records`) is what the log has, and what `tidelock_wanted`
takes.  A literal of a server's dialect finds the row by its index.  From the form the canonical value follows, as the
source's column says how many digits it has; where it does not (an interval of months, a number that is none), no row of
the source can have that key, and there is no other way to the row than its bucket.

A predicate may hold for more rows than those of its keys, as a server's collation decides, never for fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.mysql.target import literals as mysql
from tidelock.adapters.postgres.target import literals as postgres
from tidelock.adapters.postgres.target.values import Unwritable, renderer
from tidelock.adapters.schema.log_spelling import NotSpelled, spelled
from tidelock.adapters.spark.comparable_values import Form
from tidelock.engine.model.records import Column, Kind, Row, Value

MOST_SINGLE: Final = 5_000
MOST_WIDE: Final = 1_000
_BYTES: Final = (Kind.BINARY, Kind.GEOMETRY, Kind.VECTOR)
_WORDS: Final = (Kind.TEXT, Kind.ENUM, Kind.SET)


class SideColumn(msgspec.Struct, frozen=True):
    """A column at one server.  `name`, `type`: as it is there; `column`: as the source's log has it."""

    name: str
    type: str
    column: Column


class NoSuchKey(ValueError):
    """No row of the source can have this key, or it cannot be written: `args[0]` says which column and why."""


def canonical(form: Form, column: Column, shown: Any) -> Value:
    """Returns the value of the log.  `shown`: as `forms.shown` has it, complete.  Raises NoSuchKey."""
    if shown is None:
        raise NoSuchKey(f"column {column.name} is NULL")
    if column.kind is Kind.JSON:
        raise NoSuchKey(f"column {column.name} is JSON, which is no key")
    try:
        return _canonical(form, column, shown)
    except NotSpelled as error:
        raise NoSuchKey(str(error)) from None
    except (ValueError, UnicodeError):
        raise NoSuchKey(f"column {column.name}: {shown!r} is no {column.kind}") from None


def _canonical(form: Form, column: Column, shown: Any) -> Value:
    match form:
        case Form.BITS:
            return int(shown, 2)
        case Form.BYTES if column.kind in _BYTES:
            return bytes.fromhex(shown)
        case Form.BYTES:
            shown = bytes.fromhex(shown).decode()
    return spelled(column, shown)


def predicates(dialect: Dialect, columns: Sequence[SideColumn], names: Sequence[str], keys: Sequence[Row]) -> list[str]:
    """Returns SQL that together holds for the rows of these keys.  `names`: of the columns there.

    A key that the server cannot write is left out: it cannot hold it either.
    """
    most = MOST_SINGLE if len(columns) == 1 else MOST_WIDE
    return [_one_of(dialect, names, _literals(dialect, columns, part)) for part in _parts(keys, most)]


def _parts(keys: Sequence[Row], most: int) -> Iterator[Sequence[Row]]:
    for start in range(0, len(keys), most):
        yield keys[start : start + most]


def _one_of(dialect: Dialect, names: Sequence[str], rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return "1 = 0"
    if len(names) == 1:
        return f"{names[0]} IN ({', '.join(row[0] for row in rows)})"
    if dialect == "postgres":
        return f"{_tuple(names)} IN ({', '.join(map(_tuple, rows))})"
    # MariaDB reads a range of its index for these, and none for a list of rows.
    same = (" AND ".join(f"{name} = {value}" for name, value in zip(names, row, strict=True)) for row in rows)
    return " OR ".join(f"({one})" for one in same)


def _tuple(row: Sequence[str]) -> str:
    return f"({', '.join(row)})"


def _literals(dialect: Dialect, columns: Sequence[SideColumn], keys: Sequence[Row]) -> list[tuple[str, ...]]:
    """Returns a literal for each value, by rows."""
    written = _postgres if dialect == "postgres" else _mysql
    try:
        values = zip(*keys, strict=True)
        by_column = [written(column, list(of)) for column, of in zip(columns, values, strict=True)]
        return list(zip(*by_column, strict=True))
    except (Unwritable, mysql.Unwritable, UnicodeError):
        return [row for key in keys for row in _literals(dialect, columns, [key])] if len(keys) > 1 else []


def _postgres(column: SideColumn, values: Sequence[Value]) -> list[str]:
    return postgres.elements(column.name, renderer(column.column, column.type, "dead_letter")(values))


def _mysql(column: SideColumn, values: Sequence[Value]) -> list[str]:
    if column.column.kind in _WORDS:
        return [_word(column.column, value) for value in values]
    return [mysql.one(column.column, value, compare=True) for value in values]


def _word(column: Column, value: Value) -> str:
    """Returns a text, or bytes where it does not decode in the column's charset."""
    if isinstance(value, bytes):
        return f"_{column.charset} {mysql.blob(value)}"
    return f"_utf8mb4 {mysql.blob(value.encode())}"
