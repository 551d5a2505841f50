"""Parts that CREATE TABLE at a target leaves out of a source's table, with the reason: `init` says each of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ports.definition import Definition
from tidelock.adapters.schema.computed import computed
from tidelock.adapters.schema.create_table import takes
from tidelock.adapters.schema.not_translated import NotTranslated
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.engine.model.records import Kind
from tidelock.engine.model.schema import Equality


def parts_not_made(
    source: SourceTable,
    made: SourceTable,
    definition: Definition,
    dialects: tuple[Dialect, Dialect],
    names: Mapping[str, str],
    equalities: Mapping[str, Equality],
) -> Iterator[tuple[str, str]]:
    """Yields (part, reason).  `made`: the table as it is made at the target.  `dialects`: source, target.  `names`: of
    the columns at the target."""
    same = dialects[0] == dialects[1]
    yield from _uniques(source, made)
    made_names = {column.name for column in made.columns}
    for column in source.columns:
        name = names.get(column.name)
        if name is None or not column.generated:
            continue
        if column.logged:
            yield f"{column.name} GENERATED", "its value is written as the source has computed it"
        elif name not in made_names:
            yield f"column {column.name} AS ({column.expression})", _not_computed(column, source, names, equalities)
    if definition.partitioned:
        yield f"PARTITION BY {definition.partitioned}", "its rows are in one table there"
    if same:
        return
    for column in source.columns:
        if column.name not in names:
            continue
        if column.name in definition.domains:
            yield f"{column.name} {definition.domains[column.name]}", "the target has no domain"
        if dialects[0] == "postgres" and column.column.kind is Kind.ENUM:
            yield f"labels of {column.name}", "a label that is added to the type is not in the log"
        if dialects[0] == "mysql" and column.column.kind is Kind.SET:
            yield f"members of {column.name}", "it is a text there"


def _uniques(source: SourceTable, made: SourceTable) -> Iterator[tuple[str, str]]:
    at_target = {unique.name: unique for unique in made.uniques}
    for unique in source.uniques:
        what = f"UNIQUE {unique.name} ({', '.join(unique.columns)})"
        one = at_target.get(unique.name)
        if one is None:
            carried = {column.name for column in made.columns}
            gone = [name for name in unique.columns if name not in carried]
            there = f"{gone[0]} is not carried over" if gone else "it is too long for an index there"
            yield what, unique.opaque or there
        elif not takes(made, one):
            yield what, unique.opaque


def _not_computed(
    column: SourceColumn, source: SourceTable, names: Mapping[str, str], equalities: Mapping[str, Equality]
) -> str:
    try:
        computed(column, source, names, equalities)
    except NotTranslated as reason:
        return str(reason)
    return "the log has no value of it"

