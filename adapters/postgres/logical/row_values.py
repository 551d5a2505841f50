"""Values of a row: from PostgreSQL's text to the one form that each `Kind` has (`engine.model.records`).

Texts are those of a session with `column_types.OUTPUT_SETTINGS`; one that such a session does not write is a
ValueError, never a guess.  What a kind cannot hold stays PostgreSQL's own text.  `code` says what the compiled form of
this (`row_decoder.pyx`) needs to know of a column.
"""

from __future__ import annotations

import math
from binascii import unhexlify
from collections.abc import Callable
from fractions import Fraction
from re import compile as pattern
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from tidelock.adapters.postgres.column_types import is_padded
from tidelock.engine.model.records import Column, Kind, Value

Reading: TypeAlias = Callable[[bytes], Value]

TEXT, ASCII, PADDED, INT, BOOL, FLOAT, DOUBLE, BINARY, BIT, MOMENT, ZONED = range(11)


class Code(NamedTuple):
    """How a column's text is read.  `base`: characters of a moment before its fraction; `scale`: digits of that."""

    form: int
    base: int = 0
    scale: int = 0


_FORMS: Final = {
    Kind.INT: INT,
    Kind.BOOL: BOOL,
    Kind.FLOAT: FLOAT,
    Kind.DOUBLE: DOUBLE,
    Kind.BINARY: BINARY,
    Kind.BIT: BIT,
    Kind.DECIMAL: ASCII,
    Kind.DATE: ASCII,
    Kind.UUID: ASCII,
}
_DATE_TIME, _TIME = len("2026-11-25 10:00:00"), len("10:00:00")
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_NOT_FINITE: Final = (b"NaN", b"Infinity", b"-Infinity")
_NUMBER: Final = pattern(rb"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?").fullmatch
_SINGLE: Final = Struct("<f")


def code(column: Column) -> Code:
    """Returns how the texts of a column are read."""
    match column.kind:
        case Kind.DATETIME:
            return Code(MOMENT, _DATE_TIME, column.scale)
        case Kind.TIMESTAMP:
            return Code(ZONED, _DATE_TIME, column.scale)
        case Kind.TIME:
            return Code(MOMENT, _TIME, column.scale)
        case _:
            return Code(PADDED if is_padded(column) else _FORMS.get(column.kind, TEXT))


def reading(code: Code) -> Reading:
    """Returns what makes a value of a text.  It raises ValueError."""
    if code.form == MOMENT:
        return lambda text: _moment(text, code)
    if code.form == ZONED:
        return lambda text: _zoned(text, code)
    return _READINGS[code.form]


def _text(text: bytes) -> str | bytes:
    try:
        return text.decode()
    except UnicodeDecodeError:  # a database without an encoding
        return text


def _padded(text: bytes) -> str | bytes:
    return _text(text.rstrip(b" "))


def _ascii(text: bytes) -> str:
    return text.decode("ascii")


def _int(text: bytes) -> int:
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 19 or not _LEAST <= (value := int(text)) <= _MOST:
        raise ValueError("no whole number")
    return value


def _bool(text: bytes) -> int:
    if text == b"t":
        return 1
    if text == b"f":
        return 0
    raise ValueError("no boolean")


def _double(text: bytes) -> float | str:
    if text in _NOT_FINITE:
        return text.decode()
    if not _NUMBER(text) or math.isinf(value := float(text)):
        raise ValueError("no number")
    return value


def _float(text: bytes) -> float | str:
    value = _double(text)
    return value if isinstance(value, str) else single(text, value)


def single(text: bytes, value: float) -> float:
    """Returns the 32-bit number next to a text, widened; `value`: the 64-bit number next to it.

    Rounding twice is wrong where the first step ends in the middle between two 32-bit numbers: the text decides then.
    """
    try:
        near: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
        other = value + (value - near)
        if near == value or _SINGLE.unpack(_SINGLE.pack(other))[0] != other:
            return near
    except OverflowError:
        raise ValueError("no 32-bit number") from None
    exact = Fraction(text.decode())
    if exact == Fraction(value):
        return near
    return max(near, other) if exact > Fraction(value) else min(near, other)


def _binary(text: bytes) -> bytes:
    if text[:2] != b"\\x":
        raise ValueError("bytes that are not in hexadecimal digits")
    return unhexlify(text[2:])


def _bit(text: bytes) -> int:
    if not text or len(text) > 64 or text.strip(b"01"):
        raise ValueError("no bits")
    return int(text, 2)


def _moment(text: bytes, code: Code) -> str:
    """A moment of a year from 1 to 9999 gets all digits of its fraction; what else there is stays as it is."""
    base, scale = code.base, code.scale
    fraction = text[base:]
    plain = len(text) >= base and text[base - 3 : base - 2] == b":" and (base == _TIME or text[4:5] == b"-")
    if not plain or (fraction and not (fraction[:1] == b"." and fraction[1:].isdigit())):
        return text.decode("ascii")
    if len(fraction) > scale + 1 or (fraction and not scale):
        raise ValueError("a moment with more digits than its column has")
    if scale:
        text = (text if fraction else text + b".") + b"0" * (scale - max(len(fraction) - 1, 0))
    return text.decode("ascii")


def _zoned(text: bytes, code: Code) -> str:
    if text.endswith(b"+00"):
        moment = _moment(text[:-3], code)
        return moment if text[4:5] == b"-" else text.decode("ascii")
    if not text.endswith((b"infinity", b"+00 BC")):
        raise ValueError("a moment of another time zone than UTC")
    return text.decode("ascii")


_READINGS: Final[dict[int, Reading]] = {
    TEXT: _text, ASCII: _ascii, PADDED: _padded, INT: _int, BOOL: _bool, FLOAT: _float, DOUBLE: _double,
    BINARY: _binary, BIT: _bit,
}  # fmt: skip
