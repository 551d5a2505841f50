"""A table of the source that a copy reads, as its catalogue has it now, and what the feed makes of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ports.operator_error import OperatorError
from tidelock.adapters.row_copy.columns import asked
from tidelock.adapters.row_copy.task import Filter, RowReading
from tidelock.adapters.schema.create_table import qualified
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.adapters.wiring.source_tables import SourceTables
from tidelock.engine.capture.mapping import Mapping, Rule, TableMapping
from tidelock.engine.model.records import TableName


class NotCopied(OperatorError):
    """Tables cannot be copied: `args[0]` says why, `hint` what to do."""


class CopySource:
    """A source table to copy.  `table`: the source's own.  `target`: its name there.  `rows`, `row_bytes`: about, by
    statistics.
    """

    def __init__(
        self, dialect: Dialect, table: SourceTable, rule: Rule, target: TableName, rows: int, row_bytes: int
    ) -> None:
        self.dialect = dialect
        self.table = table
        self.rule = rule
        self.target = target
        self.rows = rows
        self.row_bytes = row_bytes
        self.mapping = TableMapping(rule, table.shape, target)

    @property
    def place(self) -> str:
        """The table's quoted name."""
        return qualified(self.dialect, self.table.name)

    @cached_property
    def logged(self) -> tuple[SourceColumn, ...]:
        """The columns that rows of the log have."""
        return tuple(column for column in self.table.columns if column.logged)

    @cached_property
    def columns(self) -> dict[str, SourceColumn]:
        """The columns that the target gets, by the names they have there."""
        kept = (self.logged[i] for i in self.mapping.kept)
        return {column.name: source for column, source in zip(self.mapping.shape.columns, kept, strict=True)}

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The primary key, else the first unique one without NULLs, by the source's names; empty: it has none.

        Where the log tells of a row before a change no more than some columns, it is those.
        """
        if self.table.identity == "key":
            return self.table.identity_columns
        optional = {column.name for column in self.table.columns if column.nullable}
        whole = (unique.columns for unique in self.table.uniques if not unique.opaque or unique.name == "PRIMARY")
        return next((columns for columns in whole if optional.isdisjoint(columns)), ())

    @property
    def reading(self) -> RowReading:
        """The conversion of rows that are read to the target's rows."""
        filtered = Filter(self.rule, self.table.shape, self.target) if self.mapping.filters else None
        return RowReading(tuple(asked(column) for column in self.read), filtered)

    @property
    def read(self) -> tuple[SourceColumn, ...]:
        """The columns that must be read: a filter may look at any."""
        return self.logged if self.mapping.filters else tuple(self.columns.values())


async def sources(feed: Feed, server: SourceTables, targets: Sequence[TableName]) -> dict[TableName, CopySource]:
    """Returns source tables by the target's names.  Raises SourceError, and NotCopied where one has no source, or
    several.
    """
    mapping = Mapping(rules_of(feed), feed.schema)
    wanted = frozenset(targets)
    found = await server.shapes(lambda name: mapping.selects(name) and mapping.target(name) in wanted)
    by_target: dict[TableName, list[SourceTable]] = defaultdict(list)
    for table in found.values():
        by_target[mapping.target(table.name)].append(table)
    sizes = await server.sizes(list(found)) if found else {}
    made = {}
    for target in dict.fromkeys(targets):
        table = _single(feed, target, by_target[target])
        rule = mapping.rule(table.name)
        assert rule is not None
        made[target] = CopySource(server.dialect, table, rule, target, *sizes.get(table.name, (0, 0)))
    return made


def _single(feed: Feed, target: TableName, tables: list[SourceTable]) -> SourceTable:
    if not tables:
        raise NotCopied(
            f"{target} is not copied: no table at {feed.source_url} becomes it",
            "Name a table as the target names it; if it is there, the source's user needs SELECT on it",
        )
    if len(tables) > 1:
        names = ", ".join(str(table.name) for table in tables)
        raise NotCopied(
            f"{target} is not copied: {names} all become it, and a copy cannot tell their rows apart",
            "Load it by hand before the feed starts, or give each a table of its own at the target",
        )
    return tables[0]
