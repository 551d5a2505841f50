"""DDL from the source's log: what a statement is (`classify`), and what it becomes at the target (`translate`).

| statement                                                                    | kind         |
|------------------------------------------------------------------------------|--------------|
| CREATE TABLE of plain columns, keys and foreign keys that only refuse        | CREATE_TABLE |
| ALTER TABLE that only adds columns whose value in old rows is certain        | ADD_COLUMN   |
| TRUNCATE                                                                     | TRUNCATE     |
| views, procedures, functions, triggers, events, accounts, servers,           | UNRELATED    |
| tablespaces, CREATE and ALTER DATABASE, plain indexes, storage options       |              |
| all else, and whatever is not wholly understood                              | OTHER        |

`tables` and `databases` of OTHER name every table whose rows may be concerned; without either any may be: the statement
cannot be read.  MariaDB's `SET STATEMENT … FOR` counts as the statement that it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.lexer import NotPlain, Reader, tokens, without_settings
from tidelock.adapters.ddl.parser import NewColumn, added, created, table_name
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.schema.create_table import column_type, create_table, identifier, qualified
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.schema.type_map import quoted
from tidelock.engine.model.emptying import children_first
from tidelock.engine.model.records import AddedColumn, Ddl, DdlKind, Kind, TableName, Value
from tidelock.engine.model.schema import TargetTable

# A tablespace must be empty to go; REFERENCE: a spatial reference system.
_ROWLESS = frozenset(
    ("VIEW", "PROCEDURE", "FUNCTION", "PACKAGE", "TRIGGER", "EVENT", "USER", "ROLE", "SERVER", "INSTANCE", "RESOURCE")
) | frozenset(("LIBRARY", "TABLESPACE", "LOGFILE", "REFERENCE"))
_OBJECTS = _ROWLESS | frozenset(("TABLE", "TABLES", "INDEX", "DATABASE", "SCHEMA", "SEQUENCE"))
_ADMINISTRATION = frozenset(("GRANT", "REVOKE", "SET", "FLUSH", "ANALYZE", "OPTIMIZE", "INSTALL", "UNINSTALL"))
_STORAGE = frozenset(
    ("ENGINE", "COMMENT", "AUTO_INCREMENT", "ROW_FORMAT", "KEY_BLOCK_SIZE", "STATS_PERSISTENT", "STATS_AUTO_RECALC")
) | frozenset(("STATS_SAMPLE_PAGES", "ALGORITHM", "LOCK", "FORCE", "ENCRYPTION", "PAGE_COMPRESSED"))
_STORAGE |= {"ENABLE", "DISABLE"}  # KEYS
# JSON is a type of its own in MySQL and text in MariaDB; these keep the text of both.
_BINARY = "utf8mb4_bin"  # of MySQL and MariaDB alike, for a column that is no key
_JSON: dict[Dialect, str] = {"postgres": "json", "mysql": "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"}


def classify(ddl: Ddl, dialect: Literal["mysql", "mariadb"], *, folded: bool = False) -> Ddl:
    """Returns `ddl` with kind, tables and databases filled in.  Never raises: a statement that is not understood is
    OTHER.

    `dialect`: the source's; both are read alike, and JSON, which differs, is carried over as text.  `folded`: the
    source keeps names in lower case, however a statement spells them (`lower_case_table_names=1`).
    """
    databases: list[str] = []
    kind, tables = _kind(ddl, databases)
    if folded:
        tables = [TableName(name.schema.lower(), name.table.lower()) for name in tables]
        databases = [name.lower() for name in databases]
    return msgspec.structs.replace(ddl, kind=kind, tables=tuple(dict.fromkeys(tables)), databases=tuple(databases))


def _kind(ddl: Ddl, databases: list[str]) -> tuple[DdlKind, list[TableName]]:
    """Returns kind and tables; adds to `databases` those that go with all their tables."""
    try:
        reader = _lenient(ddl)
        verb = reader.peek()
        if verb in _ADMINISTRATION:
            return DdlKind.UNRELATED, []
        what, replaces = _object(reader)
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
                return DdlKind.OTHER, [_after_on(reader, ddl.schema)]
            case "ALTER", "TABLE":
                return _try_altered(ddl, reader)
            case "DROP" | "RENAME", "TABLE" | "TABLES":
                return DdlKind.OTHER, _listed(reader, ddl.schema, whole=True)
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
        if word == "(":
            break
    return "", replaces


def _lenient(ddl: Ddl) -> Reader:
    """Returns a reader at the statement's begin.  Raises NotPlain."""
    return Reader(tokens(without_settings(ddl.statement), lenient=True))


def _plain(ddl: Ddl, *words: str) -> Reader:
    """Returns a reader after `words`, which must begin the statement.  Raises NotPlain."""
    reader = Reader(tokens(without_settings(ddl.statement)))
    reader.expect(*words)
    return reader


def _truncated(ddl: Ddl) -> TableName:
    reader = _lenient(ddl)
    reader.expect("TRUNCATE")
    reader.take("TABLE")
    name = table_name(reader, ddl.schema)
    _past_wait(reader)
    if not reader.ended:
        raise NotPlain(reader.rest())
    return name


def _past_wait(reader: Reader) -> None:
    if reader.take("WAIT"):
        reader.number()
    reader.take("NOWAIT")


def _try_created(ddl: Ddl, reader: Reader) -> tuple[DdlKind, list[TableName]]:
    reader.take("IF", "NOT", "EXISTS")
    name = table_name(reader, ddl.schema)
    try:
        created(_plain(ddl, "CREATE", "TABLE"), ddl.schema)
    except NotPlain:
        return DdlKind.OTHER, [name]
    return DdlKind.CREATE_TABLE, [name]


def _try_altered(ddl: Ddl, reader: Reader) -> tuple[DdlKind, list[TableName]]:
    reader.take("IF", "EXISTS")
    name = table_name(reader, ddl.schema)
    try:
        added(_plain(ddl, "ALTER", "TABLE"), ddl.schema)
    except NotPlain:
        pass
    else:
        return DdlKind.ADD_COLUMN, [name]
    if _only_storage(ddl):
        return DdlKind.UNRELATED, [name]
    return DdlKind.OTHER, [name, *_others(reader, ddl.schema)]


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


def _only_storage(ddl: Ddl) -> bool:
    """Returns whether an ALTER TABLE touches plain indexes and storage alone."""
    try:
        reader = _lenient(ddl)
        reader.expect("ALTER", "TABLE")
        table_name(reader, ddl.schema)
        while not reader.ended:
            if reader.take("ADD"):
                reader.take("FULLTEXT") or reader.take("SPATIAL")
                if not (reader.take("INDEX") or reader.take("KEY")):
                    return False
                while reader.peek() != "(":
                    reader.name()
                reader.skip_group()
            elif reader.peek() not in _STORAGE:
                return False
            if not _past_comma(reader):
                return False
    except NotPlain:
        return False
    return True


def _past_comma(reader: Reader) -> bool:
    """Goes to the next action; returns False where this one holds a group."""
    while not reader.ended:
        match reader.next().upper:
            case ",":
                break
            case "(":
                return False
    return True


def _index_made(ddl: Ddl, reader: Reader) -> tuple[DdlKind, list[TableName]]:
    head = _lenient(ddl)
    words = [head.next().upper for _ in range(4)]
    name = _after_on(reader, ddl.schema)
    return (DdlKind.OTHER if "UNIQUE" in words or "REPLACE" in words else DdlKind.UNRELATED), [name]


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
        _past_wait(reader)
        if not (reader.take(",") or reader.take("TO")):
            break
        names.append(table_name(reader, schema))
    reader.take("RESTRICT") or reader.take("CASCADE")
    _past_wait(reader)
    if whole and not reader.ended:
        raise NotPlain(reader.rest())
    return names


def translate(
    ddl: Ddl,
    dialect: Dialect,
    target_name: Callable[[TableName], TableName],
    tables: Mapping[TableName, TargetTable] = {},
) -> list[str]:
    """Returns statements that do the same at the target.  Where they may fail because they ran before, the sink knows.

    `tables`: the target's, of which those that refer to others are emptied first.  Raises TargetError for a statement
    that cannot be carried over.
    """
    try:
        match ddl.kind:
            case DdlKind.CREATE_TABLE:
                source = created(_plain(ddl, "CREATE", "TABLE"), ddl.schema)
                return create_table(source, target_name(ddl.tables[0]), dialect, _JSON[dialect])
            case DdlKind.ADD_COLUMN if ddl.added:
                return [_add_told(target_name(ddl.tables[0]), ddl.added, dialect)]
            case DdlKind.ADD_COLUMN:
                _, columns = added(_plain(ddl, "ALTER", "TABLE"), ddl.schema)
                return [_add_columns(target_name(ddl.tables[0]), columns, dialect)]
            case DdlKind.TRUNCATE:
                order = children_first(emptied(ddl, target_name), tables)
                return [f"DELETE FROM {qualified(dialect, name)}" for name in order]
            case _:
                raise NotPlain("its kind")
    except NotPlain as error:
        raise TargetError(
            f"this statement cannot be carried over to the target (at {error}): {ddl.statement}",
            "do by hand at the target what it means there, then `tidelock ddl done`",
        ) from None


def gone(ddl: Ddl) -> tuple[tuple[TableName, ...], tuple[str, ...]]:
    """Returns the source's tables, and whole databases, that have no rows left once the statement has run."""
    try:
        reader = _lenient(ddl)
        verb = reader.peek()
        what, replaces = _object(reader)
    except NotPlain:
        return (), ()
    dropped = verb == "DROP" and what in ("TABLE", "TABLES")
    return (ddl.tables if dropped or replaces or verb == "TRUNCATE" else ()), ddl.databases


def emptied(ddl: Ddl, target_name: Callable[[TableName], TableName]) -> tuple[TableName, ...]:
    """Returns the target's tables whose rows a TRUNCATE removes, their failed rows included.  PostgreSQL's may name
    several."""
    return tuple(dict.fromkeys(map(target_name, ddl.tables))) if ddl.kind is DdlKind.TRUNCATE else ()


def _add_columns(table: TableName, columns: list[NewColumn], dialect: Dialect) -> str:
    missing = "IF NOT EXISTS " if dialect == "postgres" else ""
    actions = [
        f"ADD COLUMN {missing}{identifier(dialect, c.column.name)} {column_type(c.column, dialect, _JSON[dialect])}"
        f"{'' if c.column.nullable else ' NOT NULL'}{_default(c, dialect)}"
        for c in columns
    ]
    return f"ALTER TABLE {qualified(dialect, table)} {', '.join(actions)}"


def _add_told(table: TableName, added: Sequence[AddedColumn], dialect: Dialect) -> str:
    """Columns that the log of a PostgreSQL source tells, without a statement of its own."""
    missing = "IF NOT EXISTS " if dialect == "postgres" else ""
    actions = [
        f"ADD COLUMN {missing}{identifier(dialect, new.column.name)} {_told_type(new, dialect)}{_filled(new, dialect)}"
        for new in added
    ]
    return f"ALTER TABLE {qualified(dialect, table)} {', '.join(actions)}"


def _told_type(new: AddedColumn, dialect: Dialect) -> str:
    return column_type(SourceColumn(new.column, new.column.type, nullable=True, collation=_BINARY), dialect)


def _filled(new: AddedColumn, dialect: Dialect) -> str:
    """The clause by which old rows get their value.  MySQL takes one of a long column only as an expression."""
    if new.fill is None:
        return "" if dialect == "postgres" else " NULL"
    if dialect == "postgres":
        return f" DEFAULT {_postgres_text(new.spelled)}"
    return f" NULL DEFAULT ({_mysql_literal(new.fill)})"


def _mysql_literal(value: Value) -> str:
    """A literal for an expression, which MySQL writes down and reads again with other rules for backslashes."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    text = str(value)
    return f"CONVERT(x'{text.encode().hex()}' USING utf8mb4)" if "'" in text or "\\" in text else quoted(text)


def _postgres_text(text: str) -> str:
    """A literal that means the same whatever `standard_conforming_strings` is."""
    return "E" + quoted(text.replace("\\", "\\\\")) if "\\" in text else quoted(text)


def _default(new: NewColumn, dialect: Dialect) -> str:
    if new.fill is None:
        return " NULL" if dialect == "mysql" and new.column.column.kind is Kind.TIMESTAMP else ""
    # MySQL takes a default of a TEXT column only as an expression.
    long_text = dialect == "mysql" and new.column.type.endswith("text")
    return f" DEFAULT ({quoted(new.fill)})" if long_text else f" DEFAULT {quoted(new.fill)}"
