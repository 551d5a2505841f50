"""Rows as SQL literals: a function generated for each list of columns writes whole rows, much faster than parameters.
Rows that are images of the source's bytes are written by the compiled form (`row_image.literals`), in the same words.

Every literal is exact for the sessions of `adapters.mysql.target.session`: utf8mb4, and `NO_BACKSLASH_ESCAPES`, so that
a quote is doubled and nothing else in a string has a meaning.  Two forms:

| form     | used in      | numbers                                                                            |
|----------|--------------|------------------------------------------------------------------------------------|
| stored   | VALUES, SET  | DECIMAL and floats quoted: the server reads their text straight into the column    |
| compared | IN, =, `<=>` | bare, or they would be compared as doubles; floats with an exponent, or as DECIMAL |

What no MySQL column can hold (an unknown ENUM label, …) is left to the server's strict mode, but for the numbers and
moments of a PostgreSQL source: of `10000-01-01` the server would make another day.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from tidelock.adapters.row_image.images import LITERALS
from tidelock.adapters.row_image.images import literals as image_literals
from tidelock.engine.model.records import Column, Kind, Row, Value

Render: TypeAlias = Callable[[Sequence[Row]], list[str]]
"""Rows to one text a row, `(1,'a',NULL)`.  Raises anything for a value that is not of its column's kind."""

_LONG_NUMBER = re.compile(r"[0-9][0-9.]{15}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?", re.ASCII)
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?: [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?)?", re.ASCII)
_QUOTED = "Q + {v}.replace(Q, QQ) + Q"
_STORED: dict[Kind, str] = {
    Kind.INT: "int.__repr__({v})",
    Kind.YEAR: "int.__repr__({v})",
    Kind.BIT: "int.__repr__({v})",
    Kind.BOOL: "int.__repr__({v})",
    Kind.FLOAT: "Q + float.__repr__({v}) + Q",
    Kind.DOUBLE: "Q + float.__repr__({v}) + Q",
    Kind.BINARY: "X + {v}.hex() + Q",
    Kind.GEOMETRY: "X + {v}.hex() + Q",
    Kind.VECTOR: "X + {v}.hex() + Q",
    Kind.JSON: "Q + json({v}).replace(Q, QQ) + Q",
}
_COMPARED: dict[Kind, str] = _STORED | {
    Kind.FLOAT: "double({v})",
    Kind.DOUBLE: "double({v})",
    Kind.DECIMAL: "decimal({v})",
}


# MariaDB cuts an x'…' of n bytes to n modulo 65,536 where it stands in a derived table; UNHEX it does not.
_JOINED: dict[Kind, str] = _STORED | dict.fromkeys((Kind.BINARY, Kind.GEOMETRY, Kind.VECTOR), "H + {v}.hex() + HH")

# Of a PostgreSQL source, whose values may be none of MySQL's.
_MOMENTS = dict.fromkeys((Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP), "Q + moment({v}) + Q")
_CHECKED: dict[Kind, str] = _MOMENTS | {Kind.DECIMAL: "Q + decimal({v}) + Q"}
SPELLED = frozenset((*_CHECKED, Kind.TIME))
"""Kinds whose values PostgreSQL may spell as no other server does."""

_BY_IMAGE: dict[str, str] = {
    _QUOTED: "quoted",
    _STORED[Kind.INT]: "bare",
    _STORED[Kind.FLOAT]: "quoted",
    _STORED[Kind.BINARY]: "hex",
    _JOINED[Kind.BINARY]: "unhex",
    _COMPARED[Kind.DECIMAL]: "bare",
}
"""Kinds that the compiled form writes too; the others need a look at the value."""


class Unwritable(Exception):
    """A value that cannot be written as it is; `args[0]` names the column and says why."""


def stored(columns: Sequence[Column], positions: Sequence[int]) -> Render:
    """Literals of the columns at `positions` of whole rows, to be stored."""
    return _compile(columns, positions, positions, _STORED)


def compared(columns: Sequence[Column], positions: Sequence[int]) -> Render:
    """Literals of keys (`Binding.key_of`: value `i` belongs to column `positions[i]`), to be compared."""
    return _compile(columns, positions, range(len(positions)), _COMPARED)


def keyed(columns: Sequence[Column], key: Sequence[int], positions: Sequence[int]) -> Render:
    """Literals of whole rows for a derived table: key columns to compare, then those at `positions` to store."""
    forms = [_form(columns[i], _COMPARED) for i in key] + [_form(columns[i], _JOINED) for i in positions]
    return _function(forms, [*key, *positions])


def one(column: Column, value: Value, *, compare: bool) -> str:
    """The literal of a single value.  Raises Unwritable."""
    try:
        return _alone(column, compare)([(value,)])[0][1:-1]
    except (AttributeError, TypeError, ValueError):
        raise Unwritable(_complaint(column, value)) from None


def text(value: str) -> str:
    """A quoted string."""
    return "'" + value.replace("'", "''") + "'"


def blob(value: bytes) -> str:
    """A binary string."""
    return f"x'{value.hex()}'"


def unwritable(columns: Sequence[Column], positions: Sequence[int], rows: Sequence[Row]) -> Unwritable:
    """Find the value that made a `Render` fail.  `positions[i]` is the column of value `i` of each row."""
    for compare in (False, True):
        for row in rows:
            for at, value in zip(positions, row, strict=True):
                try:
                    one(columns[at], value, compare=compare).encode()
                except Unwritable as found:
                    return found
                except UnicodeEncodeError:
                    return Unwritable(f"column {columns[at].name}: the text is not valid Unicode (a lone surrogate)")
    raise AssertionError("every value can be written")


@functools.lru_cache(maxsize=10_000)
def _alone(column: Column, compare: bool) -> Render:
    return (compared if compare else stored)([column], [0])


def _compile(
    columns: Sequence[Column], positions: Sequence[int], places: Sequence[int], forms: dict[Kind, str]
) -> Render:
    return _function([_form(columns[i], forms) for i in positions], places)


def _form(column: Column, forms: dict[Kind, str]) -> str:
    form = forms.get(column.kind, _QUOTED)
    return _CHECKED.get(column.kind, form) if column.type and form == _QUOTED else form


def _function(forms: Sequence[str], places: Sequence[int]) -> Render:
    """Value `places[i]` of each row in `forms[i]`."""
    parts = [
        f"{{N if r[{at}] is None else {form.format(v=f'r[{at}]')}}}" for form, at in zip(forms, places, strict=True)
    ]
    source = f'lambda rows: [f"({",".join(parts)})" for r in rows]'
    names = {
        "N": "NULL",
        "Q": "'",
        "QQ": "''",
        "X": "x'",
        "H": "UNHEX('",
        "HH": "')",
        "double": _double,
        "decimal": _decimal,
        "moment": _moment,
        "json": _json,
    }
    function: Any = eval(source, names)  # the source holds only indexes and the expressions above
    compiled = [LITERALS[_BY_IMAGE[form]] for form in forms if form in _BY_IMAGE] if LITERALS else []
    if len(compiled) < len(forms):
        return function  # type: ignore[no-any-return]
    return lambda rows: image_literals(rows, places, compiled) or function(rows)


def _double(value: float) -> str:
    if value - value != 0:
        raise ValueError("not a finite number")
    digits = float.__repr__(value)
    return digits if "e" in digits else digits + "e0"


def _decimal(value: str) -> str:
    if not _NUMBER.fullmatch(value):
        raise ValueError("not a decimal number")
    return value


def _moment(value: str) -> str:
    if not _MOMENT.fullmatch(value):
        raise ValueError("not a moment of the years 1 to 9999")
    return value


def _json(text: str) -> str:
    """Reading JSON text, MySQL makes a double of every number that is no 64-bit integer, whatever digits that loses."""
    if _LONG_NUMBER.search(text):
        json.loads(text, parse_float=_kept_number, parse_int=_kept_number)
    return text


def _kept_number(digits: str) -> None:
    number = Decimal(digits)
    integer = digits.lstrip("-").isdigit() and -(1 << 63) <= int(digits) < 1 << 64
    if not integer and number != Decimal(float.__repr__(float(digits))):
        raise ValueError("a number that JSON text does not keep")


def _complaint(column: Column, value: Value) -> str:
    if isinstance(value, bytes) and column.kind is Kind.TEXT:
        shown = value[:16].hex() + ("…" if len(value) > 16 else "")
        return f"column {column.name}: its bytes are not valid {column.charset or 'text'} (0x{shown})"
    if isinstance(value, str) and column.kind is Kind.JSON:
        return f"column {column.name}: a DECIMAL inside JSON with more digits than MySQL keeps when it reads JSON text"
    if isinstance(value, float):
        return f"column {column.name}: {value} is not a number that MySQL can hold"
    if isinstance(value, str) and column.type:
        return f"column {column.name}: {value[:40]} is no {column.kind.value} that MySQL can hold"
    return f"column {column.name}: a value of type {type(value).__name__} is no {column.kind.value}"
