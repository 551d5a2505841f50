"""Translates the default of a column for CREATE TABLE at a target; what would give another value there is refused."""

from __future__ import annotations

import re
from typing import Final

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ports.definition import Default
from tidelock.adapters.schema.create_table import column_type
from tidelock.adapters.schema.not_translated import NotTranslated
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.schema.type_map import quoted
from tidelock.engine.model.records import Kind

_NUMBERS: Final = (Kind.INT, Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE, Kind.YEAR)
_TEXTS: Final = (Kind.TEXT, Kind.ENUM, Kind.SET, Kind.UUID, Kind.INET4, Kind.INET6, Kind.JSON)
_TIMES: Final = (Kind.DATE, Kind.DATETIME, Kind.TIME)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_NOW: Final = re.compile(r"(?:current_timestamp|now|localtimestamp)(?:\((\d*)\))?", re.IGNORECASE)
_TODAY: Final = re.compile(r"\(?(?:current_date|curdate\(\))(?:\(\))?\)?", re.IGNORECASE)
_INTRODUCED: Final = re.compile(r"_(?:utf8mb4|utf8mb3|latin1|ascii)'((?:[^'\\\\]|'')*)'")
_LONG: Final = ("text", "blob", "json", "geometry")
"""Ends of types of MySQL that take a default only as an expression."""


def same_server(column: SourceColumn, default: Default, dialect: Dialect) -> str:
    """Returns the text behind DEFAULT at a server of the source's own kind."""
    if dialect == "postgres":
        return default.expression
    if default.value is None:
        return default.expression if _NOW.fullmatch(default.expression) else f"({default.expression})"
    return _literal(column, default.value, dialect)


def translated(column: SourceColumn, default: Default, source: Dialect, target: Dialect) -> str:
    """Returns the text behind DEFAULT at another kind of server.  Raises NotTranslated."""
    if default.value is not None:
        return _literal(column, default.value, target)
    text, kind = default.expression, column.column.kind
    if found := _NOW.fullmatch(text):
        return _now(column, found[1] or "", source, target)
    if _TODAY.fullmatch(text) and kind is Kind.DATE:
        return "CURRENT_DATE" if target == "postgres" else "(curdate())"
    if found := _INTRODUCED.fullmatch(text):
        return _literal(column, found[1].replace("''", "'"), target)
    raise NotTranslated(f"the default {text} is not known to mean the same there")


def _now(column: SourceColumn, digits: str, source: Dialect, target: Dialect) -> str:
    """Returns the time of now: in UTC, where a time has no zone at the target and has one at the source.  MySQL wants
    as many digits as the column has.
    """
    if target == "mysql":
        bound = f"({column.column.scale})" if column.column.scale else ""
    else:
        bound = f"({digits})" if digits else "(0)" if source == "mysql" else ""
    match column.column.kind, target:
        case Kind.TIMESTAMP, "postgres":
            return f"CURRENT_TIMESTAMP{bound}"
        case Kind.DATETIME, "postgres":
            return f"LOCALTIMESTAMP{bound}"
        case Kind.TIMESTAMP, "mysql":
            return f"(utc_timestamp{bound or '()'})" if source == "postgres" else f"CURRENT_TIMESTAMP{bound}"
        case Kind.DATETIME, "mysql":
            return f"CURRENT_TIMESTAMP{bound}"
    raise NotTranslated("the time of now in a column of another type")


def _literal(column: SourceColumn, value: str, target: Dialect) -> str:
    """Returns a literal of the column's type.  Raises NotTranslated."""
    kind = column.column.kind
    if kind in _NUMBERS and _NUMBER.fullmatch(value):
        return value
    if kind in (Kind.BOOL, Kind.BIT):
        return _truth(column, value, target)
    if "\\" in value or "\0" in value:
        raise NotTranslated("a text with a backslash is read in different ways")
    if kind in _TIMES and (target == "mysql" or not value.startswith("0000")):
        return quoted(value)
    if kind in _TEXTS or (kind is Kind.OTHER and target == "postgres"):
        long = target == "mysql" and column_type(column, target).split(" ")[0].endswith(_LONG)
        return f"({quoted(value)})" if long else quoted(value)
    raise NotTranslated(f"the default {value!r} of a {kind.value}")


def _truth(column: SourceColumn, value: str, target: Dialect) -> str:
    if column.column.kind is Kind.BIT and column.column.length != 1:
        bits = value if set(value) <= {"0", "1"} and column.column.type else f"{int(value):b}"
        return f"B'{bits.zfill(column.column.length)}'" if target == "postgres" else f"b'{bits}'"
    truth = value in ("1", "true")
    if target == "postgres":
        return "true" if truth else "false"
    return ("b'1'" if truth else "b'0'") if column.column.kind is Kind.BIT else str(int(truth))
