"""The meaning of each error number of a MySQL or MariaDB server: `docs/reference/errors.md` is made of this table.

For a batch at a target it is an `ErrorKind`; at a source TRANSIENT means that the reader connects again.  A number that
is not listed is TARGET: the feed halts and shows the server's words.
"""

from __future__ import annotations

from typing import Final

import msgspec
from pymysql.constants import CR, ER

from tidelock.engine.model.errors import ErrorKind


class Meaning(msgspec.Struct, frozen=True):
    """`says`: only where the server's words hold one of these.  `lost`: the connection is of no further use.
    `elsewhere`: another server may answer at the same address by now, so the next try connects anew."""

    numbers: tuple[int, ...]
    kind: ErrorKind
    what: str
    says: tuple[str, ...] = ()
    lost: bool = False
    elsewhere: bool = False

    @property
    def passes(self) -> bool:
        """The server itself says that it cannot now: a run that starts waits for it."""
        return self.kind is ErrorKind.TRANSIENT and not self.lost


_FULL_DISK: Final = ("errno: 28", "Errcode: 28", "error 28", "error: 28", "No space left")

MEANINGS: Final = (
    Meaning(
        (
            CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR,
            CR.CR_UNKNOWN_HOST, CR.CR_SSL_CONNECTION_ERROR, 2055,
        ),
        ErrorKind.TRANSIENT, "the connection failed or was lost", lost=True,
    ),
    Meaning((ER.SERVER_SHUTDOWN, 1927, 3169, 4031), ErrorKind.TRANSIENT, "the server ended the session", lost=True),
    Meaning((1158, 1159, 1160, 1161), ErrorKind.TRANSIENT, "the server lost the connection", lost=True),
    Meaning((ER.CON_COUNT_ERROR, 1203, 1226), ErrorKind.TRANSIENT, "too many connections, or a limit of the account"),
    Meaning((1129,), ErrorKind.TRANSIENT, "the server blocks this host until `FLUSH HOSTS`"),
    Meaning((1021, 1114, 1878, 20, 135), ErrorKind.TRANSIENT, "the disk or a tablespace is full"),
    Meaning((3, 1026, 1030), ErrorKind.TRANSIENT, "the disk is full", says=_FULL_DISK),
    Meaning((1037, 1038, 1041, 1135, 1206), ErrorKind.TRANSIENT, "out of memory or threads"),
    Meaning(
        (1290,), ErrorKind.TRANSIENT, "the target is read-only",
        says=("read-only", "read_only"), elsewhere=True,
    ),
    Meaning((1792, 1836, 1874), ErrorKind.TRANSIENT, "the target is read-only", elsewhere=True),
    Meaning((3032, 3168), ErrorKind.TRANSIENT, "the server is offline or does not serve yet", elsewhere=True),
    Meaning(
        (1047, 3100, 3101), ErrorKind.TRANSIENT, "a node of a cluster is not ready, or refused the commit",
        elsewhere=True,
    ),
    Meaning((ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, 3058, 3572), ErrorKind.TRANSIENT, "a deadlock, or a lock timeout"),
    Meaning(
        (ER.QUERY_INTERRUPTED, 3024, 1969), ErrorKind.TRANSIENT, "a statement was cancelled or took too long"
    ),
    Meaning(
        (1105,), ErrorKind.TRANSIENT, "a statement that a server ends while it shuts down",
        says=("An error occurred in multi-table",),
    ),
    Meaning((1412, 1020), ErrorKind.TRANSIENT, "a table or a row was changed meanwhile"),
    Meaning(
        (ER.DUP_ENTRY, 1022, 1586, 1169, 1761, 1762), ErrorKind.ROW, "a unique value is taken"
    ),
    Meaning(
        (
            ER.NO_REFERENCED_ROW, ER.ROW_IS_REFERENCED, ER.NO_REFERENCED_ROW_2, ER.ROW_IS_REFERENCED_2, 3819, 4025,
            ER.BAD_NULL_ERROR, 1263, ER.NO_DEFAULT_FOR_FIELD,
        ),
        ErrorKind.ROW, "a foreign key, a CHECK or NOT NULL",
    ),
    Meaning(
        (
            ER.DATA_TOO_LONG, ER.TRUNCATED_WRONG_VALUE, ER.TRUNCATED_WRONG_VALUE_FOR_FIELD, ER.WARN_DATA_OUT_OF_RANGE,
            ER.WARN_DATA_TRUNCATED, ER.DIVISION_BY_ZERO, 1411, 1525, 1690, 1526, 1748, 3105, 1906,
        ),
        ErrorKind.ROW, "a value that its column, or any partition, cannot hold",
    ),
    Meaning((1267, 1270, 1271, 1300, 3854, 3988), ErrorKind.ROW, "a text that a character set cannot hold"),
    Meaning((3140, 3141, 3144, 3146, 3147, 3156, 3157, 3158, 3903), ErrorKind.ROW, "JSON"),
    Meaning((ER.CANT_CREATE_GEOMETRY_OBJECT, 3033, 3037, 3548, 3616, 3617, 3643), ErrorKind.ROW, "geometry"),
    Meaning((1118, 139, 1713, 1153), ErrorKind.ROW, "a row too large for the table or for `max_allowed_packet`"),
    Meaning((1644,), ErrorKind.ROW, "a trigger of the target raised it"),
    Meaning(
        (
            ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR,
            ER.SPECIFIC_ACCESS_DENIED_ERROR, 1698, 1130,
        ),
        ErrorKind.TARGET, "user, password or a missing right",
    ),
    Meaning((ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR), ErrorKind.TARGET, "a table or database is missing"),
)  # fmt: skip
_OTHER: Final = Meaning((), ErrorKind.TARGET, "anything else")
_BY_NUMBER: Final = {number: meaning for meaning in MEANINGS for number in meaning.numbers}


def meaning(number: int, words: str) -> Meaning:
    """Look up an error number.  `words`: the server's."""
    found = _BY_NUMBER.get(number, _OTHER)
    return _OTHER if found.says and not any(sign in words for sign in found.says) else found
