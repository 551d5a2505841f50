"""Pairs the tables and columns of a feed that are compared, and describes how each side is asked for them.

A table of the target is compared with the rows that the feed sends there: of one source table or of several, of the
columns that are replicated, under their new names, where the row filter holds.  Columns that only the target has are
not compared.  Rows are matched by the target's key; without one, or where the feed does not fill it, equal rows are
counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ports.operator_error import OperatorError
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.adapters.schema.type_map import Type
from tidelock.adapters.spark.comparable_values import Form, Value, shown
from tidelock.adapters.spark.comparable_values import form as form_of
from tidelock.adapters.spark.filter_sql import condition_sql
from tidelock.adapters.spark.keys import NoSuchKey, SideColumn, canonical
from tidelock.adapters.spark.read_ranges import cut_by
from tidelock.adapters.verify.canonical import Cell, mysql_cell, postgres_cell, source_cell
from tidelock.engine.capture.mapping import Mapping as FeedMapping
from tidelock.engine.capture.mapping import Rule
from tidelock.engine.capture.row_filter import FilterError, compile_filter
from tidelock.engine.model.records import Kind, Row, TableName
from tidelock.engine.model.schema import TargetTable

_INTEGERS = ("smallint", "integer", "bigint", "numeric", "tinyint", "mediumint", "int", "decimal")


class NotComparable(OperatorError):
    """The feed cannot be verified; the text says which table and why."""

    exit_code = 1


class Side(msgspec.Struct, frozen=True):
    """One table at one server.  `cells`: as in `ComparedTable.columns`, the key first.  `keys`: columns that cut it in
    pieces.

    `where`: SQL over `t`, or ''.  `columns`: the same as `cells`.
    """

    dialect: Dialect
    name: TableName
    cells: tuple[Cell, ...]
    keys: tuple[str, ...] = ()
    where: str = ""
    columns: tuple[SideColumn, ...] = ()

    @property
    def table(self) -> str:
        """The table's quoted name."""
        return f"{quote(self.dialect, self.name.schema)}.{quote(self.dialect, self.name.table)}"


class ComparedTable(msgspec.Struct, frozen=True):
    """A target table and the source tables of its rows.

    `columns`: names at the target, the key first.  `key`: how many of them are its key, 0 without one.  `forms`: how
    each is compared.  `integer`: the key is one integer at both ends.
    """

    name: TableName
    columns: tuple[str, ...]
    key: int
    forms: tuple[Form, ...]
    sources: tuple[Side, ...]
    target: Side
    integer: bool = False

    @property
    def source_names(self) -> str:
        """The names of the source tables."""
        return ", ".join(str(side.name) for side in self.sources)

    def canonical(self, keys: Iterable[Sequence[Value]]) -> tuple[Row, ...]:
        """Returns keys as the log has them, from keys as rows are compared by them; none where one of them cannot be
        had, or without a key.
        """
        columns = [column.column for column in self.sources[0].columns[: self.key]]
        try:
            rows = (
                tuple(
                    canonical(form, column, shown(form, value))
                    for form, column, value in zip(self.forms, columns, key, strict=False)
                )
                for key in keys
            )
            return tuple(rows) if columns else ()
        except NoSuchKey:
            return ()


class Catalogue(msgspec.Struct, frozen=True):
    """The catalogues of both servers.

    `targets`: every existing target table, by name; `own`: the same as a MySQL or MariaDB target describes its columns;
    `documents`: columns that MariaDB declares to be JSON, by table.
    """

    dialect: Dialect
    sources: Mapping[TableName, SourceTable]
    targets: Mapping[TableName, TargetTable]
    own: Mapping[TableName, SourceTable]
    documents: Mapping[TableName, frozenset[str]]


def pairs(feed: Feed, seen: Catalogue) -> list[ComparedTable]:
    """Returns one pair for each target table, in order of their names.  Raises NotComparable."""
    by_target: dict[TableName, list[SourceTable]] = defaultdict(list)
    for table in seen.sources.values():
        by_target[feed.target_name(table.name)].append(table)
    mapping = FeedMapping(rules_of(feed), feed.schema)
    return [_pair(feed, seen, mapping, name, sources) for name, sources in sorted(by_target.items())]


def _pair(
    feed: Feed, seen: Catalogue, mapping: FeedMapping, name: TableName, sources: Sequence[SourceTable]
) -> ComparedTable:
    target = seen.targets.get(name)
    if target is None:
        raise NotComparable(
            f"the target has no table {name}, where {', '.join(str(s.name) for s in sources)} belongs",
            "`tidelock init --apply FEED` makes it, or leave the table out with --table",
        )
    made = []
    for source in sources:
        rule = mapping.rule(source.name)
        assert rule is not None, "only selected tables are read"
        made.append(_one(feed, seen, rule, source, target))
    first, *others = made
    for other, source in zip(others, sources[1:], strict=True):
        if (other.columns, other.forms) != (first.columns, first.forms):
            raise NotComparable(
                f"{source.name} and {sources[0].name} both go to {name}, but with other columns or types",
                "Verify needs the same columns of both: give them the same types and `columns`, or use --table",
            )
    return msgspec.structs.replace(
        first,
        sources=tuple(side for pair in made for side in pair.sources),
        integer=all(pair.integer for pair in made),
    )


def _one(feed: Feed, seen: Catalogue, rule: Rule, source: SourceTable, target: TargetTable) -> ComparedTable:
    there = {c.name: c for c in target.columns}
    kept = [
        (column, rule.rename.get(column.name, column.name))
        for column in source.columns
        if column.logged and column.name not in rule.exclude and (not rule.include or column.name in rule.include)
    ]
    missing = [renamed for _, renamed in kept if renamed not in there]
    if missing:
        raise NotComparable(
            f"{target.name} has no column {', '.join(missing)}, which {source.name} has", "See `tidelock check FEED`"
        )
    kept = [(column, renamed) for column, renamed in kept if not there[renamed].generated]
    by_name = {renamed: column for column, renamed in kept}
    key = target.key if set(target.key) <= by_name.keys() else ()
    names = (*key, *(n for n in by_name if n not in key))
    documents = seen.documents.get(source.name, frozenset())
    own = {c.name: c for c in seen.own[target.name].columns} if target.name in seen.own else {}
    ours, theirs = list[Cell](), list[Cell]()
    for name in names:
        column, type_ = by_name[name], there[name].type
        form = form_of(column, type_, is_json=column.name in documents)
        no_zero = seen.dialect == "postgres" and feed.zero_dates == "null"
        ours.append(source_cell(column, form, type_, no_zero_dates=no_zero))
        if seen.dialect == "mysql":
            theirs.append(mysql_cell(own[name], column, form, type_, no_zero_dates=False))
        else:
            theirs.append(postgres_cell(name, type_, column, form))
    ours_columns = tuple(SideColumn(by_name[name].name, by_name[name].type, by_name[name].column) for name in names)
    theirs_columns = tuple(SideColumn(name, there[name].type, by_name[name].column) for name in names)
    dialect = feed.source_url.dialect
    ours_cut = cut_by(source) if dialect == "mysql" else ()
    return ComparedTable(
        name=target.name,
        columns=names,
        key=len(key),
        forms=tuple(cell.form for cell in ours),
        sources=(Side(dialect, source.name, tuple(ours), ours_cut, _where(rule, source), ours_columns),),
        target=Side(
            seen.dialect,
            target.name,
            tuple(theirs),
            cut_by(seen.own[target.name]) if own else (),
            columns=theirs_columns,
        ),
        integer=len(key) == 1 and _is_number(by_name[key[0]]) and _is_integer(there[key[0]].type),
    )


def _is_number(column: SourceColumn) -> bool:
    """PostgreSQL's oid has no arithmetic."""
    return column.column.kind is Kind.INT and (not column.column.type or _is_integer(column.type))


def _is_integer(type_: str) -> bool:
    parsed = Type.of(type_)
    return parsed.base in _INTEGERS and (len(parsed.numbers) < 2 or parsed.numbers[1] == 0)


def _where(rule: Rule, source: SourceTable) -> str:
    if rule.where is None:
        return ""
    columns = {c.name: c for c in source.columns}
    try:
        compile_filter(rule.where, source.shape.columns)
    except FilterError as error:
        raise NotComparable(f"{source.name}: {error}", "Correct the row filter in the feed") from None
    return condition_sql(rule.where, columns)

