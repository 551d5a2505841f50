"""The meaning of a MySQL or MariaDB server's error for a batch (`error_numbers`), and what to tell the operator."""

from __future__ import annotations

import ssl

from pymysql import err
from pymysql.constants import ER

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.mysql.error_numbers import meaning
from tidelock.adapters.mysql.target.session import StatementFailed, is_lost
from tidelock.adapters.ports.sink import TargetError
from tidelock.engine.model.errors import ErrorKind, Failure

SERVER_ERRORS = (err.MySQLError, OSError, StatementFailed, TargetError)
"""Errors that a statement or a connection may fail with."""
DUPLICATE = ER.DUP_ENTRY
MIXED_COLLATIONS = 1267
CLASHES = frozenset((DUPLICATE, 1451, 1452))
"""A row stands in another's way: by a unique value, or as its parent or child."""
REFERRED_TO = frozenset((1451, 1217))
"""Rows refer to one that is to go."""
UNCOMPARABLE = frozenset((MIXED_COLLATIONS, 1270, 1271, 3854))
"""A text that the charset of a column cannot hold, or (MariaDB) might not, compared with it."""
DEADLOCK = ER.LOCK_DEADLOCK
TOO_LARGE = 1153  # ER_NET_PACKET_TOO_LARGE: longer than max_allowed_packet
LOCK_TIMEOUT = ER.LOCK_WAIT_TIMEOUT
NO_SUCH_THREAD = ER.NO_SUCH_THREAD

_ROLLED_BACK = frozenset((ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, 3101))
_HINTS: dict[int, str] = {
    ER.NO_SUCH_TABLE: "run `tidelock init --apply`, which makes missing tables and the bookkeeping",
    ER.BAD_DB_ERROR: "create the database at the target, or run `tidelock init --apply`",
    ER.ACCESS_DENIED_ERROR: "check user and password in the target's URL",
    ER.DBACCESS_DENIED_ERROR: "grant the feed's user access: `tidelock init` prints the GRANT statements",
    ER.TABLEACCESS_DENIED_ERROR: "grant the feed's user access: `tidelock init` prints the GRANT statements",
    ER.SPECIFIC_ACCESS_DENIED_ERROR: "grant the feed's user access: `tidelock init` prints the GRANT statements",
    ER.OPTION_PREVENTS_STATEMENT: "the target is read-only: point the feed at the writable server, or set read_only=0",
    ER.RECORD_FILE_FULL: "free space at the target",
    1021: "free space at the target",
    ER.CON_COUNT_ERROR: "raise max_connections at the target or lower the feed's `lanes`",
    1203: "raise max_user_connections at the target or lower the feed's `lanes`",
    1226: "raise the limits of the feed's account at the target, or lower the feed's `lanes`",
    ER.KILL_DENIED_ERROR: "an older run of this feed is connected as another user: stop it, or grant CONNECTION_ADMIN",
}


def failure_of(error: Exception, table: str = "") -> Failure:
    """Say what `error` means, of the driver or a system call, before COMMIT was sent.

    `table`: whose statement it was.
    """
    code, words = code_of(error), _words(error)
    return Failure(_trouble(error, code), f"{table}: {words}" if table else words, str(code or ""))


def commit_failure(error: Exception) -> Failure:
    """Say what a failed COMMIT means.

    `error` is the answer to COMMIT, or the connection was lost after it was sent: in doubt unless the server says
    that it rolled back."""
    code = code_of(error)
    trouble = ErrorKind.TRANSIENT if code in _ROLLED_BACK else ErrorKind.IN_DOUBT
    return Failure(trouble, f"COMMIT: {_words(error)}", str(code or ""))


def _trouble(error: Exception, code: int) -> ErrorKind:
    if isinstance(error.__cause__, ssl.SSLError) or isinstance(error, TargetError):
        return ErrorKind.TARGET
    if not isinstance(error, err.MySQLError) or is_lost(error):
        return ErrorKind.TRANSIENT
    return meaning(code, _words(error)).kind


def target_error(error: Exception, endpoint: Endpoint) -> TargetError:
    """Say what is wrong with the target, and what to do, for the operator before the feed runs."""
    code = code_of(error)
    hint = _HINTS.get(code, "see the server's error log; check that it runs, and the host and port in the target's URL")
    words = _words(error)
    return TargetError(
        f"{endpoint}: {words}" + (f" ({code})" if code else ""),
        hint,
        passing=meaning(code, words).passes,
        unreachable=isinstance(error, OSError) or (isinstance(error, err.MySQLError) and is_lost(error)),
    )


def code_of(error: Exception) -> int:
    """The server's or driver's error number; 0: none."""
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def _words(error: Exception) -> str:
    if isinstance(error.__cause__, ssl.SSLError):
        return f"TLS: {error.__cause__}"
    if isinstance(error, TargetError):
        return f"{error}; {error.hint}"
    return str(error.args[1]) if isinstance(error, err.MySQLError) and len(error.args) > 1 else str(error)
