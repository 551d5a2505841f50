"""Judges whether another type of a column leaves the values of rows as they are, at PostgreSQL.

A command that stands in the log has succeeded: a number that does not fit in the new type would have failed it.  What
PostgreSQL does silently (digits and fractions are rounded, spaces go, a time zone is taken away) is no such proof.
Whether a USING computed something else is told apart (`command_messages.Command.plain`).
"""

from __future__ import annotations

from typing import Final

from tidelock.adapters.postgres.column_types import is_padded
from tidelock.engine.model.records import Column, Kind

_TIMES: Final = (Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME)
_NUMERIC: Final = "numeric"
_TEXTS: Final = ("text", "character varying")


def changes_values(before: Column, after: Column) -> str:
    """Returns why rows may hold other values; '' where they certainly hold the same."""
    if before.type == after.type:
        return ""
    match before.kind, after.kind:
        case Kind.INT, Kind.INT if before.unsigned == after.unsigned:
            return ""
        case (Kind.INT | Kind.DECIMAL), Kind.OTHER if after.type == _NUMERIC and not before.unsigned:
            return ""
        case (Kind.INT | Kind.DECIMAL), Kind.DECIMAL if not before.unsigned:
            rounded = after.scale < before.scale or "-" in after.type
            return "digits are rounded" if rounded else ""
        case Kind.FLOAT, Kind.DOUBLE:
            return ""
        case Kind.DATE, Kind.DATETIME:
            return ""
        case one, other if one is other and one in _TIMES:
            return "fractions of a second are rounded" if after.scale < before.scale else ""
        case (Kind.TEXT | Kind.ENUM), Kind.TEXT if _is_text(after) and not is_padded(before):
            if before.kind is Kind.ENUM:
                return "labels may be longer" if after.length else ""
            return _shorter(before, after) if _is_text(before) else _told(before, after)
    return _told(before, after)


def _told(before: Column, after: Column) -> str:
    return f"what {before.type} becomes as {after.type} is not told by the two types"


def _is_text(column: Column) -> bool:
    return column.type.partition("(")[0] in _TEXTS


def _shorter(before: Column, after: Column) -> str:
    fits = not after.length or 0 < before.length <= after.length
    return "" if fits else f"texts may be longer than {after.type}, of which spaces at the end go"
