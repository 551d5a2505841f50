"""Makes at a target what a CREATE TABLE of the source's log says: columns and keys, and what no row depends on.

Indexes that are not unique and defaults are as ALTER TABLE makes them: where the target may not have one alike, or an
index might refuse a row, it goes without.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.added_columns import JSON
from tidelock.adapters.ddl.altered_indexes import AlteredIndexes
from tidelock.adapters.ddl.changed_table import Before
from tidelock.adapters.ddl.fills import check_fill
from tidelock.adapters.ddl.index_names import taken_names
from tidelock.adapters.ddl.lexer import NotPlain
from tidelock.adapters.ddl.made_collations import collated
from tidelock.adapters.ddl.operations import CreateTable
from tidelock.adapters.ddl.rules import DdlRules
from tidelock.adapters.ddl.target_shape import TargetShape
from tidelock.adapters.ports.definition import Default
from tidelock.adapters.schema.create_table import column_type, create_table, index_name, takes
from tidelock.adapters.schema.defaults import translated
from tidelock.adapters.schema.not_translated import NotTranslated
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable, projected
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable
from tidelock.engine.model.schema_change import FormerColumn, FormerTable

_LEAVES_OUT = ("halt", "skip")


def making(
    made: CreateTable,
    table: TableName,
    place: TableName,
    dialect: Dialect,
    rules: DdlRules,
    there: Mapping[TableName, TargetTable],
    former: FormerTable | None = None,
) -> list[str]:
    """Returns the statements that make a table at `place`, which do nothing where it exists.  `table`: its name in the
    log's rows; `there`: the target's tables; `former`: the source's table, for its collations.  Raises NotPlain,
    TargetError."""
    source = collated(made.made, former, mariadb=rules.mariadb) if dialect == "mysql" else made.made
    if (rule := rules.select(table)) is not None:
        source = projected(source, rule.columns, lambda _: {})
    beside = _Beside(made, table, place, source, dialect, rules)
    clauses, indexes = beside.defaults(), beside.indexes(there)
    if dialect == "mysql":
        words = [one.removeprefix("ADD ") for one in indexes]
        return create_table(source, place, dialect, JSON[dialect], clauses, others=there, indexes=words)
    create = create_table(source, place, dialect, JSON[dialect], clauses, others=there)
    return create if place in there else [*create, *indexes]


class _Beside:
    """Defaults and plain indexes of a new table.  `source`: as the feed takes it, under the target's names."""

    def __init__(
        self,
        made: CreateTable,
        table: TableName,
        place: TableName,
        source: SourceTable,
        dialect: Dialect,
        rules: DdlRules,
    ) -> None:
        self._made, self._table, self._place, self._source = made, table, place, source
        self._dialect, self._rules = dialect, rules

    def defaults(self) -> dict[str, str]:
        """Returns the words behind columns that have a default, by the target's names."""
        if self._rules.policy.of("set_default") in _LEAVES_OUT:
            return {}
        columns = {column.name: column for column in self._source.columns}
        clauses = {}
        for own, default in self._made.defaults.items():
            name = self._rules.column(self._table, own)
            if name is None or name not in columns:
                continue
            try:
                clauses[name] = f"DEFAULT {self._default(columns[name], default)}"
            except NotTranslated as reason:
                self._rules.say(f"{self._place} goes without the default of {name}: {reason}")
        return clauses

    def _default(self, column: SourceColumn, default: Default) -> str:
        if default.value is not None:
            try:
                check_fill(column.column, default.value)
            except NotPlain:
                raise NotTranslated("servers may read it in different ways") from None
        return translated(column, default, "mysql", self._dialect)

    def indexes(self, there: Mapping[TableName, TargetTable]) -> list[str]:
        """Returns what makes the indexes that are not unique: statements of PostgreSQL, clauses of MySQL."""
        if self._rules.policy.of("indexes") in _LEAVES_OUT:
            return []
        source, dialect, place = self._source, self._dialect, self._place
        primary = "PRIMARY" if dialect == "mysql" else f"{place.table}_pkey"
        uniques = tuple(
            replace(one, name=primary if one.name == "PRIMARY" else index_name(dialect, place, one.name))
            for one in source.uniques
            if takes(source, one)
        )
        columns = tuple(column_at(column, dialect) for column in source.columns)
        shape = TargetShape(TargetTable(place, columns, source.primary_key, uniques), dialect)
        former = tuple(FormerColumn(one.column, one.type, one.nullable) for one in self._made.made.columns)
        names = (self._table, place)
        others = {*taken_names(there), place}
        indexes, before = self._made.indexes, Before(FormerTable(former))
        made = AlteredIndexes(indexes, names, shape, dialect, self._rules, before, others, anew=False)
        return [words for one in indexes for _, words in made.added(one)]


def column_at(column: SourceColumn, dialect: Dialect) -> TargetColumn:
    """Returns a column as a target has it that a statement has made it at."""
    bare = replace(column, column=replace(column.column, charset=""), collation="")
    texts = column.collation or column.column.charset  # a set without its collation: any of it
    return TargetColumn(
        column.name,
        column_type(bare, dialect),
        nullable=column.nullable,
        collation=texts if dialect == "mysql" else "",
    )
