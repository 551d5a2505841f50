"""Modes of a session (`sql_mode`) in which words of a statement mean other types or values than they do else.

| mode                 | servers | word           | means                            |
|----------------------|---------|----------------|----------------------------------|
| REAL_AS_FLOAT        | both    | REAL           | FLOAT, in place of DOUBLE        |
| ORACLE               | MariaDB | DATE, BLOB     | DATETIME, LONGBLOB               |
| EMPTY_STRING_IS_NULL | MariaDB | '' as a value  | NULL                             |
"""

from __future__ import annotations

from typing import Final, Literal

from tidelock.adapters.ddl.lexer import Mark, tokens, without_settings
from tidelock.engine.model.schema_change import Ddl

_REAL_AS_FLOAT: Final = 1
_ORACLE: Final = 1 << 9
_EMPTY_IS_NULL: Final = 1 << 32


def means_others(ddl: Ddl, dialect: Literal["mysql", "mariadb"]) -> bool:
    """Tells whether a word of the statement means another type or value in the mode that it ran in.  One that brings
    its own mode (MariaDB's SET STATEMENT) may have run in any.  Raises NotPlain."""
    inner = without_settings(ddl.statement)
    is_own = inner != ddl.statement and "SQL_MODE" in ddl.statement.upper()
    mode = ~0 if is_own else ddl.sql_mode or 0
    found = tokens(inner, lenient=True)
    words = {token.upper for token in found}
    if mode & _REAL_AS_FLOAT and "REAL" in words:
        return True
    if dialect == "mysql":
        return False
    if mode & _ORACLE and words & {"DATE", "BLOB"}:
        return True
    return bool(mode & _EMPTY_IS_NULL) and any(token.mark is Mark.STRING and not token.text for token in found)
