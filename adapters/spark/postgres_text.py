"""SQL of the texts of a PostgreSQL column: as the log has it, and in canonical form (`engine.model.records`).

The log has what a type's output function writes.  A cast to text is that function, but for a few types whose cast says
something else (`true` for `t`, an address with its prefix), so `format` writes those, and every type that we do not
know.  The session has the settings on which spelling depends (`adapters.postgres.column_types.OUTPUT_SETTINGS`).
"""

from __future__ import annotations

from typing import Final

from tidelock.engine.model.records import Column, Kind

# Kinds whose cast to text is the output function, or, of a padded text, takes away what is no part of the value.
_CAST: Final = frozenset((
    Kind.INT, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME, Kind.TEXT,
    Kind.BINARY, Kind.UUID, Kind.JSON, Kind.ENUM, Kind.BIT,
))  # fmt: skip
_DATE_TIME: Final = len("2026-11-25 10:00:00")
_TIME: Final = len("10:00:00")


def logged_text(column: Column, name: str) -> str:
    """Returns SQL of the log's text.  `name`: SQL of the column."""
    return f"{name}::text" if column.kind in _CAST else output_text(name)


def output_text(name: str) -> str:
    """Returns SQL of what the output function of a column's type writes."""
    # Of a row `IS NULL` says that all its fields are; this says that there is no row.
    return f"CASE WHEN {name} IS DISTINCT FROM NULL THEN format('%s', {name}) END"


def canonical_text(column: Column, name: str) -> str:
    """Returns SQL of the canonical value of a kind whose values are texts."""
    match column.kind:
        case Kind.DATETIME:
            return _padded(f"{name}::text", _DATE_TIME, column.scale)
        case Kind.TIMESTAMP:
            return _zoned(name, column.scale)
        case Kind.TIME:
            return _padded(f"{name}::text", _TIME, column.scale)
        case _:
            return logged_text(column, name)


def _zoned(name: str, scale: int) -> str:
    """Leaves a moment as it is, with its zone, whose year has other than four digits."""
    local = f"({name} AT TIME ZONE 'UTC')::text"
    plain = f"length(split_part({local}, '.', 1)) = {_DATE_TIME}"
    return f"CASE WHEN {plain} THEN {_padded(local, _DATE_TIME, scale)} ELSE {name}::text END"


def _padded(text: str, base: int, scale: int) -> str:
    """A text of `base` characters gets all digits of the scale."""
    if not scale:
        return text
    plain = f"length(split_part({text}, '.', 1)) = {base}"
    fraction = f"CASE WHEN strpos({text}, '.') = 0 THEN {text} || '.' ELSE {text} END"
    return f"CASE WHEN {plain} THEN rpad({fraction}, {base + 1 + scale}, '0') ELSE {text} END"
