"""Row filters: `where: "region = 'eu'"` as a tree of comparisons over a row, with SQL's three-valued logic.

The tree is plain data (made from the feed's text by an adapter), so that it can travel to another process.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

import msgspec

from tidelock.engine.model.records import UNKNOWN, Column, Kind, Row, Value


class Compare(msgspec.Struct, frozen=True, tag=True):
    """Comparison of the value of `column` with a literal; `op`: = <> < <= > >=."""

    column: str
    op: str
    literal: str


class In(msgspec.Struct, frozen=True, tag=True):
    """Test whether the value of `column` is one of the literals."""

    column: str
    literals: tuple[str, ...]


class IsNull(msgspec.Struct, frozen=True, tag=True):
    """Test whether the value of `column` is NULL."""

    column: str


class Not(msgspec.Struct, frozen=True, tag=True):
    """Negation; unknown stays unknown."""

    of: Condition


class And(msgspec.Struct, frozen=True, tag=True):
    """Conjunction in three-valued logic."""

    of: tuple[Condition, ...]


class Or(msgspec.Struct, frozen=True, tag=True):
    """Disjunction in three-valued logic."""

    of: tuple[Condition, ...]


Condition: TypeAlias = Compare | In | IsNull | Not | And | Or
Test: TypeAlias = Callable[[Row], bool | None]

_EXACT = (Kind.INT, Kind.YEAR, Kind.BIT, Kind.BOOL, Kind.DECIMAL)
_BINARY = (Kind.FLOAT, Kind.DOUBLE)
_NAN = "NaN"  # which PostgreSQL takes as greater than every number, and no literal is one
_WORDS = (Kind.TEXT, Kind.ENUM, Kind.SET)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?")


class FilterError(Exception):
    """Error of a condition that cannot be evaluated exactly on this table; `args[0]` says why."""


class Untold(Exception):
    """Error of a row of which a filter asks for a value that the log does not tell; `args[0]` names the column."""


def compile_partial_filter(condition: Condition, columns: tuple[Column, ...]) -> Test:
    """Returns `compile_filter` for rows that may hold `UNKNOWN`.  It raises Untold where it would have to look at one.
    """
    test = compile_filter(condition, columns)
    at = {c.name: i for i, c in enumerate(columns)}
    asked = [(at[name], name) for name in dict.fromkeys(_asked(condition))]

    def told(row: Row) -> bool | None:
        for i, name in asked:
            if row[i] is UNKNOWN:
                raise Untold(name)
        return test(row)

    return told


def _asked(condition: Condition) -> list[str]:
    """Returns the columns that a condition looks at."""
    match condition:
        case Compare(column) | In(column) | IsNull(column):
            return [column]
        case Not(of):
            return _asked(of)
        case And(of) | Or(of):
            return [name for part in of for name in _asked(part)]


def compile_filter(condition: Condition, columns: tuple[Column, ...]) -> Test:
    """Returns a function of a row: True, False or None (unknown).  Raises FilterError for columns it cannot compare
    exactly.

    Text compares byte for byte, whatever the source's collation: a filter must not depend on a server.
    """
    at = {c.name: i for i, c in enumerate(columns)}

    def place(name: str) -> tuple[int, Column]:
        if name not in at:
            raise FilterError(f"where: there is no column {name}")
        return at[name], columns[at[name]]

    match condition:
        case Compare(column, op, literal):
            i, kind = place(column)
            return _comparison(i, op, _typed(kind, literal), kind)
        case In(column, literals):
            i, kind = place(column)
            tests = [_comparison(i, "=", _typed(kind, literal), kind) for literal in literals]
            return _any(tests)
        case IsNull(column):
            i, _ = place(column)
            return lambda row: row[i] is None
        case Not(of):
            inner = compile_filter(of, columns)
            return lambda row: None if (known := inner(row)) is None else not known
        case And(of):
            parts = [compile_filter(c, columns) for c in of]
            negated = _any([_negate(p) for p in parts])
            return _negate(negated)
        case Or(of):
            return _any([compile_filter(c, columns) for c in of])


def _negate(test: Test) -> Test:
    return lambda row: None if (known := test(row)) is None else not known


def _any(tests: list[Test]) -> Test:
    def some(row: Row) -> bool | None:
        unknown = False
        for test in tests:
            known = test(row)
            if known:
                return True
            unknown = unknown or known is None
        return None if unknown else False

    return some


def _typed(column: Column, literal: str) -> Value | Decimal:
    """Returns the literal as the column's values are: binary floats compare as such, `x = 0.1` holds for the DOUBLE
    0.1."""
    match column.kind:
        case kind if kind in _EXACT or kind in _BINARY:
            number = _number(column, literal)
            return float(number) if kind in _BINARY else number
        case kind if kind in _WORDS:
            return literal
        case Kind.DATE | Kind.DATETIME | Kind.TIMESTAMP:
            return _moment(column, literal)
        case Kind.UUID:
            return literal.lower()
    raise FilterError(
        f"where: column {column.name} of kind {column.kind} cannot be compared; use IS NULL or another column"
    )


def _number(column: Column, literal: str) -> Decimal:
    try:
        number = Decimal(literal)
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite():
        raise FilterError(f"where: {column.name} is a number, {literal!r} is not")
    return number


def _moment(column: Column, literal: str) -> str:
    """Returns the literal in the column's canonical form, so that text order is time order."""
    found = _MOMENT.fullmatch(literal)
    date_only = column.kind is Kind.DATE
    if found is None or (date_only and found[2] is not None):
        form = "YYYY-MM-DD" if date_only else "YYYY-MM-DD [HH:MM:SS[.ffffff]]"
        raise FilterError(f"where: {column.name} is a {column.kind}, write {literal!r} as {form}")
    if date_only:
        return literal
    fraction = (found[3] or "").rstrip("0").ljust(column.scale, "0")
    return f"{found[1]} {found[2] or '00:00:00'}" + (f".{fraction}" if fraction else "")


def _comparison(i: int, op: str, literal: Value | Decimal, column: Column) -> Test:
    if column.kind in _EXACT:
        read: Callable[[Row], Value | Decimal | None] = lambda row: None if row[i] is None else _decimal(row[i])  # noqa: E731
    elif column.kind in _BINARY:
        read = lambda row: _float(row[i])  # noqa: E731
    else:
        read = lambda row: row[i] if isinstance(row[i], str) else None  # noqa: E731
    tests: dict[str, Callable[[Value | Decimal], bool]] = {
        "=": lambda v: bool(v == literal),
        "<>": lambda v: bool(v != literal),
        "<": lambda v: bool(v < literal),
        "<=": lambda v: bool(v <= literal),
        ">": lambda v: bool(v > literal),
        ">=": lambda v: bool(v >= literal),
    }
    test = tests[op]
    return lambda row: None if (value := read(row)) is None else test(value)


def _decimal(value: Value) -> Decimal:
    return Decimal("Infinity") if value == _NAN else Decimal(value)


def _float(value: Value) -> float | None:
    return float("inf") if value == _NAN else None if value is None else float(value)
