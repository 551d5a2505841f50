"""Spells values as the source's log does, from the text that a server gives of them.

The source's column says how many digits a number or a moment has, which another server may hold in more or fewer.
Bytes come as hexadecimal digits.
"""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from tidelock.engine.model.records import Column, Kind, Value

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?: (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?", re.ASCII)
# What PostgreSQL spells where a kind has no such value (`engine.model.records`).
_UNHELD: Final = re.compile(
    r"NaN|-?[Ii]nfinity|(?:\d{4,}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?(?:\+00)?)?(?: BC)?)", re.ASCII
)
_MAY_BE_UNHELD: Final = frozenset((Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP))
_TIME: Final = re.compile(r"(-?\d{2,3}:\d\d:\d\d)(?:\.(\d{1,6}))?", re.ASCII)


class NotSpelled(ValueError):
    """The source's column cannot hold this value."""


def spelled(column: Column, shown: Any) -> Value:
    """Returns the value of the log; `shown`: the server's text, or None for NULL.  Raises NotSpelled."""
    if shown is None:
        return None
    try:
        return _READERS[column.kind](shown, column.scale)
    except (ValueError, KeyError, InvalidOperation, OSError, UnicodeError):
        if column.type and column.kind in _MAY_BE_UNHELD and _UNHELD.fullmatch(str(shown)):
            return str(shown)
        raise NotSpelled(f"column {column.name}: {shown!r} is no {column.kind}") from None


def _number(shown: Any, _: int) -> int:
    number = Decimal(shown)
    if number != number.to_integral_value():
        raise ValueError
    return int(number)


def _decimal(shown: Any, scale: int) -> str:
    """Returns all digits of the scale, and those beyond it that another server may have."""
    number = Decimal(shown)
    if not number.is_finite():
        raise ValueError
    whole, _, fraction = f"{number:f}".partition(".")
    fraction = fraction.rstrip("0").ljust(scale, "0")
    return f"{whole}.{fraction}" if fraction else whole


def _float(shown: Any, _: int) -> float:
    number = float(shown)
    if not math.isfinite(number):
        raise ValueError
    return number


def _date(shown: Any, _: int) -> str:
    return _matched(_DATE, shown)[0]


def _moment(shown: Any, scale: int) -> str:
    date, time, fraction = _matched(_MOMENT, shown).groups()
    return f"{date} {time or '00:00:00'}{_fraction(fraction, scale)}"


def _time(shown: Any, scale: int) -> str:
    time, fraction = _matched(_TIME, shown).groups()
    return time + _fraction(fraction, scale)


def _matched(pattern: re.Pattern[str], shown: Any) -> re.Match[str]:
    found = pattern.fullmatch(shown)
    if found is None:
        raise ValueError
    return found


def _fraction(digits: str | None, scale: int) -> str:
    digits = (digits or "").rstrip("0").ljust(scale, "0")
    return f".{digits}" if digits else ""


def _address(family: socket.AddressFamily) -> Callable[[Any, int], str]:
    """Returns an address as the log spells it, which is the system's own way."""
    return lambda shown, _: socket.inet_ntop(family, socket.inet_pton(family, shown))


def _bytes(shown: Any, _: int) -> bytes:
    return bytes.fromhex(shown)


def _same(shown: Any, _: int) -> Value:
    return shown


_READERS: Final[dict[Kind, Callable[[Any, int], Value]]] = {
    Kind.INT: _number,
    Kind.YEAR: _number,
    Kind.BIT: _number,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _float,
    Kind.DECIMAL: _decimal,
    Kind.DATE: _date,
    Kind.DATETIME: _moment,
    Kind.TIMESTAMP: _moment,
    Kind.TIME: _time,
    Kind.TEXT: _same,
    Kind.ENUM: _same,
    Kind.SET: _same,
    Kind.JSON: _same,
    Kind.UUID: _same,
    Kind.BOOL: _number,
    Kind.OTHER: _same,
    Kind.INET4: _address(socket.AF_INET),
    Kind.INET6: _address(socket.AF_INET6),
    Kind.BINARY: _bytes,
    Kind.GEOMETRY: _bytes,
    Kind.VECTOR: _bytes,
}
