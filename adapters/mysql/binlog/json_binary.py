"""MySQL's binary JSON as the text that MySQL itself prints for it.

A document is a type byte and a value.  Objects and arrays begin with their count and size (2 bytes each, or 4 in the
large form), then entries that hold a small value inline or its offset from the start of the container.  Keys keep the
stored order (by length, then bytes).  What JSON has no type for (dates, decimals, binary strings) is *opaque*: a field
type, a length, data.

Offsets may lead anywhere in a damaged document, also back to where they are: no part of a document is read twice, so
what is read altogether may not be more than there is, and containers stand at most 100 deep, as at the server.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring as quoted
from struct import Struct
from typing import Final

from tidelock.adapters.mysql.binlog.decimals import decimal_text
from tidelock.adapters.mysql.binlog.temporal import packed_date, packed_datetime, packed_time

_LITERALS: Final = ("null", "true", "false")
_INT16: Final = Struct("<h").unpack_from
_UINT16: Final = Struct("<H").unpack_from
_INT32: Final = Struct("<i").unpack_from
_UINT32: Final = Struct("<I").unpack_from
_INT64: Final = Struct("<q").unpack_from
_UINT64: Final = Struct("<Q").unpack_from
_DOUBLE: Final = Struct("<d").unpack_from

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_DOUBLE_TYPE, _STRING, _OPAQUE = 11, 12, 15
_NUMBERS: Final = {5: _INT16, 6: _UINT16, 7: _INT32, 8: _UINT32, 9: _INT64, 10: _UINT64}
_SIGNED: Final = {5: 16, 7: 32}  # bits of the signed integers that a container may hold inline
_KEYS: Final[dict[bytes, str]] = {}  # keys repeat: as `"key": `
_MOST_KEYS: Final = 20_000

_DATE, _TIME, _DATETIMES, _DECIMAL = 10, 11, (7, 12), 246
# MySQL prints a double in plain digits while its decimal point is at most this far from the first digit.
_PLAIN_DIGITS: Final = 15
_DEEPEST: Final = 100
_LONGEST_LENGTH: Final = 5  # bytes
_OBJECT_ENTRY, _ARRAY_ENTRY = (7, 11), (3, 5)  # bytes, small and large


def json_text(raw: bytes) -> str:
    """The document's text.  Raises ValueError, IndexError or struct.error for bytes that are no binary JSON.

    An empty value, which an INSERT IGNORE of NULL leaves behind, reads as MySQL reads it: `null`.
    """
    return _value(raw, 1, raw[0], [len(raw), _DEEPEST]) if raw else "null"


def _value(raw: bytes, at: int, kind: int, left: list[int]) -> str:
    """Read a value.  `left`: how many bytes may still be read, and how deep containers may still go."""
    if kind == _STRING:
        length, at = (raw[at], at + 1) if raw[at] < 128 else _length(raw, at)
        left[0] -= length
        if left[0] < 0:
            raise ValueError(_TWICE)
        return quoted(raw[at : at + length].decode())
    if kind == _DOUBLE_TYPE:
        return double_text(_DOUBLE(raw, at)[0])
    if kind in _NUMBERS:
        return str(_NUMBERS[kind](raw, at)[0])
    if kind < _SMALL_ARRAY:
        return _object(raw, at, kind == _LARGE_OBJECT, left)
    if kind < _LITERAL:
        return _array(raw, at, kind == _LARGE_ARRAY, left)
    if kind == _LITERAL:
        return _LITERALS[raw[at]]
    if kind == _OPAQUE:
        return _opaque(raw, at, left)
    raise ValueError(f"binary JSON type {kind}")


_TWICE: Final = "binary JSON with parts inside of one another"


def _enter(left: list[int], octets: int) -> None:
    """A container with so many bytes of entries; `left[1] += 1` leaves it."""
    left[0] -= octets
    left[1] -= 1
    if left[0] < 0 or left[1] < 0:
        raise ValueError(_TWICE)


def _object(raw: bytes, at: int, large: bool, left: list[int]) -> str:
    """The entries are `count` keys (offset, length), then `count` values (type, value or offset)."""
    count, entries = _count(raw, at, large)
    _enter(left, count * _OBJECT_ENTRY[large])
    fields = _object_layout(count, large)(raw, entries)
    values = 2 * count
    left[0] -= sum(fields[1:values:2])
    if left[0] < 0:
        raise ValueError(_TWICE)
    members = []
    for place in range(0, values, 2):
        start = at + fields[place]
        key = raw[start : start + fields[place + 1]]
        kind, value = fields[values + place], fields[values + place + 1]
        text = _inline(kind, value) if _is_inline(kind, large) else _value(raw, at + value, kind, left)
        members.append((_KEYS.get(key) or _new_key(key)) + text)
    left[1] += 1
    return f"{{{', '.join(members)}}}"


def _array(raw: bytes, at: int, large: bool, left: list[int]) -> str:
    count, entries = _count(raw, at, large)
    _enter(left, count * _ARRAY_ENTRY[large])
    fields = iter(_array_layout(count, large)(raw, entries))
    values = [
        _inline(kind, value) if _is_inline(kind, large) else _value(raw, at + value, kind, left)
        for kind, value in zip(fields, fields, strict=True)
    ]
    left[1] += 1
    return f"[{', '.join(values)}]"


def _count(raw: bytes, at: int, large: bool) -> tuple[int, int]:
    return (_UINT32(raw, at)[0], at + 8) if large else (_UINT16(raw, at)[0], at + 4)


@lru_cache(512)
def _object_layout(count: int, large: bool) -> Callable[[bytes, int], tuple[int, ...]]:
    return Struct("<" + ("IH" if large else "HH") * count + ("BI" if large else "BH") * count).unpack_from


@lru_cache(512)
def _array_layout(count: int, large: bool) -> Callable[[bytes, int], tuple[int, ...]]:
    return Struct("<" + ("BI" if large else "BH") * count).unpack_from


def _new_key(key: bytes) -> str:
    text = f"{quoted(key.decode())}: "
    if len(_KEYS) < _MOST_KEYS:
        _KEYS[key] = text
    return text


def _is_inline(kind: int, large: bool) -> bool:
    return _LITERAL <= kind <= (8 if large else 6)


def _inline(kind: int, value: int) -> str:
    if kind == _LITERAL:
        return _LITERALS[value]
    bits = _SIGNED.get(kind, 0)
    return str(value - (value >> bits - 1 << bits) if bits else value)


def _length(raw: bytes, at: int) -> tuple[int, int]:
    """A length of 7 bits a byte, lowest first; and where it ends."""
    length = 0
    for place in range(_LONGEST_LENGTH):
        byte = raw[at + place]
        length |= (byte & 127) << 7 * place
        if byte < 128:
            return length, at + place + 1
    raise ValueError("binary JSON with a length without end")


def _opaque(raw: bytes, at: int, left: list[int]) -> str:
    kind = raw[at]
    length, at = _length(raw, at + 1)
    left[0] -= length
    if left[0] < 0:
        raise ValueError(_TWICE)
    data = raw[at : at + length]
    if kind == _DECIMAL:
        return decimal_text(data[2:], data[0], data[1])
    if kind == _DATE:
        return f'"{packed_date(_INT64(data)[0])}"'
    if kind == _TIME:
        return f'"{packed_time(_INT64(data)[0])}"'
    if kind in _DATETIMES:
        return f'"{packed_datetime(_INT64(data)[0])}"'
    return f'"base64:type{kind}:{base64.b64encode(data).decode()}"'


def double_text(number: float) -> str:
    """The shortest digits that round-trip, in plain or exponent form as MySQL chooses; never an integer's text."""
    if 1e-4 <= abs(number) < 1e15:
        return repr(number)
    sign = "-" if math.copysign(1, number) < 0 else ""
    _, ciphers, exponent = Decimal(repr(abs(number))).as_tuple()
    digits = "".join(map(str, ciphers)).rstrip("0")
    if not digits:
        return f"{sign}0.0"
    point = len(ciphers) + int(exponent)  # the number is 0.digits * 10 ** point
    if not -_PLAIN_DIGITS < point <= _PLAIN_DIGITS:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
