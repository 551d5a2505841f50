"""DROP DATABASE as a statement that drops the tables in it, where it is known which of them the source has."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind


def of_tables(ddl: Ddl, tables: Collection[TableName]) -> Ddl:
    """Returns a statement by which whole databases go as one that drops those of `tables` in them: all that the feed
    takes and the source has just before it.  Any other statement is returned as it is."""
    if not ddl.databases:
        return ddl
    gone = tuple(sorted(name for name in tables if name.schema in ddl.databases))
    kind = DdlKind.ALTERED if gone else DdlKind.UNRELATED
    return replace(ddl, kind=kind, tables=gone, databases=())
