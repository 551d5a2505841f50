"""Checks whether the columns that a rule names are at the source: a name that is mistyped changes nothing, silently.

A rule for many tables may name a column that only some of them have.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from tidelock.adapters.config.feed import Feed, TableRule
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.engine.capture.row_filter import FilterError, compile_filter


def check_rule_columns(feed: Feed, tables: Iterable[SourceTable]) -> list[Finding]:
    """Lists the names of columns that none of a rule's tables has."""
    of_rule: dict[int, list[SourceTable]] = {}
    for table in tables:
        rule = feed.select(table.name)
        if rule is not None:
            of_rule.setdefault(feed.tables.index(rule), []).append(table)
    unknown = [
        _unknown(number, key, name, found)
        for number, found in of_rule.items()
        for key, name in _named(feed.tables[number])
        if not any(name == column.name for table in found for column in table.columns)
    ]
    return unknown + [finding for number, found in of_rule.items() for finding in _filtered(feed, number, found)]


def _named(rule: TableRule) -> Iterator[tuple[str, str]]:
    columns = rule.columns
    for key, names in (("include", columns.include), ("exclude", columns.exclude), ("rename", tuple(columns.rename))):
        for name in names:
            yield key, name


def _filtered(feed: Feed, number: int, tables: Sequence[SourceTable]) -> Iterator[Finding]:
    """Yields the tables that lack a column of their row filter: it is asked of every row."""
    text = feed.tables[number].where
    if not text:
        return
    from tidelock.adapters.config.row_filter import parse_where  # sqlglot is slow to import, and few feeds filter

    condition = parse_where(text)
    for table in tables:
        try:
            compile_filter(condition, table.shape.columns)
        except FilterError as problem:
            said = f"tables[{number}].{problem} in {table.name}"
            yield error("rule-column", said, f"Its columns are {', '.join(column.name for column in table.columns)}")


def _unknown(number: int, key: str, name: str, tables: Sequence[SourceTable]) -> Finding:
    there = list(dict.fromkeys(column.name for table in tables for column in table.columns))
    lacks = f"{tables[0].name} has no such column"
    if len(tables) > 1:
        lacks = f"none of its {len(tables)} tables has such a column"
    near = difflib.get_close_matches(name, there, 1)
    hint = f"Did you mean `{near[0]}`?" if near else f"Its columns are {', '.join(there[:30])}"
    source = "the source's name, left of the colon, is " if key == "rename" else ""
    return error("rule-column", f"tables[{number}].columns.{key}: {source}{name}, and {lacks}", hint)
