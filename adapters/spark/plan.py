"""What is to be read of each table: all of it, each side cut in pieces, or the rows of some keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from adapters.config import Feed
from adapters.mysql.catalogue import BlockingServer
from adapters.spark.jdbc import Database
from adapters.spark.pairing import Pair
from adapters.spark.pieces import mysql_pieces, postgres_pieces
from adapters.spark.survey import Survey, survey
from engine.records import Row, TableName

BUCKET_ROWS = 32
MOST_BUCKETS = 262_143


class Cut(msgspec.Struct, frozen=True):
    """One table's reading.  `sources`: pieces of each source table, as predicates; `rows`: about how many there are.

    `low`, `high`: the range of an integer key at the source, for pictures; None: it has none.
    `keys`: only rows of these keys are looked at, and all of them; None: the whole table is.
    """

    pair: Pair
    sources: tuple[tuple[str, ...], ...]
    target: tuple[str, ...]
    rows: int
    low: int | None = None
    high: int | None = None
    keys: tuple[Row, ...] | None = None

    @property
    def buckets(self) -> int:
        """Odd, so that keys in even steps fall into all of them."""
        return min(self.rows // BUCKET_ROWS, MOST_BUCKETS) | 1

    @property
    def pieces(self) -> int:
        return sum(map(len, self.sources)) + len(self.target)


class Plan(msgspec.Struct, frozen=True):
    source: Database
    target: Database
    tables: tuple[Cut, ...]


async def plan(
    feed: Feed, only: Sequence[str], keys: Mapping[TableName, tuple[Row, ...] | None] | None = None
) -> Plan:
    """`only`: source tables, `db.table`, `*` for any text; empty for all.  `keys`: of these target tables alone, the
    rows of these keys, or all (None).

    Raises NotComparable, Refused, SourceError, TargetError.
    """
    async with survey(feed, only) as seen:
        cuts = []
        for pair in seen.pairs:
            some = keys.get(pair.name) if keys is not None else None
            if some is not None:
                cuts.append(listed(pair, some))
            elif keys is None or pair.name in keys:
                cuts.append(await whole(seen, pair))
        return Plan(*await seen.databases(), tuple(cuts))


def listed(pair: Pair, keys: tuple[Row, ...]) -> Cut:
    """Rows of a table by their keys; where those cannot be written after all, it is read in one piece."""
    return Cut(pair, (("1 = 1",),) * len(pair.sources), ("1 = 1",), len(keys), keys=keys)


async def whole(seen: Survey, pair: Pair) -> Cut:
    size = seen.feed.spark.piece_rows
    made = [await mysql_pieces(seen.source, seen.seen.sources[side.name], size) for side in pair.sources]
    if seen.own:
        target = (await mysql_pieces(seen.own, seen.seen.own[pair.name], size))[0]
    else:
        target = await postgres_pieces(seen.chat, pair.name, sum(len(pieces) for pieces, _ in made))
    low, high = await _range(pair, seen.source) if pair.integer else (None, None)
    rows = sum(rows for _, rows in made)
    return Cut(pair, tuple(tuple(pieces) for pieces, _ in made), tuple(target), rows, low, high)


async def _range(pair: Pair, source: BlockingServer) -> tuple[int | None, int | None]:
    ends = list[int]()
    for side in pair.sources:
        column = side.cells[0].text
        (row,) = await source.ask(f"SELECT MIN({column}), MAX({column}) FROM {side.table} t")
        ends += [int(end) for end in row if end is not None]
    return (min(ends), max(ends)) if ends else (None, None)
