"""Reads rows back from a table at the target, spelled as the source's log has them.

The server writes each value as text that does not depend on how its session writes dates; `adapters.schema.
log_spelling` then gives it the digits of the source's column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from tidelock.adapters.postgres.target.equal_rows import output_text
from tidelock.adapters.postgres.target.statements import identifier
from tidelock.adapters.schema.log_spelling import spelled
from tidelock.engine.model.records import Column, Kind, Value

_BYTES: Final = (Kind.BINARY, Kind.GEOMETRY, Kind.VECTOR)
_MOMENTS: Final = (Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP)
_UTC: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)\+00", re.ASCII)
_MICROS: Final = 1_000_000
_MOMENT: Final = "YYYY-MM-DD HH24:MI:SS.US"


def asked(column: Column, type: str, table: str) -> str:
    """Returns SQL for the text of a column, which has this type in the table that the query calls `table`."""
    name = f"{table}.{identifier(column.name)}"
    if type == "bytea":
        return f"encode({name}, 'hex')"
    if column.kind is Kind.OTHER:
        return f"CASE WHEN {name} IS DISTINCT FROM NULL THEN {output_text(name)} END"
    if column.type and column.kind in _MOMENTS:
        return f"{name}::text"
    if column.kind in _BYTES:
        return f"encode(convert_to({name}::text, 'UTF8'), 'hex')"
    if type == "boolean":
        return f"{name}::int::text"
    if type == "interval" or type.startswith("interval "):
        return f"(extract(epoch FROM {name}) * {_MICROS})::numeric::bigint::text"
    if type.startswith("timestamp"):
        moment = f"{name} AT TIME ZONE 'UTC'" if type.endswith("with time zone") else name
        return f"to_char({moment}, '{_MOMENT}')"
    if type == "date":
        return f"to_char({name}, 'YYYY-MM-DD')"
    if type == "real":  # the log has the 32-bit value widened, and its own text is shorter
        return f"{name}::float8::text"
    if type == "inet":
        return f"host({name})"
    return f"{name}::text"


def reader(column: Column, type: str) -> Callable[[Any], Value]:
    """Returns the function from that text to the value of the log.  It raises NotSpelled."""
    text = _text(column, type)
    return lambda shown: spelled(column, None if shown is None else text(shown))


def _text(column: Column, type: str) -> Callable[[Any], Any]:
    if type == "bytea" and column.kind not in _BYTES:
        return lambda shown: bytes.fromhex(shown).decode()
    if column.type and column.kind in _MOMENTS:
        return _without_zone
    if column.kind is Kind.OTHER:
        return lambda shown: shown
    if type.startswith("bit"):
        return lambda shown: int(shown, 2)
    if type == "interval" or type.startswith("interval "):
        return lambda shown: _clock(int(shown))
    return lambda shown: shown


def _without_zone(shown: str) -> str:
    """Cuts the zone off a moment of the years 1 to 9999, which the log has without one."""
    found = _UTC.fullmatch(shown)
    return found[1] if found else shown


def _clock(micros: int) -> str:
    seconds, rest = divmod(abs(micros), _MICROS)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{'-' if micros < 0 else ''}{hours:02}:{minutes:02}:{seconds:02}.{rest:06}"
