"""Errors of a PostgreSQL connection as `Failure`s: SQLSTATE to `Trouble`, and words without other columns' data."""

from __future__ import annotations

import asyncpg

from engine.errors import Failure, Trouble

MESSAGE_CHARACTERS = 1_000
CONNECTION_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""Whatever a statement may raise; anything else is a bug."""

_LOST_CLASSES = ("08",)
_LOST_CODES = frozenset(("57P01", "57P02", "57P03", "57P05", "25P03"))
_TRANSIENT_CLASSES = ("40",)
_TRANSIENT_CODES = frozenset(("55P03", "57014"))
_ROW_CLASSES = ("22", "23", "44")
# A trigger that raises, and a row too large for its page or its index.
_ROW_CODES = frozenset(("P0001", "54000"))
# These name a key's values; the details of other codes show the whole row.
_DETAILED = frozenset(("23505", "23503"))


def connection_lost(error: BaseException) -> bool:
    """True where the server cannot have told, or may not have told, how the statement ended."""
    if not isinstance(error, asyncpg.PostgresError):
        return isinstance(error, CONNECTION_ERRORS)
    code = error.sqlstate or ""
    return code.startswith(_LOST_CLASSES) or code in _LOST_CODES


def failure_of(error: BaseException, *, committing: bool = False, tables: str = "") -> Failure:
    """`committing`: a COMMIT was on its way.  `tables`: named where the server's message names none."""
    if connection_lost(error):
        trouble = Trouble.IN_DOUBT if committing else Trouble.TRANSIENT
        return Failure(trouble, f"the connection to the target was lost: {_words(error)}", _code(error))
    return Failure(_trouble(_code(error)), _words(error, tables), _code(error))


def _code(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", "") or "")


def _trouble(code: str) -> Trouble:
    if code.startswith(_TRANSIENT_CLASSES) or code in _TRANSIENT_CODES:
        return Trouble.TRANSIENT
    if code.startswith(_ROW_CLASSES) or code in _ROW_CODES:
        return Trouble.ROW
    return Trouble.TARGET


def _words(error: BaseException, tables: str = "") -> str:
    if not isinstance(error, asyncpg.PostgresError):
        return str(error)[:MESSAGE_CHARACTERS] or type(error).__name__
    table = f"{error.schema_name}.{error.table_name}" if getattr(error, "table_name", None) else tables
    constraint = getattr(error, "constraint_name", None)
    named = f"{table}, constraint {constraint}" if table and constraint else table
    detail = getattr(error, "detail", None) if _code(error) in _DETAILED else None
    message = str(error.args[0]) if error.args else type(error).__name__
    text = ". ".join(part for part in (message, detail) if part)
    return (f"{named}: {text}" if named else text)[:MESSAGE_CHARACTERS]
