"""Writes ADD COLUMN for a target, so that rows that are there get the value that they have at the source."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.parser import NewColumn
from tidelock.adapters.schema.create_table import column_type, identifier, qualified
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.schema.type_map import quoted
from tidelock.engine.model.records import Kind, TableName, Value
from tidelock.engine.model.schema_change import AddedColumn

# JSON is a type of its own in MySQL and text in MariaDB; these keep the text of both.
JSON: dict[Dialect, str] = {"postgres": "json", "mysql": "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"}
_BINARY = "utf8mb4_bin"  # of MySQL and MariaDB alike, for a column that is no key


def add_columns(table: TableName, columns: Sequence[NewColumn], dialect: Dialect) -> str:
    """Returns one statement that adds columns; in PostgreSQL those that are missing."""
    actions = [add_column(column, dialect) for column in columns]
    return f"ALTER TABLE {qualified(dialect, table)} {', '.join(actions)}"


def add_column(new: NewColumn, dialect: Dialect) -> str:
    """Returns the clause that adds a column."""
    missing = "IF NOT EXISTS " if dialect == "postgres" else ""
    required = "" if new.column.nullable else " NOT NULL"
    type_ = column_type(new.column, dialect, JSON[dialect])
    return f"ADD COLUMN {missing}{identifier(dialect, new.column.name)} {type_}{required}{_default(new, dialect)}"


def renamed(new: NewColumn, name: str) -> NewColumn:
    """Returns a new column under its name at the target."""
    return replace(new, column=replace(new.column, column=replace(new.column.column, name=name)))


def add_told(table: TableName, added: Sequence[AddedColumn], dialect: Dialect) -> str:
    """Returns one statement for columns that the log of a PostgreSQL source tells, without a statement of its own."""
    missing = "IF NOT EXISTS " if dialect == "postgres" else ""
    actions = [
        f"ADD COLUMN {missing}{identifier(dialect, new.column.name)} {_told_type(new, dialect)}{_filled(new, dialect)}"
        for new in added
    ]
    return f"ALTER TABLE {qualified(dialect, table)} {', '.join(actions)}"


def _told_type(new: AddedColumn, dialect: Dialect) -> str:
    """Returns the target's type of a column that the log of a PostgreSQL source tells."""
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
    # Without NULL, older servers make a TIMESTAMP column NOT NULL.
    stamp = dialect == "mysql" and new.column.column.kind is Kind.TIMESTAMP and new.column.nullable
    null = " NULL" if stamp else ""
    if new.fill is None:
        return null
    # MySQL takes a default of a TEXT column only as an expression.
    long_text = dialect == "mysql" and new.column.type.endswith("text")
    return f" DEFAULT ({quoted(new.fill)})" if long_text else f"{null} DEFAULT {quoted(new.fill)}"
