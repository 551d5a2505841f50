"""Schemas of the target in which a statement makes a table, or to which it moves one: they may be missing there, as the
source's CREATE DATABASE itself says nothing of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.lexer import NotPlain
from tidelock.adapters.ddl.operations import CreateLike, CreateTable, RenameTable
from tidelock.adapters.ddl.statement import operations
from tidelock.adapters.schema.create_table import identifier
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind


def filled(ddl: Ddl, target_name: Callable[[TableName], TableName]) -> list[str]:
    """Returns the schemas that may get a table by a statement."""
    try:
        if ddl.kind is DdlKind.ALTERED:
            gets = any(isinstance(one, CreateTable | CreateLike | RenameTable) for one in operations(ddl))
        else:
            gets = ddl.kind is DdlKind.CREATE_TABLE
    except NotPlain:
        gets = False
    return sorted({target_name(table).schema for table in ddl.tables}) if gets else []


def making(schemas: Collection[str], there: Collection[str], dialect: Dialect) -> list[str]:
    """Returns the statements that make those of the schemas that are not `there`."""
    words = "CREATE SCHEMA" if dialect == "postgres" else "CREATE DATABASE IF NOT EXISTS"
    return [f"{words} {identifier(dialect, name)}" for name in schemas if name not in there]
