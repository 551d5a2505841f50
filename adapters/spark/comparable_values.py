"""Brings values of two columns of different servers into one form, in which equal values are equal.

A server's text of a value is turned into something that is equal in Python exactly when the values are: `1.50` and
`1.5`, two JSON documents whose members stand in another order, two spellings of one address.  NULL is None in every
form, never an empty text; trailing spaces count.
"""

from __future__ import annotations

import enum
import functools
import ipaddress
import json
import re
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from typing import Any, TypeAlias

from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.schema.type_map import Type
from tidelock.engine.model.records import Kind

Value: TypeAlias = Any
"""Hashable; equal exactly when the values are."""
Normal: TypeAlias = Callable[[Any], Value]

_INTERVAL = re.compile(
    r"(?:(?P<days>-?\d+) days? ?)?(?:(?P<sign>[-+]?)(?P<h>\d+):(?P<m>\d\d):(?P<s>\d\d)(?:\.(?P<f>\d+))?)?"
)
_KINDS = {
    Kind.FLOAT: "double",
    Kind.DOUBLE: "double",
    Kind.DATE: "moment",
    Kind.DATETIME: "moment",
    Kind.TIMESTAMP: "moment",
    Kind.TIME: "time",
    Kind.JSON: "json",
    Kind.BINARY: "bytes",
    Kind.GEOMETRY: "bytes",
    Kind.VECTOR: "bytes",
    Kind.INET4: "address",
    Kind.INET6: "address",
}
_EXACT = Context(prec=100_000, Emax=999_999_999, Emin=-999_999_999)  # JSON's numbers have no limit
_NUMBERS = (Kind.INT, Kind.YEAR, Kind.BIT, Kind.DECIMAL, Kind.BOOL)


_quoted = functools.partial(json.dumps, ensure_ascii=False)


class Form(enum.StrEnum):
    """The form in which two columns are compared.  BITS: `0101`.  BYTES: hexadecimal, or the SHA-256 of it."""

    NUMBER = "number"
    BITS = "bits"
    DOUBLE = "double"
    MOMENT = "moment"
    TIME = "time"
    TEXT = "text"
    JSON = "json"
    BYTES = "bytes"
    ADDRESS = "address"


def form(source: SourceColumn, target: str, *, is_json: bool = False) -> Form:
    """Returns the source's form, or a plainer one where the target holds something plainer.

    `target`: its type as it spells it.  `is_json`: the source declares a text to be JSON, as MariaDB does.
    """
    base, kind = Type.of(target).base, source.column.kind
    if base == "bytea":
        return Form.BYTES
    if kind is Kind.BIT and base in ("bit", "bit varying"):
        return Form.BITS
    if is_json or base in ("json", "jsonb"):
        return Form.JSON
    if kind in _NUMBERS or (kind is Kind.OTHER and Type.of(source.type).base == "numeric"):
        return Form.NUMBER
    return Form(_KINDS.get(kind, "text"))


def shown(of: Form, value: Value) -> Value:
    """Returns a value for people and for JSON."""
    match value:
        case int() if of is Form.TIME:
            seconds, micros = divmod(abs(value), 1_000_000)
            minutes, seconds = divmod(seconds, 60)
            hours, minutes = divmod(minutes, 60)
            fraction = f".{micros:06}" if micros else ""
            return f"{'-' if value < 0 else ''}{hours:02}:{minutes:02}:{seconds:02}{fraction}"
        case (version, number) if of is Form.ADDRESS:
            return str(ipaddress.IPv4Address(number) if version == 4 else ipaddress.IPv6Address(number))
        case int() if of is Form.BITS:
            return f"{value:b}"
        case _:
            return value


def normal(of: Form) -> Normal:
    """Returns the function that normalises a server's text (DOUBLE: a float); a text that is not of the form stands for
    itself.
    """
    read = _READERS.get(of)
    if read is None:
        return lambda text: text
    return functools.partial(_normal, read)


def _normal(read: Normal, text: Any) -> Value:
    if text is None:
        return None
    try:
        return read(text)
    except (ValueError, InvalidOperation, RecursionError):
        return text


def _number(text: str) -> str:
    number = Decimal(text)
    return "0" if not number else f"{number.normalize(_EXACT):f}" if number.is_finite() else str(number)


def _double(value: float) -> Value:
    """Normalises a double: `-0.0` is `0.0`; NaN equals itself."""
    return "NaN" if value != value else value + 0.0


def _moment(text: str) -> str:
    """Normalises a moment: without zeros at the end of a fraction, and without a midnight."""
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.removesuffix(" 00:00:00")


def _time(text: str) -> int | str:
    """Returns microseconds.  Also of an interval, unless it has months, which have no length."""
    found = _INTERVAL.fullmatch(text)
    if found is None or not text:
        return text
    part = found.groupdict(default="0")
    seconds = (int(part["h"]) * 60 + int(part["m"])) * 60 + int(part["s"])
    micros = seconds * 1_000_000 + int(part["f"].ljust(6, "0")[:6])
    return int(part["days"]) * 86_400_000_000 + (-micros if found["sign"] == "-" else micros)


def _document(text: str) -> str:
    """Returns JSON with its members sorted by name and its numbers in one spelling."""
    return _written(json.loads(text, parse_float=Decimal, parse_int=Decimal))


def _written(value: Any) -> str:
    match value:
        case Decimal():
            return _number(str(value))
        case list():
            return f"[{', '.join(map(_written, value))}]"
        case dict():
            members = (f"{_quoted(name)}: {_written(member)}" for name, member in sorted(value.items()))
            return f"{{{', '.join(members)}}}"
        case _:
            return str(_quoted(value))


def _address(text: str) -> tuple[int, int]:
    address = ipaddress.ip_address(text)
    return address.version, int(address)


def _bits(text: str) -> int:
    return int(text, 2)


_READERS: dict[Form, Normal] = {
    Form.NUMBER: _number,
    Form.BITS: _bits,
    Form.DOUBLE: _double,
    Form.MOMENT: _moment,
    Form.TIME: _time,
    Form.JSON: _document,
    Form.ADDRESS: _address,
}
