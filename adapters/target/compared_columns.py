"""The columns of which `verify: image` can tell exactly whether the target's row is as its before-image.

A column is left out where a value may be right at the target and not equal to what the log has: a foreign write there
goes unseen, but no row is blamed that nobody touched.  `tidelock check` names these columns.  What its servers compare
with what is each target's matter (`comparison`).
"""

from __future__ import annotations

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.schema.type_map import MYSQL_INTEGERS, Type, is_text
from tidelock.engine.model.records import Column, Kind
from tidelock.engine.model.schema import Binding, TargetColumn

_MYSQL_EXACT = frozenset(
    (
        *MYSQL_INTEGERS, "decimal", "year", "bit", "date", "datetime", "timestamp", "time", "json", "enum", "set",
        "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "uuid", "inet4", "inet6",
    )
)  # fmt: skip

_WHOLE = frozenset((*MYSQL_INTEGERS, "year", "bit"))


def compared(binding: Binding, dialect: Dialect) -> tuple[int, ...]:
    """Returns the positions in a row of the columns that are compared; the key's are not, as they tell the row."""
    kept = {name for name, _ in left_out(binding, dialect)}
    names = [column.name for column in binding.shape.columns]
    return tuple(
        at
        for at, target in enumerate(binding.columns)
        if target is not None and at not in binding.key and names[at] not in kept
    )


def left_out(binding: Binding, dialect: Dialect) -> list[tuple[str, str]]:
    """Returns the columns that are written and not compared, each with the reason."""
    cascading = {name for key in binding.target.foreign_keys if key.cascades for name in key.columns}
    found = []
    for at, (column, target) in enumerate(zip(binding.shape.columns, binding.columns, strict=True)):
        if target is None or at in binding.key:
            continue
        if column.name in cascading:
            found.append((column.name, "its foreign key may have changed it at the target already"))
        elif reason := _inexact(column, target, dialect):
            found.append((column.name, reason))
    return found


def may_be_gone(binding: Binding) -> bool:
    """Tells whether a row that is deleted may be gone already, by a foreign key that cascades at the target too."""
    return any(key.cascades for key in binding.target.foreign_keys)


def _inexact(column: Column, target: TargetColumn, dialect: Dialect) -> str:
    """Returns why values of the column are not compared; '' where they are."""
    if column.kind is Kind.GEOMETRY:
        return "a geometry has several spellings"
    document = "jsonb" if dialect == "postgres" else "json"
    if column.kind is Kind.JSON and not column.type and target.type != document:
        return "a document that is kept as text has several spellings"
    return "" if dialect == "postgres" else _inexact_in_mysql(column, Type.of(target.type))


def _inexact_in_mysql(column: Column, type_: Type) -> str:
    if type_.base == "float" and not type_.numbers and column.kind is Kind.FLOAT and not column.type:
        return ""  # the log tells the very bits
    if type_.base == "double" and not type_.numbers and column.kind in (Kind.FLOAT, Kind.DOUBLE) and not column.type:
        return ""
    if type_.base in ("float", "double"):
        return "a floating point number may be rounded at the target"
    base = type_.base.split(" ")[0]
    if base in _WHOLE and column.kind not in (Kind.INT, Kind.YEAR, Kind.BIT, Kind.BOOL):
        return f"a {column.kind} may be rounded at the target"
    return "" if is_text(base) or base in _MYSQL_EXACT else f"a value of type {type_.base} has several spellings"
