"""Forms of shadow tables that are made by a whole CREATE TABLE, as pt-online-schema-change does.

Such a statement says a form, and not whose it is.  That is proved by the table of the source as it was at that place of
the log, column by column, and at the exchange by the target's unique indexes, which are the source's.
"""

from __future__ import annotations

from tidelock.adapters.ddl.former_tables import moved
from tidelock.adapters.schema.compatibility import same_type
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind, FormerColumn, FormerTable


def difference(ddl: Ddl, made: SourceTable, of: TableName) -> str:
    """Returns why a table that a statement makes is not certain to have the form of `of`, whose form just before is
    `ddl.former`; '' where it is."""
    if ddl.former is None:
        return f"how {of} was when it was made is not known"
    statement = Ddl(ddl.schema, ddl.statement, "", 0, DdlKind.CREATE_TABLE, (made.name,))
    own = moved(statement, {}).get(made.name)
    if own is None:
        return "its form is not known"
    if any(unique.opaque for unique in made.uniques):
        return "it has a unique index that is not of whole columns"
    if len(own.columns) != len(ddl.former.columns):
        return f"it was not made with the columns of {of}"
    for one, other in zip(own.columns, ddl.former.columns, strict=True):
        if not _is_same(one, other):
            return f"it was made with {one.column.name} {one.type}, and {of} had {other.column.name} {other.type}"
    return ""


def _is_same(one: FormerColumn, other: FormerColumn) -> bool:
    return (
        one.column.name.lower() == other.column.name.lower()
        and same_type(one.type, other.type)
        and one.nullable == other.nullable
        and (one.automatic, one.generated) == (other.automatic, other.generated)
        and (one.column.charset, one.collation) == (other.column.charset, other.collation)
    )


def uniques_of(made: SourceTable) -> tuple[tuple[str, ...], ...]:
    """Returns the columns of each unique index, in lower case and sorted."""
    return tuple(tuple(sorted(name.lower() for name in unique.columns)) for unique in made.uniques)


def former_of(ddl: Ddl, tables: dict[TableName, FormerTable], shadowed: TableName | None) -> FormerTable | None:
    """Returns the table of a statement as it was before.  Where it makes a table by whose name it is a shadow, that is
    the one that it is of (`shadowed`)."""
    if not ddl.tables:
        return None
    known = tables.get(ddl.tables[0])
    if known is None and ddl.kind is DdlKind.CREATE_TABLE and shadowed is not None:
        return tables.get(shadowed)
    return known
