"""What a statement of the source's log is to a feed: its tables, and whether the target may follow it by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.capture.shadow_names import may_shadow, shadowed
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind


def related(ddl: Ddl, mapping: Mapping, *, between_sites: bool = False) -> Ddl:
    """Returns a statement with those of its tables and databases alone that the feed takes; one that names only others
    says nothing to it, unless one of these may take the place of a table that the feed takes.

    `between_sites`: rows of the other site are on their way in the form, by the key and under the name that such a
    statement takes away.
    """
    if ddl.kind is DdlKind.UNRELATED or not (ddl.tables or ddl.databases):
        return ddl
    tables = tuple(table for table in ddl.tables if mapping.selects(table))
    databases = tuple(name for name in ddl.databases if mapping.draws_on(name))
    if not (tables or databases):
        return _of_shadows(ddl, mapping) if not between_sites else replace(ddl, kind=DdlKind.UNRELATED)
    returns = between_sites and ddl.kind is DdlKind.ALTERED
    kind: DdlKind = ddl.kind
    if returns or _is_of_others(ddl.kind, tables, mapping):
        kind = DdlKind.UNRELATED if ddl.optional else DdlKind.OTHER
    targets = () if databases else _at_target(tables, mapping)
    return replace(ddl, kind=kind, tables=tables, databases=databases, targets=targets)


def _at_target(tables: Iterable[TableName], mapping: Mapping) -> tuple[TableName, ...]:
    return tuple(dict.fromkeys(map(mapping.target, tables)))


def _of_shadows(ddl: Ddl, mapping: Mapping) -> Ddl:
    """Returns a statement about tables that the feed leaves out; its tables are those whose place they may take."""
    shadows = [table for table in ddl.tables if may_shadow(table, mapping)]
    if not shadows:
        return replace(ddl, kind=DdlKind.UNRELATED)
    tables = dict.fromkeys(of for table in shadows if (of := shadowed(table)) is not None)
    targets = _at_target(tables, mapping)
    return replace(ddl, kind=DdlKind.SHADOW, tables=tuple(tables), databases=(), targets=targets)


def _is_of_others(kind: DdlKind, tables: Sequence[TableName], mapping: Mapping) -> bool:
    """Would the statement, run at the target, concern rows of other tables of the source?"""
    return kind in (DdlKind.TRUNCATE, DdlKind.ALTERED) and any(map(mapping.shared, tables))
