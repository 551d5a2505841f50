"""Plans the reading of each table: all of it, each side cut in pieces, or the rows of some keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.spark.jdbc import Database
from tidelock.adapters.spark.read_ranges import Asked, mysql_pieces, postgres_pieces
from tidelock.adapters.verify.catalogues import Survey, survey
from tidelock.adapters.verify.table_pairs import ComparedTable, Side
from tidelock.adapters.wiring.source_tables import SourceTables
from tidelock.engine.model.records import Row, TableName

BUCKET_ROWS = 32
MOST_BUCKETS = 262_143


class Cut(msgspec.Struct, frozen=True):
    """The reading of one table.  `sources`: pieces of each source table, as predicates; `rows`: about how many there
    are.

    `low`, `high`: the range of an integer key at the source, for pictures; None: it has none.  `keys`: only rows of
    these keys are compared, and all of them; None: the whole table is.  `small`: neither side has many rows
    (`spark.small_rows`), so that Spark is not worth its start.
    """

    pair: ComparedTable
    sources: tuple[tuple[str, ...], ...]
    target: tuple[str, ...]
    rows: int
    low: int | None = None
    high: int | None = None
    keys: tuple[Row, ...] | None = None
    small: bool = False

    @property
    def buckets(self) -> int:
        """The number of buckets; odd, so that keys in even steps fall into all of them."""
        return min(self.rows // BUCKET_ROWS, MOST_BUCKETS) | 1

    @property
    def pieces(self) -> int:
        """The number of pieces of all source tables."""
        return sum(map(len, self.sources)) + len(self.target)


class ReadingPlan(msgspec.Struct, frozen=True):
    """The reading of all tables."""

    source: Database
    target: Database
    tables: tuple[Cut, ...]

    @property
    def needs_spark(self) -> bool:
        """Tells whether a table is not small."""
        return not all(cut.small for cut in self.tables)


async def plan(
    feed: Feed, only: Sequence[str], keys: Mapping[TableName, tuple[Row, ...] | None] | None = None
) -> ReadingPlan:
    """Plans the reading.  `only`: source tables, `db.table`, `*` for any text; empty for all.  `keys`: of these target
    tables alone, the rows of these keys, or all (None).

    Raises NotComparable, Refused, SourceError, TargetError.
    """
    async with survey(feed, only) as seen:
        cuts = []
        for pair in seen.pairs:
            some = keys.get(pair.name) if keys is not None else None
            if some is not None:
                cuts.append(listed(pair, some, feed.spark.small_rows))
            elif keys is None or pair.name in keys:
                cuts.append(await whole(seen, pair))
        return ReadingPlan(*await seen.databases(), tuple(cuts))


def listed(pair: ComparedTable, keys: tuple[Row, ...], small_rows: int) -> Cut:
    """Returns the reading of rows by their keys; where those cannot be written after all, the table is read in one
    piece.
    """
    pieces = ("1 = 1",)
    return Cut(pair, (pieces,) * len(pair.sources), pieces, len(keys), keys=keys, small=0 < len(keys) <= small_rows)


async def whole(seen: Survey, pair: ComparedTable) -> Cut:
    """Returns the reading of a whole table."""
    size = seen.feed.spark.piece_rows
    made = [await _pieces(seen, side, size) for side in pair.sources]
    if seen.own:
        target = (await mysql_pieces(seen.own, seen.seen.own[pair.name], size))[0]
    else:
        target = await postgres_pieces(seen.chat, pair.name, sum(len(pieces) for pieces, _ in made))
    low, high = await _range(pair, seen.source) if pair.integer else (None, None)
    rows = sum(rows for _, rows in made)
    small = await is_small(seen, pair)
    return Cut(pair, tuple(tuple(pieces) for pieces, _ in made), tuple(target), rows, low, high, small=small)


async def _pieces(seen: Survey, side: Side, size: int) -> tuple[list[str], int]:
    """Returns the pieces of a source table, and about how many rows it has."""
    if side.dialect == "mysql":
        return await mysql_pieces(seen.source, seen.seen.sources[side.name], size)
    rows, _ = (await seen.source.sizes([side.name])).get(side.name, (0, 0))
    return await postgres_pieces(seen.source, side.name, max(1, -(-rows // size))), rows


async def is_small(seen: Survey, pair: ComparedTable) -> bool:
    """Returns whether neither side has many rows.  The target is asked as well: it may have many rows that the source
    has not.
    """
    most = seen.feed.spark.small_rows
    sides: list[tuple[Asked, Side]] = [(seen.source, side) for side in pair.sources]
    sides.append((seen.chat, pair.target))
    return most > 0 and all([await _few(server, side, most) for server, side in sides])


async def _few(server: Asked, side: Side, most: int) -> bool:
    where = f" WHERE {side.where}" if side.where else ""
    ((count,),) = await server.ask(f"SELECT COUNT(*) FROM (SELECT 1 FROM {side.table} t{where} LIMIT {most + 1}) q")
    return int(count) <= most


async def _range(pair: ComparedTable, source: SourceTables) -> tuple[int | None, int | None]:
    ends = list[int]()
    for side in pair.sources:
        column = f"t.{quote(side.dialect, side.columns[0].name)}"
        (row,) = await source.ask(f"SELECT MIN({column}), MAX({column}) FROM {side.table} t")
        ends += [int(end) for end in row if end is not None]
    return (min(ends), max(ends)) if ends else (None, None)
