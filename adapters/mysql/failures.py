"""What a MySQL or MariaDB server's error means for a batch (`engine.errors.Trouble`), and what to tell the operator.

An error number that is not listed is TARGET: the feed halts and shows the server's words.
"""

from __future__ import annotations

import ssl

from pymysql import err
from pymysql.constants import ER

from adapters.endpoint import Endpoint
from adapters.mysql.session import StatementFailed, is_lost
from adapters.sink import TargetError
from engine.errors import Failure, Trouble

SERVER_ERRORS = (err.MySQLError, OSError, StatementFailed, TargetError)
"""What a statement or a connection fails with."""
DUPLICATE = ER.DUP_ENTRY
MIXED_COLLATIONS = 1267
CLASHES = frozenset((DUPLICATE, 1451, 1452))
"""A row stands in another's way: by a unique value, or as its parent or child."""
UNCOMPARABLE = frozenset((MIXED_COLLATIONS, 1270, 1271, 3854))
"""A text that the charset of a column cannot hold, or (MariaDB) might not, compared with it."""
DEADLOCK = ER.LOCK_DEADLOCK
LOCK_TIMEOUT = ER.LOCK_WAIT_TIMEOUT
NO_SUCH_THREAD = ER.NO_SUCH_THREAD

_TRANSIENT = frozenset(
    (
        ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, ER.QUERY_INTERRUPTED, ER.CON_COUNT_ERROR, ER.LOCK_TABLE_FULL,
        1203,  # this user's connections
        1412,  # the table's definition changed within the transaction
        1020,  # the row changed since it was read (MariaDB with innodb_snapshot_isolation)
        1206,  # lock memory
        3024, 1969,  # statement time limit
        3058,  # deadlock of user locks
        3101,  # group replication refused the commit
        3572,  # NOWAIT
        1047,  # a Galera node that is not ready
    )
)  # fmt: skip
_ROW = frozenset(
    (
        ER.DUP_ENTRY, ER.BAD_NULL_ERROR, ER.NO_REFERENCED_ROW, ER.ROW_IS_REFERENCED, ER.NO_REFERENCED_ROW_2,
        ER.ROW_IS_REFERENCED_2, ER.DATA_TOO_LONG, ER.TRUNCATED_WRONG_VALUE, ER.TRUNCATED_WRONG_VALUE_FOR_FIELD,
        ER.WARN_DATA_OUT_OF_RANGE, ER.WARN_DATA_TRUNCATED, ER.DIVISION_BY_ZERO, ER.NO_DEFAULT_FOR_FIELD,
        ER.CANT_CREATE_GEOMETRY_OBJECT,
        1022, 1586,  # duplicate key, without and with its name
        1169, 1761, 1762,  # duplicates found through a foreign key or an old-style index
        1263,  # NULL for a NOT NULL column
        1267, 1270, 1271,  # a text that the column's charset cannot hold, compared with it
        1300, 3854, 3988,  # invalid or unconvertible characters
        1411, 1525, 1690,  # a wrong or impossible value
        1526, 1748,  # no partition for the value
        3140, 3141, 3144, 3146, 3147, 3156, 3157, 3158, 3903,  # JSON
        3033, 3037, 3548, 3616, 3617, 3643,  # geometry
        3819, 4025,  # CHECK
        1118, 139, 1713,  # the row is too large
        1153,  # larger than max_allowed_packet
        3105, 1906,  # a value for a generated column
        1644,  # SIGNAL in a trigger
    )
)  # fmt: skip
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
    ER.KILL_DENIED_ERROR: "an older run of this feed is connected as another user: stop it, or grant CONNECTION_ADMIN",
}


def failure_of(error: Exception, table: str = "") -> Failure:
    """`error` of the driver or of a system call, before COMMIT was sent; `table`: whose statement it was."""
    code, words = code_of(error), _words(error)
    return Failure(_trouble(error, code), f"{table}: {words}" if table else words, str(code or ""))


def commit_failure(error: Exception) -> Failure:
    """`error` is the answer to COMMIT, or the connection was lost after it was sent: in doubt unless the server says
    that it rolled back."""
    code = code_of(error)
    trouble = Trouble.TRANSIENT if code in _ROLLED_BACK else Trouble.IN_DOUBT
    return Failure(trouble, f"COMMIT: {_words(error)}", str(code or ""))


def _trouble(error: Exception, code: int) -> Trouble:
    if isinstance(error.__cause__, ssl.SSLError) or isinstance(error, TargetError):
        return Trouble.TARGET
    if not isinstance(error, err.MySQLError) or is_lost(error) or code in _TRANSIENT:
        return Trouble.TRANSIENT
    return Trouble.ROW if code in _ROW else Trouble.TARGET


def target_error(error: Exception, endpoint: Endpoint) -> TargetError:
    """For the operator, before the feed runs."""
    code = code_of(error)
    hint = _HINTS.get(code, "see the server's error log; check that it runs, and the host and port in the target's URL")
    return TargetError(f"{endpoint}: {_words(error)}" + (f" ({code})" if code else ""), hint)


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
