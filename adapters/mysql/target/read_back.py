"""Spells SQL that reads a column of the target as text, from which `adapters.schema.log_spelling` makes the log's
value."""

from __future__ import annotations

from tidelock.adapters.mysql.target.statements import identifier
from tidelock.engine.model.records import Column, Kind


def asked(column: Column, table: str) -> str:
    """Returns SQL for the text of a column, of the relation that the query calls `table`."""
    name = f"{table}.{identifier(column.name)}"
    match column.kind:
        case Kind.BINARY:
            return f"HEX({name})"
        case Kind.GEOMETRY:
            return f"HEX(CONVERT({name} USING binary))"
        case Kind.VECTOR:
            return f"HEX(CAST({name} AS BINARY))"
        case Kind.INT | Kind.YEAR | Kind.BIT | Kind.BOOL:
            return f"CAST({name}+0 AS CHAR)"
        case Kind.FLOAT | Kind.DOUBLE:
            return f"CAST({name} AS DOUBLE)"
        case Kind.TEXT | Kind.ENUM | Kind.SET | Kind.JSON | Kind.OTHER:
            return f"CONVERT({name} USING utf8mb4)"
        case _:
            return f"CAST({name} AS CHAR)"
