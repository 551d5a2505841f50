"""What a statement of the source's log becomes at the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.added_columns import add_columns, add_told, renamed
from tidelock.adapters.ddl.followed import Followed
from tidelock.adapters.ddl.kept_shadows import Shadow
from tidelock.adapters.ddl.lexer import NotPlain
from tidelock.adapters.ddl.made_table import read_table
from tidelock.adapters.ddl.operations import AlterTable, DropTable, RenameTable
from tidelock.adapters.ddl.parser import added
from tidelock.adapters.ddl.rules import ALL, DdlRules, NotFollowed
from tidelock.adapters.ddl.statement import operations, plain
from tidelock.adapters.ddl.table_making import making
from tidelock.adapters.ddl.told import of_mysql, told_table
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.schema.create_table import create_table, qualified
from tidelock.adapters.schema.source_table import projected
from tidelock.engine.model.emptying import children_first
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.schema_change import Ddl, DdlKind

_HINT: Final = "do by hand at the target what it means there, then `tidelock ddl done`"


def translate(
    ddl: Ddl,
    dialect: Dialect,
    target_name: Callable[[TableName], TableName],
    tables: Mapping[TableName, TargetTable] = {},
    rules: DdlRules = ALL,
    shadows: Mapping[TableName, Shadow] = {},
) -> list[str]:
    """Returns statements that do the same at the target.  Where they may fail because they ran before, the sink knows.

    `tables`: the target's, as they are now.  `shadows`: those that are known before the statement.  Raises TargetError
    for a statement that cannot be carried over.
    """
    try:
        match ddl.kind:
            case DdlKind.CREATE_TABLE:
                return _created(ddl, dialect, target_name, tables, rules)
            case DdlKind.ADD_COLUMN:
                return _added(ddl, dialect, target_name, rules)
            case DdlKind.TRUNCATE:
                rules.admits("truncate", "TRUNCATE")
                order = children_first(emptied(ddl, target_name, rules), tables)
                return [f"DELETE FROM {qualified(dialect, name)}" for name in order]
            case DdlKind.ALTERED:
                return Followed(ddl, dialect, target_name, tables, rules, shadows).statements()
            case DdlKind.SHADOW:
                return []
            case _:
                raise NotPlain("its kind")
    except NotPlain as error:
        raise TargetError(
            f"this statement cannot be carried over to the target (at {error}): {ddl.statement}", _HINT
        ) from None
    except NotFollowed as error:
        raise TargetError(f"{error}: {ddl.statement}", error.hint or _HINT) from None


def emptied(
    ddl: Ddl, target_name: Callable[[TableName], TableName], rules: DdlRules = ALL
) -> tuple[TableName, ...]:
    """Returns the target's tables whose rows a TRUNCATE or DROP TABLE removes, their failed rows included.
    PostgreSQL's TRUNCATE may name several."""
    if ddl.kind is DdlKind.TRUNCATE:
        gone = ddl.tables if rules.policy.of("truncate") in ("apply", "lenient") else ()
    elif ddl.kind is DdlKind.ALTERED and any(isinstance(one, DropTable) for one in operations(ddl)):
        gone = ddl.tables if rules.policy.of("drop_table") == "apply" else ()
    else:
        gone = ()
    return tuple(dict.fromkeys(map(target_name, gone)))


def reshaped(ddl: Ddl, target_name: Callable[[TableName], TableName]) -> tuple[TableName, ...]:
    """Returns the target's tables that have another form, key or name behind an ALTERED statement."""
    if ddl.kind is not DdlKind.ALTERED or ddl.optional:
        return ()
    if not any(isinstance(one, RenameTable | AlterTable) for one in operations(ddl)):
        return ()
    return tuple(dict.fromkeys(map(target_name, ddl.tables)))


def rows_first(ddl: Ddl) -> TargetError:
    """Returns the refusal to change a table that has failed rows, which are kept in its form and by its key."""
    return TargetError(
        f"a table has failed rows, and cannot be changed before they are ended: {ddl.statement}",
        "see `tidelock rows list FEED`; `tidelock rows retry FEED --all`, or `skip`, then `tidelock run FEED`",
    )


def _created(
    ddl: Ddl,
    dialect: Dialect,
    target_name: Callable[[TableName], TableName],
    tables: Mapping[TableName, TargetTable],
    rules: DdlRules,
) -> list[str]:
    if not rules.admits("create_table", "CREATE TABLE"):
        return []
    table, target = ddl.tables[0], target_name(ddl.tables[0])
    if rules.keeps("drop_table") and target in tables:
        raise NotFollowed(f"the target has {target} still, which it keeps (`lenient`): its rows would be of both")
    if ddl.told is None or ddl.told.made is None:
        made = read_table(plain(ddl, "CREATE", "TABLE"), ddl.schema)
        return making(made, table, target, dialect, rules, tables, ddl.former)
    source = told_table(table, ddl.told.made)
    if (rule := rules.select(table)) is not None:
        source = projected(source, rule.columns, lambda _: {})
    if dialect == "mysql":
        source = of_mysql(source, mariadb=rules.mariadb)
    return create_table(source, target, dialect, others=tables)


def _added(
    ddl: Ddl, dialect: Dialect, target_name: Callable[[TableName], TableName], rules: DdlRules
) -> list[str]:
    if not rules.admits("add_column", "ADD COLUMN"):
        return []
    (table, *_), place = ddl.tables, target_name(ddl.tables[0])
    if ddl.added:
        told = [
            replace(new, column=replace(new.column, name=name))
            for new in ddl.added
            if (name := rules.column(table, new.column.name)) is not None
        ]
        return [add_told(place, told, dialect)] if told else []
    _, columns = added(plain(ddl, "ALTER", "TABLE"), ddl.schema)
    named = [(column, rules.column(table, column.column.name)) for column in columns]
    kept = [renamed(column, name) for column, name in named if name is not None]
    return [add_columns(place, kept, dialect)] if kept else []
