"""What a statement of the source's log is: its kind, and the tables that it is about.

| statement                                                                    | kind         |
|------------------------------------------------------------------------------|--------------|
| CREATE TABLE of plain columns, keys and foreign keys that only refuse        | CREATE_TABLE |
| ALTER TABLE that only adds columns whose value in old rows is certain        | ADD_COLUMN   |
| TRUNCATE                                                                     | TRUNCATE     |
| DROP and RENAME TABLE, CREATE TABLE LIKE, columns dropped and renamed, keys  | ALTERED      |
| added, dropped and renamed, several of them and of added columns together    |              |
| plain indexes and defaults of columns: ALTERED, and `optional`               | ALTERED      |
| views, procedures, functions, triggers, events, accounts, servers,           | UNRELATED    |
| tablespaces, CREATE and ALTER DATABASE, CHECKs, foreign keys that only       |              |
| refuse, how a table is partitioned, storage options                          |              |
| all else, and whatever is not wholly understood                              | OTHER        |

`tables` and `databases` of OTHER name every table whose rows may be concerned; without either any may be: the statement
cannot be read.  MariaDB's `SET STATEMENT … FOR` counts as the statement that it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from tidelock.adapters.ddl.alter import altered
from tidelock.adapters.ddl.lexer import NotPlain, Reader
from tidelock.adapters.ddl.made_table import created
from tidelock.adapters.ddl.modes import means_others
from tidelock.adapters.ddl.operations import OPTIONAL, AlterTable, NotCarried, Operation, Rowless
from tidelock.adapters.ddl.parser import added, table_name
from tidelock.adapters.ddl.statement import operations, plain, reader_of
from tidelock.adapters.ddl.table_parts import past_wait
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind

# A tablespace must be empty to go; REFERENCE: a spatial reference system.
_ROWLESS = frozenset(
    ("VIEW", "PROCEDURE", "FUNCTION", "PACKAGE", "TRIGGER", "EVENT", "USER", "ROLE", "SERVER", "INSTANCE", "RESOURCE")
) | frozenset(("LIBRARY", "TABLESPACE", "LOGFILE", "REFERENCE"))
_OBJECTS = _ROWLESS | frozenset(("TEMPORARY", "TABLE", "TABLES", "INDEX", "DATABASE", "SCHEMA", "SEQUENCE"))
_READ = (DdlKind.CREATE_TABLE, DdlKind.ADD_COLUMN, DdlKind.ALTERED)
_ADMINISTRATION = frozenset(("GRANT", "REVOKE", "SET", "FLUSH", "ANALYZE", "OPTIMIZE", "INSTALL", "UNINSTALL"))


def classify(ddl: Ddl, dialect: Literal["mysql", "mariadb"], *, folded: bool = False) -> Ddl:
    """Returns `ddl` with kind, tables and databases filled in.  Never raises: a statement that is not understood is
    OTHER.

    `dialect`: the source's; both are read alike, and JSON, which differs, is carried over as text.  `folded`: the
    source keeps names in lower case, however a statement spells them (`lower_case_table_names=1`).
    """
    databases: list[str] = []
    kind, tables = _kind(ddl, databases)
    if kind in _READ and means_others(ddl, dialect):
        kind = DdlKind.OTHER
    if folded:
        tables = [TableName(name.schema.lower(), name.table.lower()) for name in tables]
        databases = [name.lower() for name in databases]
    optional = kind is DdlKind.ALTERED and is_optional(operations(ddl))
    tables = list(dict.fromkeys(tables))
    return msgspec.structs.replace(
        ddl, kind=kind, tables=tuple(tables), databases=tuple(databases), optional=optional
    )


def _kind(ddl: Ddl, databases: list[str]) -> tuple[DdlKind, list[TableName]]:
    """Returns kind and tables; adds to `databases` those that go with all their tables."""
    try:
        reader = reader_of(ddl, lenient=True)
        verb = reader.peek()
        if verb in _ADMINISTRATION:
            return DdlKind.UNRELATED, []
        what, replaces = _object(reader)
        if verb in ("CREATE", "DROP") and what == "TEMPORARY":
            return DdlKind.UNRELATED, []
        match verb, what:
            case "CREATE" | "ALTER" | "DROP" | "RENAME" | "REPAIR", word if word in _ROWLESS:
                return DdlKind.UNRELATED, []
            case "CREATE" | "ALTER", "DATABASE" | "SCHEMA" if not replaces:
                return DdlKind.UNRELATED, []
            case "CREATE" | "DROP", "DATABASE" | "SCHEMA":
                reader.take("IF", "EXISTS")
                databases.append(reader.name())
                return DdlKind.OTHER, []
            case "TRUNCATE", _:
                return DdlKind.TRUNCATE, [_truncated(ddl)]
            case "CREATE", "TABLE":
                return _try_created(ddl, reader)
            case "CREATE", "INDEX":
                return _index_made(ddl, reader)
            case "DROP", "INDEX":
                return _altering(ddl), [_after_on(reader, ddl.schema)]
            case "ALTER", "TABLE":
                return _try_altered(ddl, reader)
            case "DROP" | "RENAME", "TABLE" | "TABLES":
                return _altering(ddl), _listed(reader, ddl.schema, whole=True)
            case "CREATE" | "DROP" | "ALTER", "SEQUENCE":
                return DdlKind.OTHER, _listed(reader, ddl.schema)
            case "REPAIR", "TABLE" | "TABLES":
                return DdlKind.OTHER, _listed(reader, ddl.schema)
    except NotPlain:
        return DdlKind.OTHER, []
    return DdlKind.OTHER, []


def _object(reader: Reader) -> tuple[str, bool]:
    """Returns the kind of object that a statement is about, and whether it replaces one.  The reader is then after that
    word.
    """
    replaces = False
    while not reader.ended:
        word = reader.next().upper
        replaces = replaces or word == "REPLACE"
        if word in _OBJECTS:
            return word, replaces
        if word == "(" and not reader.take(")"):
            break
    return "", replaces


def _truncated(ddl: Ddl) -> TableName:
    reader = reader_of(ddl, lenient=True)
    reader.expect("TRUNCATE")
    reader.take("TABLE")
    name = table_name(reader, ddl.schema)
    past_wait(reader)
    if not reader.ended:
        raise NotPlain(reader.rest())
    return name


def _try_created(ddl: Ddl, reader: Reader) -> tuple[DdlKind, list[TableName]]:
    reader.take("IF", "NOT", "EXISTS")
    name = table_name(reader, ddl.schema)
    try:
        created(plain(ddl, "CREATE", "TABLE"), ddl.schema)
    except NotPlain:
        return _altering(ddl), [name]
    return DdlKind.CREATE_TABLE, [name]


def _try_altered(ddl: Ddl, reader: Reader) -> tuple[DdlKind, list[TableName]]:
    mark = reader.mark()
    reader.take("IF", "EXISTS")
    name = table_name(reader, ddl.schema)
    kind = DdlKind.OTHER
    try:
        added(plain(ddl, "ALTER", "TABLE"), ddl.schema)
    except NotPlain:
        kind = _altering(ddl)
    else:
        return DdlKind.ADD_COLUMN, [name]
    others = _others(reader, ddl.schema)
    reader.return_to(mark)
    if kind is DdlKind.OTHER and _is_optional(reader, ddl.schema):
        kind = DdlKind.UNRELATED
    return kind, [name, *others]


def _altering(ddl: Ddl) -> DdlKind:
    """Returns ALTERED for a statement that is wholly understood and can be followed."""
    try:
        found = operations(ddl)
    except NotPlain:
        return DdlKind.OTHER
    clauses = [clause for one in found if isinstance(one, AlterTable) for clause in one.clauses]
    if any(isinstance(clause, NotCarried) for clause in clauses):
        return DdlKind.OTHER
    if clauses and all(isinstance(clause, Rowless) for clause in clauses):
        return DdlKind.UNRELATED
    return DdlKind.ALTERED


def is_optional(found: Sequence[Operation]) -> bool:
    """Tells whether no row depends on what operations do."""
    return all(isinstance(one, AlterTable) and all(isinstance(c, OPTIONAL) for c in one.clauses) for one in found)


def _is_optional(reader: Reader, schema: str) -> bool:
    """Tells whether no row depends on an ALTER TABLE, of which strings and executable comments are as they may be."""
    try:
        return is_optional([altered(reader, schema)])
    except NotPlain:
        return False


def _others(reader: Reader, schema: str) -> list[TableName]:
    """Returns the tables that a RENAME, EXCHANGE or CONVERT PARTITION of an ALTER TABLE names.  Raises NotPlain."""
    names: list[TableName] = []
    while not reader.ended:
        if reader.take("RENAME"):
            if reader.peek() not in ("COLUMN", "INDEX", "KEY"):
                reader.take("TO") or reader.take("AS") or reader.take("=")
                names.append(table_name(reader, schema))
        elif reader.take("WITH", "TABLE") or reader.take("TO", "TABLE") or reader.take("CONVERT", "TABLE"):
            names.append(table_name(reader, schema))
        else:
            reader.next()
    return names


def _index_made(ddl: Ddl, reader: Reader) -> tuple[DdlKind, list[TableName]]:
    head = reader_of(ddl, lenient=True)
    words = [head.next().upper for _ in range(4)]
    name = _after_on(reader, ddl.schema)
    kind = _altering(ddl)
    if kind is DdlKind.OTHER and not {"UNIQUE", "REPLACE"} & {*words}:
        kind = DdlKind.UNRELATED
    return kind, [name]


def _after_on(reader: Reader, schema: str) -> TableName:
    while not reader.take("ON"):
        reader.next()
    return table_name(reader, schema)


def _listed(reader: Reader, schema: str, *, whole: bool = False) -> list[TableName]:
    """Reads names separated by commas or TO.  Raises NotPlain; with `whole` also where something unknown follows, which
    may name more.
    """
    reader.take("IF", "NOT", "EXISTS") or reader.take("IF", "EXISTS")
    names = [table_name(reader, schema)]
    while True:
        past_wait(reader)
        if not (reader.take(",") or reader.take("TO")):
            break
        names.append(table_name(reader, schema))
    reader.take("RESTRICT") or reader.take("CASCADE")
    past_wait(reader)
    if whole and not reader.ended:
        raise NotPlain(reader.rest())
    return names


def gone(ddl: Ddl) -> tuple[tuple[TableName, ...], tuple[str, ...]]:
    """Returns the source's tables, and whole databases, that have no rows left once the statement has run."""
    try:
        reader = reader_of(ddl, lenient=True)
        verb = reader.peek()
        what, replaces = _object(reader)
    except NotPlain:
        return (), ()
    dropped = verb == "DROP" and what in ("TABLE", "TABLES", "DATABASE", "SCHEMA")
    return (ddl.tables if dropped or replaces or verb == "TRUNCATE" else ()), ddl.databases
