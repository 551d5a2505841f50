"""The tables of a MySQL or MariaDB source, moved forward by the statements of its log.

What a statement does to a table that is known is known as well, or the table is not known any more behind it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tidelock.adapters.ddl.lexer import NotPlain, Reader
from tidelock.adapters.ddl.made_table import created
from tidelock.adapters.ddl.moved_columns import behind, former_column
from tidelock.adapters.ddl.operations import (
    AddColumn,
    AlterTable,
    Clause,
    CreateLike,
    DropTable,
    Operation,
    RenameTable,
)
from tidelock.adapters.ddl.parser import added
from tidelock.adapters.ddl.statement import operations, plain
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind, FormerTable


def moved(ddl: Ddl, tables: Mapping[TableName, FormerTable]) -> dict[TableName, FormerTable | None]:
    """Returns the tables that a statement changes, of those that are known or that it makes, as they are behind it;
    None: gone, or not known any more."""
    if ddl.kind is DdlKind.TRUNCATE or (ddl.kind is DdlKind.UNRELATED and not ddl.tables):
        return {}
    if not ddl.tables:
        return {name: None for name in tables if not ddl.databases or name.schema in ddl.databases}
    try:
        if ddl.kind is DdlKind.CREATE_TABLE:
            return _created(ddl, tables)
        if ddl.kind is DdlKind.ADD_COLUMN:
            _, columns = added(plain(ddl, "ALTER", "TABLE"), ddl.schema)
            return _clauses(ddl.tables[0], tuple(map(AddColumn, columns)), tables)
        found: dict[TableName, FormerTable | None] = {}
        before = dict(tables)
        for one in operations(ddl):
            made = _moved_by(one, ddl, before)
            found |= made
            before |= {name: table for name, table in made.items() if table is not None}
            for name in [name for name, table in made.items() if table is None]:
                before.pop(name, None)
    except NotPlain:
        return dict.fromkeys(ddl.tables)
    return found


def given_up(ddl: Ddl) -> frozenset[TableName]:
    """Returns the names that no table has behind a statement which is understood."""
    try:
        found = operations(ddl) if ddl.kind is DdlKind.ALTERED else ()
    except NotPlain:
        return frozenset()
    names: dict[TableName, bool] = {}
    for one in found:
        names[_logged(one.table, ddl)] = isinstance(one, DropTable | RenameTable)
        if isinstance(one, RenameTable):
            names[_logged(one.to, ddl)] = False
    return frozenset(name for name, is_gone in names.items() if is_gone)


def _created(ddl: Ddl, tables: Mapping[TableName, FormerTable]) -> dict[TableName, FormerTable | None]:
    """Returns a table that is made.  `IF NOT EXISTS` changes nothing where it was there, and is logged all the same."""
    name = ddl.tables[0]
    if plain(ddl, "CREATE", "TABLE").take("IF", "NOT", "EXISTS"):
        return {} if name in tables else {name: None}
    source = created(plain(ddl, "CREATE", "TABLE"), ddl.schema)
    table = FormerTable((), *_default_texts(plain(ddl, "CREATE", "TABLE")))
    counted = _counted(plain(ddl, "CREATE", "TABLE"))
    columns = tuple(
        replace(former_column(column, table), automatic=column.name == counted) for column in source.columns
    )
    keys = [unique.columns for unique in source.uniques if unique.name == "PRIMARY"]
    return {name: replace(table, columns=columns, primary_key=keys[0] if keys else ())}


def _counted(reader: Reader) -> str:
    """Returns the column of a CREATE TABLE that is AUTO_INCREMENT; '' for none."""
    while reader.peek() != "(":
        reader.next()
    reader.expect("(")
    name = reader.next().text
    while not reader.ended and reader.peek() != ")":
        if reader.peek() == "(":
            reader.skip_group()
        elif reader.take("AUTO_INCREMENT"):
            return name
        elif reader.take(","):
            name = reader.next().text
        else:
            reader.next()
    return ""


def _default_texts(reader: Reader) -> tuple[str, str]:
    """Returns character set and collation that a CREATE TABLE says for texts without their own; '' for none."""
    charset = collation = ""
    while not reader.ended:
        if reader.peek() == "(":
            reader.skip_group()
        elif reader.take("CHARACTER", "SET") or reader.take("CHARSET"):
            reader.take("=")
            charset = reader.name().lower()
        elif reader.take("COLLATE"):
            reader.take("=")
            collation = reader.name().lower()
        else:
            reader.next()
    return charset or collation.partition("_")[0], collation


def _moved_by(
    one: Operation, ddl: Ddl, tables: Mapping[TableName, FormerTable]
) -> dict[TableName, FormerTable | None]:
    name = _logged(one.table, ddl)
    match one:
        case AlterTable():
            return _clauses(name, one.clauses, tables)
        case RenameTable():
            return {name: None, _logged(one.to, ddl): tables.get(name)}
        case CreateLike() if name not in tables:
            return {name: tables.get(_logged(one.like, ddl))}
        case DropTable():
            return {name: None}
    return {name: None}


def _logged(name: TableName, ddl: Ddl) -> TableName:
    """Returns a table's name as the log's rows have it."""
    folded = TableName(name.schema.lower(), name.table.lower())
    return folded if name not in ddl.tables and folded in ddl.tables else name


def _clauses(
    name: TableName, clauses: tuple[Clause, ...], tables: Mapping[TableName, FormerTable]
) -> dict[TableName, FormerTable | None]:
    table = tables.get(name)
    if table is None:
        return {name: None}
    moved_on = behind(table, clauses)
    return {} if moved_on == table else {name: moved_on}
