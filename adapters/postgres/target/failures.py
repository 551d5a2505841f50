"""Errors of a PostgreSQL connection as `Failure`s: SQLSTATE to `ErrorKind`, and words without other columns' data."""

from __future__ import annotations

import asyncpg

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.postgres.sqlstates import Meaning, meaning
from tidelock.adapters.postgres.target.compared_values import difference
from tidelock.adapters.postgres.target.statements import is_missing
from tidelock.engine.model.errors import MISSING, ErrorKind, Failure

MESSAGE_CHARACTERS = 1_000
SERVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""Whatever a statement may raise; anything else is a bug."""

_PANIC = "PANIC"
# These name a key's values; the details of other codes show the whole row.
_DETAILED = frozenset(("23505", "23503"))


_HINTS = {
    "28P01": "check the user and password of the feed's target",
    "28000": "check the user of the feed's target and the server's pg_hba.conf",
    "3D000": "create the database or correct the feed's target",
    "42P01": "run `tidelock init --apply`, which makes the bookkeeping tables",
    "3F000": "run `tidelock init --apply`, which makes the bookkeeping tables",
    "42501": "grant the feed's user what `tidelock init` prints",
    "55P03": "another session holds this feed's row in tidelock_owner; end it (pg_stat_activity shows it)",
    "25006": "the target is read-only: point the feed at the writable server, or make this one so",
    "53100": "free space at the target",
    "53300": "raise max_connections at the target or lower the feed's `lanes`",
}


def connection_lost(error: BaseException) -> bool:
    """True where the server cannot have told, or may not have told, how the statement ended.

    A PANIC is the end of the whole server: where it cannot write its log (a full disk), what it was to commit may be
    there once it has recovered, or not.
    """
    if not isinstance(error, asyncpg.PostgresError):
        return isinstance(error, SERVER_ERRORS)
    return _PANIC in (getattr(error, "severity_en", None), getattr(error, "severity", None)) or _meaning(error).lost


def elsewhere(error: BaseException) -> bool:
    """True where the server is not, or no longer, the one to write to: the next try must connect anew."""
    return isinstance(error, asyncpg.PostgresError) and _meaning(error).elsewhere


def passes(error: BaseException) -> bool:
    """True where the server itself says that it cannot now."""
    return isinstance(error, asyncpg.PostgresError) and _meaning(error).passes


def failure_of(error: BaseException, *, committing: bool = False, tables: str = "") -> Failure:
    """Say what `error` means.

    `committing`: a COMMIT was on its way.  `tables`: named where the server's message names none.
    """
    if connection_lost(error):
        trouble = ErrorKind.IN_DOUBT if committing else ErrorKind.TRANSIENT
        return Failure(trouble, f"the connection to the target was lost: {_words(error)}", _code(error))
    if is_missing(error):
        return Failure(ErrorKind.ROW, f"{tables}: {MISSING}" if tables else MISSING, _code(error))
    if words := difference(error):
        return Failure(ErrorKind.ROW, (f"{tables}: {words}" if tables else words)[:MESSAGE_CHARACTERS], _code(error))
    return Failure(_meaning(error).kind, _words(error, tables), _code(error))


def target_error(error: BaseException, endpoint: Endpoint) -> TargetError:
    """Say what is wrong with the target, and what to do, for the operator before the feed runs."""
    failure = failure_of(error)
    hint = _HINTS.get(failure.code, "check that the target runs and can be reached from here")
    return TargetError(
        f"{endpoint}: {failure.message}", hint, passing=passes(error), unreachable=connection_lost(error)
    )


def _meaning(error: BaseException) -> Meaning:
    return meaning(_code(error), str(error.args[0]) if error.args else "")


def _code(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", "") or "")


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
