"""Comparisons of a target column with a value of a before-image, as SQL of MySQL and MariaDB.

`<=>` takes NULL as equal to NULL.  Texts are compared by their bytes, whatever the column's collation says; of fixed
lengths without what the server pads them with or takes away.  Values come as literals of the stored form
(`literals`), and are made what an assignment to the column makes of them: rounded to its digits, read as a document.
A moment with as many digits as the column has is compared as text, which tells dates with zeros apart too.
"""

from __future__ import annotations

from tidelock.adapters.schema.type_map import MYSQL_INTEGERS, Type, is_text
from tidelock.engine.model.records import Column

_BYTES = frozenset(("varbinary", "tinyblob", "blob", "mediumblob", "longblob"))
_MOMENTS = frozenset(("date", "datetime", "timestamp", "time"))
_DECIMAL = (10, 0)
_SPACE, _ZERO = "' '", "UNHEX('00')"


def comparison(column: Column, type: str, old: str, new: str) -> str:
    """SQL that is true where `old`, of a target column of `type`, is what an assignment of `new` makes of it."""
    type_ = Type.of(type)
    base = type_.base.split(" ")[0]
    if base == "char":
        before, after = (_as_bytes(f"TRIM(TRAILING {_SPACE} FROM {text})") for text in (old, new))
        return f"{before}<=>{after}"
    if is_text(base) or base in ("enum", "set"):
        return f"{_as_bytes(old)}<=>{_as_bytes(new)}"
    if base == "binary":
        return f"TRIM(TRAILING {_ZERO} FROM {old})<=>TRIM(TRAILING {_ZERO} FROM {new})"
    if base in _BYTES:
        return f"{old}<=>{new}"
    if base == "bit":
        return f"{old}+0<=>{new}"
    if base in ("float", "double"):
        return f"{old}<=>({new}+0e0)"
    if base in _MOMENTS and not column.type and column.scale == type_.first(0):
        return f"CAST(CAST({old} AS CHAR) AS BINARY)<=>CAST({new} AS BINARY)"
    if base in ("uuid", "inet4", "inet6"):
        return f"CAST(CAST({old} AS CHAR) AS BINARY)<=>CAST({new} AS BINARY)"
    return f"{old}<=>{assigned(type, new)}"


def assigned(type: str, new: str) -> str:
    """SQL for what an assignment of `new` to a column of `type` makes of it: of numbers, moments and documents."""
    type_ = Type.of(type)
    base = type_.base.split(" ")[0]
    if base in MYSQL_INTEGERS or base == "year":
        return new
    if base == "decimal":
        digits, scale = (*type_.numbers, *_DECIMAL[len(type_.numbers) :])[:2]
        return f"CAST({new} AS DECIMAL({digits},{scale}))"
    if base in ("datetime", "timestamp", "time"):
        word = "TIME" if base == "time" else "DATETIME"
        return f"CAST({new} AS {word}({type_.first(0)}))"
    return f"CAST({new} AS {base.upper()})"


def _as_bytes(text: str) -> str:
    return f"CAST(CONVERT({text} USING utf8mb4) AS BINARY)"


def shown(type: str, old: str) -> str:
    """SQL for a value as people read it, cut."""
    base = Type.of(type).base
    text = f"HEX({old})" if base in _BYTES or base == "binary" else f"CAST({old} AS CHAR)"
    return f"LEFT({text},60)"

