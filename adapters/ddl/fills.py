"""Values that a column which is added gets in rows that are there: literals that all servers read as the same value."""

from __future__ import annotations

import datetime
import re
import struct
from fractions import Fraction

from tidelock.adapters.ddl.lexer import NotPlain
from tidelock.engine.model.records import Column, Kind

_NUMBER = re.compile(r"-?\d{1,15}(\.\d+)?")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d) ([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.(\d{1,6}))?")
_DIGITS = 15
"""Digits of which each number has a DOUBLE of its own."""
_FIRST_YEAR, _LAST_YEAR, _FIRST_DAY = 1901, 2155, "1000-01-01"


def implicit(column: Column) -> str:
    """Returns what MySQL puts into existing rows for NOT NULL without a default."""
    match column.kind:
        case Kind.INT | Kind.DECIMAL | Kind.FLOAT | Kind.DOUBLE:
            return "0"
        case Kind.TEXT:
            return ""
        case Kind.ENUM if column.labels:
            return column.labels[0]
    raise NotPlain(f"column {column.name} is NOT NULL and has no default")


def check_fill(column: Column, fill: str) -> None:
    """Checks that all servers read the literal as the same value."""
    match column.kind:
        case Kind.INT:
            plain = fill.removeprefix("-").isdigit()
        case Kind.DECIMAL:
            whole, _, part = fill.removeprefix("-").partition(".")
            plain = (whole + part).isdigit() and len(part) <= column.scale
        case Kind.FLOAT:
            plain = _is_short(column, fill) and _is_single(fill)
        case Kind.DOUBLE:
            plain = _is_short(column, fill)
        case Kind.TEXT:
            plain = fill.isascii() and fill.rstrip(" ") == fill
        case Kind.ENUM:
            plain = fill in column.labels
        case Kind.SET:
            plain = fill in column.labels and fill != ""
        case Kind.YEAR:
            plain = fill.isdigit() and _FIRST_YEAR <= int(fill) <= _LAST_YEAR
        case Kind.DATE:
            plain = _DAY.fullmatch(fill) is not None and _is_day(fill)
        case Kind.DATETIME:
            found = _MOMENT.fullmatch(fill)
            plain = found is not None and _is_day(found[1]) and len(found[3] or "") <= column.scale
        case _:
            plain = False
    if not plain:
        raise NotPlain(f"the default of column {column.name}")


def _is_short(column: Column, fill: str) -> bool:
    """Tells whether a number is a DOUBLE of its own, also when it is rounded to the digits of the column."""
    whole, _, part = fill.removeprefix("-").partition(".")
    if _NUMBER.fullmatch(fill) is None or len((whole + part).lstrip("0")) > _DIGITS:
        return False
    return not column.precision or len(part) <= column.scale


def _is_single(fill: str) -> bool:
    """Tells whether a FLOAT holds exactly this number."""
    return Fraction(fill) == Fraction(struct.unpack("f", struct.pack("f", float(fill)))[0])


def _is_day(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return text >= _FIRST_DAY
