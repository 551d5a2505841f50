"""Judges whether another definition of a column may change the values that rows of a MySQL or MariaDB server have.

A statement that stands in the log has succeeded.  In strict mode the server refuses one that finds a value out of the
new type's range, a text that is too long, a character that the new character set lacks or a NULL for NOT NULL; so there
its success proves that no row has one.  What the server does silently in each mode (spaces at the end that go, digits
and fractions of a second that are rounded, zero bytes that are added) is no proof of anything.
"""

from __future__ import annotations

import re
from typing import Final

from tidelock.adapters.ddl.changed_columns import TEXTS
from tidelock.adapters.schema.compatibility import same_type
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.schema.type_map import integer_range
from tidelock.engine.model.records import Column, Kind
from tidelock.engine.model.schema_change import FormerColumn, FormerTable

_STRICT: Final = 1 << 21 | 1 << 22
"""STRICT_TRANS_TABLES and STRICT_ALL_TABLES of both servers."""
_PADDED: Final = 1 << 31
"""PAD_CHAR_TO_FULL_LENGTH: a CHAR is read with the spaces that it has not."""
STRICT_MODE: Final = 1 << 21
_BYTES: Final = {"tiny": 255, "": 65_535, "medium": 16_777_215, "long": 4_294_967_295}
_MOST_BYTES: Final = {"ascii": 1, "latin1": 1, "utf8": 3, "utf8mb3": 3, "ucs2": 2, "utf16": 4, "utf32": 4, "utf8mb4": 4}
"""Character sets of which every text is one in Unicode, and the most bytes of a character."""
_WITHIN: Final = {
    "ascii": ("latin1", "utf8", "utf8mb3", "ucs2", "utf16", "utf32", "utf8mb4"),
    "latin1": ("utf8", "utf8mb3", "ucs2", "utf16", "utf32", "utf8mb4"),
    "ucs2": ("utf8", "utf8mb3", "utf16", "utf32", "utf8mb4"),
    "utf8": ("utf8mb3", "ucs2", "utf16", "utf32", "utf8mb4"),
    "utf8mb3": ("utf8", "ucs2", "utf16", "utf32", "utf8mb4"),
    "utf16": ("utf32", "utf8mb4"), "utf32": ("utf16", "utf8mb4"), "utf8mb4": ("utf16", "utf32"),
}  # fmt: skip
"""Character sets that have every character of another one."""
_TIMES: Final = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
_NOT_STRICT: Final = "the statement did not run in strict mode, in which the server would have refused to change values"


def changes_values(former: FormerTable, old: FormerColumn, new: SourceColumn, sql_mode: int | None) -> str:
    """Returns why rows may hold other values once `old` has become `new`, whose character set is told as `old`'s is; ''
    where they certainly hold the same."""
    strict = sql_mode is not None and bool(sql_mode & _STRICT)
    padded = sql_mode is None or bool(sql_mode & _PADDED)
    reason = _nulls(old, new, strict) or _value(old, new, strict, padded)
    if not reason and not _looks_alike(old, new):
        computed = next((column.column.name for column in former.columns if column.generated), "")
        reason = f"the generated column {computed} may be computed from it" if computed else ""
    return reason


def narrowed_by_charset(old: FormerColumn, charset: str) -> str:
    """Returns why a text may change in another character set; '' where it does not."""
    before = old.column.charset
    if charset == before or charset in _WITHIN.get(before, ()):
        return ""
    known = before or "that of the table when it was made, which is not known"
    return f"{charset or 'the character set of the table'} may lack characters of {known}"


def _nulls(old: FormerColumn, new: SourceColumn, strict: bool) -> str:
    if new.nullable or not old.nullable:
        return ""
    if new.column.kind is Kind.TIMESTAMP:
        return "NULL in a TIMESTAMP becomes the present time where NULL is not allowed"
    return "" if strict else f"NULL becomes another value where it is not allowed, and {_NOT_STRICT}"


def _value(old: FormerColumn, new: SourceColumn, strict: bool, padded: bool) -> str:
    before, after = old.column, new.column
    if before.kind in TEXTS and after.kind in TEXTS:
        return narrowed_by_charset(old, after.charset) or _text(old, new, strict, padded)
    if same_type(old.type, new.type):
        return ""
    match before.kind, after.kind:
        case (Kind.INT | Kind.DECIMAL), (Kind.INT | Kind.DECIMAL):
            return _number(before, after, strict)
        case (Kind.FLOAT | Kind.DOUBLE), (Kind.FLOAT | Kind.DOUBLE):
            return _floating(old, new, strict)
        case Kind.BINARY, Kind.BINARY:
            return _binary(old.type, new.type)
        case Kind.BIT, Kind.BIT if after.length >= before.length:
            return ""
        case Kind.DATE, Kind.DATETIME:
            return ""
        case one, other if one is other and one in _TIMES:
            return "" if after.scale >= before.scale else "fractions of a second are rounded"
    return f"what {old.type} becomes as {new.type} is not told by the two types"


def _number(before: Column, after: Column, strict: bool) -> str:
    if after.kind is Kind.DECIMAL and before.scale > after.scale:
        return "digits behind the point are rounded"
    if after.kind is Kind.INT and before.scale:
        return "digits behind the point are rounded"
    (low, high), (least, most) = _range(before), _range(after)
    if strict or (least <= low and high <= most):
        return ""
    return f"values may lie outside of {least} to {most}, and {_NOT_STRICT}"


def _range(column: Column) -> tuple[int, int]:
    """Returns whole numbers between which the values lie; of DECIMAL without what is behind the point."""
    if column.kind is Kind.INT:
        return integer_range(column)
    most = 10 ** (column.precision - column.scale) - 1
    return (0 if column.unsigned else -most), most


def _floating(old: FormerColumn, new: SourceColumn, strict: bool) -> str:
    if "(" in old.type + new.type or (old.column.kind is Kind.DOUBLE and new.column.kind is Kind.FLOAT):
        return "digits are rounded"
    if new.column.unsigned and not old.column.unsigned and not strict:
        return f"values may be below zero, and {_NOT_STRICT}"
    return ""


def _binary(old: str, new: str) -> str:
    if re.match(r"binary\(", new):
        return "zero bytes are added at the end"
    return "" if _room(new) >= _room(old) > 0 else f"values may be longer than {new}"


def _room(type_: str) -> int:
    """Returns how many bytes a binary type holds, or the text of a TEXT; 0 for another type."""
    if found := re.match(r"(?:var)?(?:binary|char)\((\d+)\)", type_):
        return int(found[1])
    return _BYTES.get(re.sub(r"(blob|text)$", "", type_), 0)


# ------------------------------------------------------------------ texts


def _text(old: FormerColumn, new: SourceColumn, strict: bool, padded: bool) -> str:
    before, after = old.column, new.column
    if before.kind is not Kind.TEXT or after.kind is not Kind.TEXT:
        return _labels(old, new)
    fixed, was_fixed = (one.type.startswith("char(") for one in (new, old))
    if was_fixed and padded and not fixed:
        return "spaces may be added, by the session's mode PAD_CHAR_TO_FULL_LENGTH"
    if fixed and not was_fixed:
        return "spaces at the end of a text go"
    if _holds(old, new) or (was_fixed and strict):
        return ""
    return f"texts may be longer than {new.type}, of which at least spaces at the end go"


def _holds(old: FormerColumn, new: SourceColumn) -> bool:
    """Tells whether the longest text of the old type goes into the new one."""
    before, after = old.column, new.column
    if before.length and after.length:
        return after.length >= before.length
    if after.length:
        return after.length >= _room(old.type)  # a character has at least one byte
    room = _room(new.type)
    if before.length:
        return room >= before.length * _MOST_BYTES.get(after.charset, 4)
    growth = 1 if before.charset == after.charset else _MOST_BYTES.get(after.charset, 4)
    return room >= min(_room(old.type) * growth, _BYTES["long"])


def _labels(old: FormerColumn, new: SourceColumn) -> str:
    before, after = old.column, new.column
    if after.kind is before.kind:
        kept = after.labels[: len(before.labels)] == before.labels
        return "" if kept else "labels are taken away, or stand in another order"
    if before.kind is Kind.ENUM and after.kind is Kind.TEXT and not new.type.startswith("char("):
        longest = max(map(len, before.labels), default=0)
        room = after.length or _room(new.type) // _MOST_BYTES.get(after.charset, 4)
        return "" if room >= longest else f"labels may be longer than {new.type}"
    return f"what {old.type} becomes as {new.type} is not told by the two types"


def _looks_alike(old: FormerColumn, new: SourceColumn) -> bool:
    """Tells whether an expression over the column certainly has the same value as before."""
    before, after = old.column, new.column
    if before.kind is not after.kind or before.scale != after.scale or "zerofill" in old.type + new.type:
        return False
    return before.charset == after.charset and old.collation == new.collation
