"""Columns that PostgreSQL computes and does not log, for a target of MySQL or MariaDB that computes them alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from tidelock.adapters.schema.not_translated import NotTranslated
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.engine.model.records import Kind
from tidelock.engine.model.schema import Equality

_INTEGER_DIGITS: Final = 19
_MOST_DIGITS, _MOST_SCALE = 60, 30
"""Digits of all numbers of an expression together, which DECIMAL computes exactly."""


def with_computed(
    made: SourceTable, source: SourceTable, names: Mapping[str, str], equalities: Mapping[str, Equality]
) -> SourceTable:
    """Returns `made`, the table of a MySQL or MariaDB target, with the columns of `source` that it computes alike.
    `names`: of the columns at the target."""
    at_target: dict[str, SourceColumn] = {}
    for column in source.columns:
        if column.logged or column.name not in names:
            continue
        try:
            expression = computed(column, source, names, equalities)
        except NotTranslated:
            continue
        name = names[column.name]
        named = replace(column.column, name=name)
        at_target[name] = replace(column, column=named, expression=expression, nullable=True, collation="")
    columns = {column.name: column for column in made.columns} | at_target
    order = [names[column.name] for column in source.columns if column.name in names]
    return replace(made, columns=tuple(columns[name] for name in order if name in columns))


def computed(
    column: SourceColumn, table: SourceTable, names: Mapping[str, str], equalities: Mapping[str, Equality]
) -> str:
    """Returns the expression of a column in the words of MySQL and MariaDB.  Raises NotTranslated."""
    from tidelock.adapters.schema.expressions import Translation  # sqlglot is slow to import

    used = [c for c in table.columns for _ in re.findall(rf"\b{re.escape(c.name)}\b", column.expression)]
    referring = {name for key in table.foreign_keys for name in key.columns}
    if any(c.name in referring for c in used):
        raise NotTranslated("MySQL computes nothing from a column that a foreign key may set")
    if column.column.kind not in (Kind.BOOL, Kind.INT, Kind.DECIMAL):
        raise NotTranslated("only numbers and truths are known to be computed alike there")
    require_digits(used, column.expression)
    translation = Translation("postgres", "mysql", {c.name: c for c in table.columns}, names, equalities)
    if column.column.kind is Kind.BOOL:
        return translation.condition(column.expression)
    return translation.value(column.expression)


def require_digits(used: Iterable[SourceColumn], expression: str) -> None:
    """Raises NotTranslated where the numbers of an expression may have more digits than both servers compute with."""
    numbers = [one.column for one in used if one.column.kind in (Kind.INT, Kind.DECIMAL)]
    literals = len(re.findall(r"\d", expression))
    digits = sum(one.precision if one.kind is Kind.DECIMAL else _INTEGER_DIGITS for one in numbers)
    if literals + digits > _MOST_DIGITS or literals + sum(one.scale for one in numbers) > _MOST_SCALE:
        raise NotTranslated("its numbers may have more digits than MySQL computes with")
