"""Canonical values (`engine.model.records`) to the text that PostgreSQL's input functions read, a column at a time.

A renderer takes one column's values and returns text or None for each.  Nothing here casts: the text goes into a
literal whose type the statement fixes, so the target's own input function has the last word and refuses what it
cannot hold.  What it would accept but change, or what no message of its own would explain, is refused here.  Texts of
a PostgreSQL source (`Column.type`) are what such a function takes, whatever the value.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from tidelock.engine.model.records import Column, Kind, Value

Renderer: TypeAlias = Callable[[Sequence[Value]], Sequence[str | None]]
ZeroDates: TypeAlias = Literal["dead_letter", "null"]

_MODIFIER = re.compile(r"\([^()]*\)")
_NUL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_TEXTS = frozenset(("text", "character varying", "bpchar", "citext", "name"))
_SPELLINGS = {
    "character": "bpchar",
    "bit": "bit varying",
    "char": "bpchar",
}  # bare, they would mean one character or bit


class Unwritable(Exception):
    """PostgreSQL cannot hold a value; `args[0]` names the column and says why, without the value."""


@functools.cache
def base_type(type: str) -> str:
    """The type without its length or precision, spelled so that it takes values of any length.

    A cast to `varchar(5)` cuts silently where an assignment refuses, so literals are only ever cast to base types and
    then assigned.
    """
    if '"' in type:  # a quoted user type: parentheses may be part of its name
        return type
    bare = " ".join(_MODIFIER.sub("", type).split())
    if bare.startswith("interval "):
        return "interval"
    return _SPELLINGS.get(bare, bare)


def renderer(column: Column, type: str, zero_dates: ZeroDates) -> Renderer:
    """Choose how values of `column` are written into a target column of `type` (as `TargetColumn.type` spells it)."""
    base = base_type(type)
    if base == "bytea":
        return _to_bytea(column.kind)
    match column.kind:
        case Kind.BIT if base == "bit varying":
            return _to_bits(column.length if "varying" in type else _length(type))
        case Kind.INT if base == "boolean":
            return _to_boolean(column.name)
        case Kind.INT | Kind.YEAR | Kind.BIT | Kind.BOOL | Kind.FLOAT | Kind.DOUBLE:
            return _to_number
        case Kind.JSON if base == "jsonb":
            return _to_jsonb(column.name)
        case Kind.DATE | Kind.DATETIME | Kind.TIMESTAMP if base not in _TEXTS and not column.type:
            return _to_date(column.name, zero_dates)
        case Kind.TIME if base == "time without time zone" and not column.type:
            return _to_time_of_day(column.name)
        case Kind.BINARY if base == "uuid":
            return _to_hex("")
        case Kind.BINARY | Kind.GEOMETRY | Kind.VECTOR:
            return _refusal(f"column {column.name}: {column.kind} does not fit into {type}; make the column bytea")
        case _:
            return unchanged


def is_own_text(column: Column, type: str) -> bool:
    """Tell whether `renderer` writes the value's own text, once a date has no zeros: then row images can write it."""
    if column.kind in (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP) and not column.type:
        return base_type(type) != "bytea"
    return (column.kind is not Kind.TIME or bool(column.type)) and renderer(column, type, "dead_letter") in (
        unchanged,
        _to_number,
    )


def _length(type: str) -> int:
    found = _MODIFIER.search(type)
    return int(found[0][1:-1]) if found else 1


def unchanged(values: Sequence[Value]) -> Sequence[str | None]:
    """Render texts that are PostgreSQL's already; who has many of them need not ask."""
    return values


def _to_number(values: Sequence[Value]) -> Sequence[str | None]:
    return [None if v is None else str(v) for v in values]


def _to_bits(length: int) -> Renderer:
    form = f"0{length}b"
    return lambda values: [None if v is None else format(v, form) for v in values]


def _to_hex(prefix: str) -> Renderer:
    return lambda values: [None if v is None else prefix + v.hex() for v in values]


def _to_bytea(kind: Kind) -> Renderer:
    match kind:
        case Kind.BINARY | Kind.VECTOR:
            return _to_hex("\\x")
        case Kind.GEOMETRY:  # well-known binary begins after the four bytes of the SRID
            return lambda values: [None if v is None else "\\x" + v[4:].hex() for v in values]
        case _:  # undecodable text is refused here too: beside text turned into UTF-8 its bytes would mislead
            return lambda values: [_utf8_hex(v) for v in values]


def _utf8_hex(value: Value) -> Value:
    return value if value is None or isinstance(value, bytes) else "\\x" + str(value).encode().hex()


def _to_date(name: str, zero_dates: ZeroDates) -> Renderer:
    """Dates with a zero year, month or day have no PostgreSQL value."""

    def render(values: Sequence[Value]) -> Sequence[str | None]:
        joined = ",".join(filter(None, values))
        if "-00" not in joined and "0000-" not in joined:
            return values
        if zero_dates == "dead_letter":
            raise Unwritable(
                f"column {name}: a zero date, which PostgreSQL cannot hold (`zero_dates: null` writes NULL)"
            )
        return [None if v is None or "-00" in v or v.startswith("0000-") else v for v in values]

    return render


def _to_time_of_day(name: str) -> Renderer:
    """PostgreSQL reads a leading minus of a `time` as a time zone and drops it."""

    def render(values: Sequence[Value]) -> Sequence[str | None]:
        if any(v[2] != ":" or v[:8] > "24:00:00" for v in values if v is not None):
            raise Unwritable(
                f"column {name}: a negative time, or one beyond a day, is no time; make the column interval"
            )
        return values

    return render


def _to_boolean(name: str) -> Renderer:
    def render(values: Sequence[Value]) -> Sequence[str | None]:
        if others := {*values} - {0, 1, None}:
            raise Unwritable(f"column {name}: {min(others)} is no boolean; make the column smallint")
        return _to_number(values)

    return render


def _to_jsonb(name: str) -> Renderer:
    """The server would name no column."""

    def render(values: Sequence[Value]) -> Sequence[str | None]:
        if any(v is not None and "\\u0000" in v and _NUL_ESCAPE.search(v) for v in values):
            raise Unwritable(f"column {name}: a NUL character in JSON, which jsonb cannot hold; make the column json")
        return values

    return render


def _refusal(message: str) -> Renderer:
    def render(values: Sequence[Value]) -> Sequence[str | None]:
        if any(v is not None for v in values):
            raise Unwritable(message)
        return values

    return render
