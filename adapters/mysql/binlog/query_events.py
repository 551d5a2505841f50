"""The kinds of statements that a QUERY event may hold.

The log of a server with binlog_format=ROW holds statements only for transaction control, for DDL and for accounts.  A
statement that is not certainly harmless counts as DDL: the engine decides what that means.
"""

from __future__ import annotations

import enum
import re
from typing import Final


class QueryKind(enum.Enum):
    """HARMLESS: touches no replicated data.  EMPTY: a placeholder comment.  ROWS: changes rows by statement.

    EMPTIED: `DELETE FROM table` of a MEMORY table that the server itself logs after a restart.
    """

    BEGIN = enum.auto()
    COMMIT = enum.auto()
    ROLLBACK = enum.auto()
    ROLLBACK_TO = enum.auto()
    SAVEPOINT = enum.auto()
    XA_START = enum.auto()
    XA_END = enum.auto()
    XA_DECIDED = enum.auto()
    HARMLESS = enum.auto()
    EMPTY = enum.auto()
    EMPTIED = enum.auto()
    ROWS = enum.auto()
    DDL = enum.auto()


_COMMENT: Final = re.compile(r"/\*(?!M?!)(?:(?!\*/).)*\*/|(?:#|--(?=\s))[^\n]*", re.DOTALL)
_EXECUTABLE: Final = re.compile(r"/\*M?!\d*|\*/")
# MariaDB's `SET STATEMENT variable=value FOR statement`, which is logged whole.
_SETTINGS: Final = re.compile(
    r"""SET\s+STATEMENT\b(?:'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*"|[^'"])*?\bFOR\b[\s(]*""",
    re.IGNORECASE | re.DOTALL,
)
_EMPTIED: Final = re.compile(r"DELETE FROM `((?:[^`]|``)+)`\.`((?:[^`]|``)+)`\s*", re.IGNORECASE)

_PATTERNS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"BEGIN\b|START\s+TRANSACTION\b", QueryKind.BEGIN),
        (r"COMMIT\b", QueryKind.COMMIT),
        (r"ROLLBACK\s+(WORK\s+)?TO\b", QueryKind.ROLLBACK_TO),
        (r"ROLLBACK\b", QueryKind.ROLLBACK),
        (r"(RELEASE\s+)?SAVEPOINT\b", QueryKind.SAVEPOINT),
        (r"XA\s+(START|BEGIN)\b", QueryKind.XA_START),
        (r"XA\s+END\b", QueryKind.XA_END),
        (r"XA\s+(COMMIT|ROLLBACK)\b", QueryKind.XA_DECIDED),
        (r"ANALYZE\s+(FORMAT\s*=\s*\w+\s+)?(INSERT|UPDATE|DELETE|REPLACE|WITH|SELECT)\b", QueryKind.ROWS),
        (r"(GRANT|REVOKE|FLUSH|ANALYZE|OPTIMIZE)\b", QueryKind.HARMLESS),
        (r"SET\s+(PASSWORD|DEFAULT\s+ROLE)\b", QueryKind.HARMLESS),
        (r"(CREATE|ALTER|DROP|RENAME)\s+(OR\s+REPLACE\s+)?(USER|ROLE)\b", QueryKind.HARMLESS),
        (r"(CREATE|DROP)\s+(OR\s+REPLACE\s+)?TEMPORARY\b", QueryKind.HARMLESS),
        (r"(INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH|CALL|DO|SELECT|HANDLER)\b", QueryKind.ROWS),
    )
)


def classify(statement: str) -> QueryKind:
    """Tell the kind of a statement."""
    text = _EXECUTABLE.sub(" ", _COMMENT.sub(" ", _head(statement))).strip(" \t\r\n;(")
    while found := _SETTINGS.match(text):
        text = text[found.end() :]
    if not text:
        return QueryKind.EMPTY
    if _EMPTIED.fullmatch(text):
        return QueryKind.EMPTIED
    return next((kind for pattern, kind in _PATTERNS if pattern.match(text)), QueryKind.DDL)


def _head(statement: str) -> str:
    """The first words decide; a statement of megabytes is not searched for comments to its end."""
    return statement if len(statement) < _LONG else statement[:_LONG]


_LONG: Final = 4096


def emptied_table(statement: str) -> tuple[str, str]:
    """Schema and table of an EMPTIED statement."""
    found = _EMPTIED.search(statement)
    assert found is not None, "only for EMPTIED statements"
    return found[1].replace("``", "`"), found[2].replace("``", "`")
