"""Decides whether a target column holds every value of a source column: a type is accepted where nothing is lost.

A target type that may refuse a value (`boolean` for 2, `time` for 25:00:00, an ENUM without the error value) but never
changes one is accepted too: the row fails and is set aside, not altered.
"""

from __future__ import annotations

import re

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.schema.type_map import (
    CHARACTERS,
    MYSQL_INTEGERS,
    POSTGRES_INTEGERS,
    Type,
    integer_range,
    mysql_type,
    other_characters,
    postgres_type,
    quoted,
    without_comments,
)
from tidelock.engine.model.records import Column, Kind
from tidelock.engine.model.schema import TargetColumn

_BYTES = {"tiny": 255, "": 65_535, "medium": 16_777_215, "long": 4_294_967_295}
_POSTGRES_TIMES = {
    Kind.DATE: ("date", "timestamp without time zone"),
    Kind.DATETIME: ("timestamp without time zone",),
    Kind.TIMESTAMP: ("timestamp with time zone", "timestamp without time zone"),
    Kind.TIME: ("interval", "time without time zone"),
}
_MYSQL_TIMES = {
    Kind.DATE: ("date", "datetime"),
    Kind.DATETIME: ("datetime",),
    Kind.TIMESTAMP: ("timestamp", "datetime"),
    Kind.TIME: ("time",),
}
_UNLIMITED = 1 << 32
# Kinds whose text at a target would not be the value's own.
_NO_TEXT = (Kind.BINARY, Kind.GEOMETRY, Kind.VECTOR, Kind.BIT, Kind.BOOL, Kind.FLOAT, Kind.DOUBLE)
_NOT_ITS_TEXT = "keeps neither the order nor the repeated members of a document"


def compatible(column: Column, target: TargetColumn, dialect: Dialect, declared: str = "") -> str:
    """Returns why `target` cannot hold every value of `column` unchanged, and which type would do; '' where it can.

    `declared`: the source's COLUMN_TYPE where it is known: it tells CHAR from VARCHAR and the sizes of TEXT and BLOB.
    """
    if column.type:
        declared = column.type if dialect == "postgres" else mysql_type(column)
    spelled, declared = without_comments(target.type), without_comments(declared)
    type_ = Type.of(spelled)
    if dialect == "postgres":
        reason = _postgres(column, type_, declared)
        wanted = postgres_type(column)
    else:
        same = bool(declared) and _no_width(declared) == _no_width(spelled)
        reason = "" if same else _mysql(column, type_, spelled, declared)
        wanted = declared or mysql_type(column)
    return f"{target.type} {reason}; {wanted} would do" if reason else ""


def same_type(one: str, other: str) -> bool:
    """Tells whether two types of MySQL or MariaDB hold the same values, as each server spells them."""
    return _no_width(without_comments(one)) == _no_width(without_comments(other))


def _no_width(type_: str) -> str:
    """Returns a type without the display width of integers and ZEROFILL, which change no value, under one name."""
    type_ = type_.replace("geomcollection", "geometrycollection")
    return re.sub(r"\b((?:tiny|small|medium|big)?int|year)\(\d+\)", r"\1", type_).replace(" zerofill", "")


def _integer_fits(column: Column, size: int, unsigned: bool) -> str:
    low, high = integer_range(column)
    bits = 8 * size
    least, most = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return "" if least <= low and high <= most else f"cannot hold {low} to {high}"


def _number(column: Column, type_: Type, integers: dict[str, int], exact: tuple[str, ...]) -> str | None:
    """Judges a number in a number; returns None where `type_` is none of the exact numbers."""
    if column.kind is Kind.DECIMAL:
        whole, scale = column.precision - column.scale, column.scale
    else:
        whole, scale = len(str(integer_range(column)[1])), 0
    if type_.base in integers:
        if column.kind is not Kind.DECIMAL:
            return _integer_fits(column, integers[type_.base], type_.unsigned)
        if scale or whole >= len(str(1 << 8 * integers[type_.base] - 1)):
            return f"cannot hold {column.precision} digits, {scale} of them after the point"
        return "has no sign" if type_.unsigned and not column.unsigned else ""
    if type_.base in exact:
        if type_.unsigned and not column.unsigned and column.kind in (Kind.INT, Kind.DECIMAL):
            return "has no sign"
        if not type_.numbers and "numeric" in exact:
            return ""
        digits, places = (*(type_.numbers or (10,)), 0)[:2]
        enough = places >= scale and digits - places >= whole
        return "" if enough else f"cannot hold {whole} digits before the point and {scale} after it"
    return None


def _fraction(column: Column, type_: Type, default: int) -> str:
    if column.kind is Kind.DATE or type_.first(default) >= column.scale:
        return ""
    return f"cuts fractions of a second to {type_.first(default)} digits"


def _characters(column: Column) -> int:
    """Returns the longest text of a value, in characters, for the kinds whose values are text."""
    match column.kind:
        case Kind.TEXT:
            return column.length or _UNLIMITED
        case Kind.ENUM:
            return max(map(len, column.labels), default=0)
        case Kind.SET:
            return sum(len(label) + 1 for label in column.labels) - 1 if column.labels else 0
        case Kind.INT:
            return max(len(str(n)) for n in integer_range(column))
        case Kind.DECIMAL:
            return column.precision + 3
        case Kind.OTHER:
            return other_characters(column) or _UNLIMITED
        case kind if kind in CHARACTERS:
            return CHARACTERS[kind] + (column.scale + 1 if column.scale else 0)
        case _:
            return _UNLIMITED


def _text_fits(column: Column, limit: int) -> str:
    needed = _characters(column)
    if needed <= limit:
        return ""
    return f"holds {limit} characters, the source's {needed if needed < _UNLIMITED else 'any number'}"


def _postgres(column: Column, type_: Type, declared: str) -> str:
    kind = column.kind
    if column.type and _is_own(column, type_):
        return ""
    if kind not in _NO_TEXT:
        if type_.base in ("text", "citext"):
            return ""
        if type_.base == "character varying":
            return _text_fits(column, type_.first(_UNLIMITED))
    match kind:
        case Kind.INT | Kind.YEAR | Kind.BIT | Kind.BOOL | Kind.DECIMAL:
            return _postgres_number(column, type_)
        case Kind.FLOAT:
            return "" if type_.base in ("real", "double precision") else "is no floating point number"
        case Kind.DOUBLE:
            return "" if type_.base == "double precision" else "is no double"
        case Kind.DATE | Kind.DATETIME | Kind.TIMESTAMP | Kind.TIME:
            if type_.base in _POSTGRES_TIMES[kind]:
                return _fraction(column, type_, 6)
            return f"does not hold a {kind.value}"
        case Kind.TEXT:
            if type_.base == "character" and declared.startswith(("char(", "character(")):
                return _text_fits(column, type_.first(1))
            if type_.base == "character":
                return "does not keep trailing spaces"
            return "" if type_.base in ("bytea", "json") else "is not for any text"
        case Kind.JSON if column.type == "json" and type_.base == "jsonb":
            return _NOT_ITS_TEXT
        case Kind.JSON:
            return "" if type_.base in ("json", "jsonb") else "does not hold JSON"
        case Kind.BINARY if type_.base == "uuid" and column.length == 16:
            return ""
        case Kind.BINARY | Kind.GEOMETRY | Kind.VECTOR:
            return "" if type_.base == "bytea" else "does not hold bytes"
        case Kind.UUID:
            return "" if type_ == ("character", (36,), False) or type_.base == "uuid" else "does not hold a UUID"
        case Kind.INET4 | Kind.INET6:
            return "" if type_.base == "inet" else "does not hold an address"
        case Kind.ENUM | Kind.SET:
            return "is not for any label"
        case Kind.OTHER:
            texts = type_.base in ("text[]", "character varying[]") and not type_.numbers
            return "" if texts and column.type.endswith("[]") else f"is no {column.type}"


def _is_own(column: Column, type_: Type) -> bool:
    """Returns whether a PostgreSQL column has the type of its source, whichever schema that is in there, or of an OTHER
    the same without its bounds.
    """
    own = Type.of(column.type)
    if own.base.rpartition(".")[2] != type_.base.rpartition(".")[2]:
        return False
    return own.numbers == type_.numbers or (column.kind is Kind.OTHER and not type_.numbers)


def _is_byte(column: Column) -> bool:
    return column.length == 1 and column.kind is not Kind.DECIMAL


def _postgres_number(column: Column, type_: Type) -> str:
    if column.kind is Kind.BIT and type_.base in ("bit", "bit varying"):
        limit = type_.first(1 if type_.base == "bit" else _UNLIMITED)
        return "" if limit >= column.length else f"holds {limit} bits, the source's {column.length}"
    if type_.base == "boolean" and (column.kind is Kind.BOOL or _is_byte(column)):
        return ""
    if type_.base == "double precision" and column.kind is Kind.INT and column.length <= 4:
        return ""
    verdict = _number(column, type_, POSTGRES_INTEGERS, ("numeric",))
    return f"does not hold a {column.kind.value}" if verdict is None else verdict


def _mysql(column: Column, type_: Type, spelled: str, declared: str) -> str:
    match column.kind:
        case Kind.DECIMAL if column.type and type_.base == "longtext":
            return ""
        case Kind.INT | Kind.YEAR | Kind.BIT | Kind.BOOL | Kind.DECIMAL:
            return _mysql_number(column, type_)
        case Kind.FLOAT | Kind.DOUBLE:
            return _mysql_float(column, type_)
        case Kind.BINARY:
            return _mysql_bytes(column, type_, declared)
        case Kind.DATE | Kind.DATETIME | Kind.TIMESTAMP | Kind.TIME if type_.base in _MYSQL_TIMES[column.kind]:
            return _fraction(column, type_, 0)
        case Kind.ENUM | Kind.SET if spelled.startswith(f"{column.kind.value}("):
            missing = [label for label in column.labels if quoted(label) not in spelled]
            return f"lacks the label {missing[0]!r}" if missing else ""
        case Kind.JSON if column.type == "json" and type_.base == "json":
            return _NOT_ITS_TEXT
        case (Kind.JSON | Kind.UUID | Kind.INET4 | Kind.INET6) as kind if type_.base == kind.value:
            return ""
        case Kind.GEOMETRY:
            return "" if type_.base == "geometry" else "does not hold every geometry"
        case Kind.VECTOR:
            return "" if type_.base == "longblob" else "does not hold the vector"
        case Kind.UUID if type_ == ("char", (36,), False):
            return ""
    return _mysql_text(column, type_, declared)


def _mysql_number(column: Column, type_: Type) -> str:
    if column.kind is Kind.BIT and type_.base == "bit":
        limit = type_.first(1)
        return "" if limit >= column.length else f"holds {limit} bits, the source's {column.length}"
    if column.kind is Kind.YEAR and type_.base == "year":
        return ""
    if type_ == ("double", (), False) and column.kind is Kind.INT and column.length <= 4:
        return ""
    verdict = _number(column, type_, MYSQL_INTEGERS, ("decimal",))
    return f"does not hold a {column.kind.value}" if verdict is None else verdict


def _mysql_float(column: Column, type_: Type) -> str:
    if type_.base not in (("float", "double") if column.kind is Kind.FLOAT else ("double",)):
        return f"does not hold a {column.kind.value}"
    if type_.numbers:
        return "rounds"
    return "has no sign" if type_.unsigned and not column.unsigned else ""


def _mysql_bytes(column: Column, type_: Type, declared: str) -> str:
    needed = column.length or _size(declared, "blob") or _UNLIMITED - 1
    limit = type_.first(0) if type_.base == "varbinary" else _size(type_.base, "blob")
    if type_.base == "binary":
        return "pads with zero bytes"
    if not limit:
        return "does not hold bytes"
    return "" if needed <= limit else f"holds {limit} bytes, the source's {needed}"


def _mysql_text(column: Column, type_: Type, declared: str) -> str:
    if type_.base == "char" and declared.startswith("char("):
        return _text_fits(column, type_.first(1))
    if type_.base == "char":
        return "does not keep trailing spaces"
    if type_.base == "varchar":
        return _text_fits(column, type_.first(0))
    limit = _size(type_.base, "text")
    if not limit:
        return f"does not hold a {column.kind.value}"
    if limit == _BYTES["long"]:
        return ""
    needed = _characters(column) * 4 if column.length or column.kind is not Kind.TEXT else _size(declared, "text")
    return "" if 0 < needed <= limit else f"holds {limit} bytes, the source's may have more"


def _size(type_: str, family: str) -> int:
    """Returns the bytes that a TEXT or BLOB type holds; 0 for another type."""
    return _BYTES.get(type_.removesuffix(family), 0) if type_.endswith(family) else 0
