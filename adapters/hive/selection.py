"""Selects the rows of the source for each table of Hive, and makes the SQL that reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.hive.manifest import Pending
from tidelock.adapters.hive.merger import Broken
from tidelock.adapters.hive.values import hive_columns
from tidelock.adapters.row_copy.columns import AskedColumn, asked
from tidelock.adapters.schema.create_table import qualified
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.adapters.spark.filter_sql import condition_sql
from tidelock.adapters.spark.jdbc import Database
from tidelock.adapters.spark.key_ranges import key_pieces
from tidelock.adapters.spark.postgres_text import canonical_text
from tidelock.adapters.spark.read_ranges import cut_by, mysql_pieces
from tidelock.adapters.wiring.source_tables import SourceTables, tables_at
from tidelock.engine.capture.mapping import Mapping as FeedMapping
from tidelock.engine.capture.mapping import Rule
from tidelock.engine.capture.row_filter import FilterError, compile_filter
from tidelock.engine.model.records import Shape


class Selected(msgspec.Struct, frozen=True):
    """One source table.

    `shape`: of its rows as Hive gets them.  `query`: SQL for them, as columns `c0`, `c1`, …, as `asked`, in the order
    of `shape`, and `p0`, …, which pieces are cut by.
    """

    table: SourceTable
    shape: Shape
    asked: tuple[AskedColumn, ...]
    query: str

    @property
    def types(self) -> str:
        """The types of the columns, as Spark spells them."""
        return ", ".join(f"c{n} {column.wire}" for n, column in enumerate(self.asked))


class Selection(msgspec.Struct, frozen=True):
    """The selected tables.  `tables`: by name in Hive, then by name at the source."""

    database: Database
    tables: Mapping[str, Mapping[str, Selected]]


async def selection(feed: Feed) -> Selection:
    """Reads the source's catalogue and selects tables.  Raises SourceError, Broken."""
    async with tables_at(feed.source_url) as server:
        tables = await server.shapes(lambda name: name.schema != feed.schema and feed.select(name) is not None)
        encrypted = await server.is_encrypted()
    mapping = FeedMapping(rules_of(feed), feed.schema)
    found: dict[str, dict[str, Selected]] = defaultdict(dict)
    for table in tables.values():
        selected = _selected(mapping, table, feed.source_url.dialect)
        found[str(selected.shape.name)][str(table.name)] = selected
    for name, sources in found.items():
        _same(name, list(sources.values()))
    return Selection(Database(feed.source_url, encrypted), found)


async def pieces_of(feed: Feed, tables: Selection) -> dict[str, Pending]:
    """Cuts each table into pieces to be read.  Raises SourceError."""
    async with tables_at(feed.source_url) as server:
        return {name: await _pending(feed, server, sources) for name, sources in tables.tables.items()}


async def _pending(feed: Feed, server: SourceTables, sources: Mapping[str, Selected]) -> Pending:
    pieces: list[tuple[str, str]] = []
    rows = 0
    for name, selected in sources.items():
        cut = key_pieces if server.dialect == "postgres" else mysql_pieces
        predicates, count = await cut(server, selected.table, feed.spark.piece_rows)
        pieces += [(name, predicate) for predicate in predicates]
        rows += count
    shape = next(iter(sources.values())).shape
    return Pending(hive_columns(shape), shape.primary_key, tuple(pieces), rows)


def _selected(mapping: FeedMapping, table: SourceTable, dialect: Dialect) -> Selected:
    rule, mapped = mapping.rule(table.name), mapping.table(table.shape)
    assert rule is not None and mapped is not None, "only selected tables are read"
    if not mapped.shape.primary_key:
        raise Broken(f"{table.name} has no primary key", "Give it one, or leave it out of the feed")
    logged = [column for column in table.columns if column.logged]
    columns = tuple(_asked(logged[number]) for number in mapped.kept)
    return Selected(table, mapped.shape, columns, _query(dialect, table, columns, _where(rule, table)))


def _asked(source: SourceColumn) -> AskedColumn:
    """Returns how a column is read; moments as the log's values spell them."""
    if not source.column.type:
        return asked(source)
    sql = canonical_text(source.column, f"t.{quote('postgres', source.name)}")
    return AskedColumn(sql, reading="logged", column=source.column)


def _query(dialect: Dialect, table: SourceTable, columns: Sequence[AskedColumn], where: str) -> str:
    key = table.shape.primary_key if dialect == "postgres" else cut_by(table)
    parts = [f"{column.sql} AS c{n}" for n, column in enumerate(columns)]
    parts += [f"t.{quote(dialect, name)} AS p{n}" for n, name in enumerate(key)]
    place = qualified(dialect, table.name)
    return f"SELECT {', '.join(parts)} FROM {place} t" + (f" WHERE {where}" if where else "")


def _where(rule: Rule, table: SourceTable) -> str:
    if rule.where is None:
        return ""
    try:
        compile_filter(rule.where, table.shape.columns)
    except FilterError as error:
        raise Broken(f"{table.name}: {error}", "Correct the row filter in the feed") from None
    return condition_sql(rule.where, {column.name: column for column in table.columns})


def _same(name: str, sources: Sequence[Selected]) -> None:
    """Checks that several source tables that go into one of Hive's are alike."""
    first, *others = sources
    for other in others:
        if (hive_columns(other.shape), other.shape.primary_key) != (hive_columns(first.shape), first.shape.primary_key):
            raise Broken(
                f"{first.table.name} and {other.table.name} both go to {name}, but with other columns, types or keys",
                "Give them the same `columns`, or another `target`",
            )
