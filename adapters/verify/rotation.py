"""Chooses the share of a feed's rows to compare now; the next share begins where it ends (`tidelock verify --every`).

Tables come one after another, by name.  A table whose key is an integer, and that one source table fills, is taken in
ranges of that key, each about as large as a task reads.  Any other table is taken as a whole, because no order of its
keys is the same at both ends.  The ranges of a table leave no gap: the first has no lower end and the last no upper
one, so a row that only the target has is in one of them too.  Rows that come while a table is passed through are seen
or not; the next pass will see them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.spark.jdbc import Database
from tidelock.adapters.verify.catalogues import Survey, survey
from tidelock.adapters.verify.plan import Cut, ReadingPlan, is_small, whole
from tidelock.adapters.verify.table_pairs import ComparedTable, Side
from tidelock.engine.model.records import TableName


class RotationPlace(msgspec.Struct, frozen=True):
    """The place behind the key `after` of `table` (None: at its beginning).  `table` None: at the beginning of all."""

    table: TableName | None = None
    after: int | None = None


class Range(msgspec.Struct, frozen=True):
    """A range of one table's rows.  `first`, `last`: no row of the table is before, none behind.  `behind`: the next
    place.
    """

    cut: Cut
    first: bool
    last: bool
    behind: RotationPlace


class Share(msgspec.Struct, frozen=True):
    """The rows to compare now.  `databases`: source and target.  `total`: about how many rows all tables have."""

    databases: tuple[Database, Database]
    ranges: tuple[Range, ...]
    total: int

    @property
    def plan(self) -> ReadingPlan:
        """The reading of these rows."""
        return ReadingPlan(*self.databases, tuple(part.cut for part in self.ranges))

    @property
    def rows(self) -> int:
        """About how many rows these are."""
        return sum(part.cut.rows for part in self.ranges)


async def share(feed: Feed, only: Sequence[str], part: float, place: RotationPlace) -> Share:
    """Returns the next `part` (0 to 1) of all rows, at least one range; it ends where the tables do.

    `only`: source tables, all if empty.  Raises NotComparable, Refused, SourceError, TargetError.
    """
    async with survey(feed, only) as seen:
        total = sum([await _count(seen, pair) for pair in seen.pairs])
        ranges, rows = list[Range](), 0
        async for found in _ranges(seen, place):
            ranges.append(found)
            rows += found.cut.rows
            if rows >= part * total:
                break
        return Share(await seen.databases(), tuple(ranges), total)


async def _ranges(seen: Survey, place: RotationPlace) -> AsyncIterator[Range]:
    pairs = [pair for pair in seen.pairs if place.table is None or pair.name >= place.table]
    pairs = pairs or seen.pairs  # the tables that were still to come are gone
    for pair, following in zip(pairs, [*pairs[1:], None], strict=True):
        after = place.after if pair.name == place.table else None
        last = False
        while not last:
            first = after is None
            cut, after = await _next(seen, pair, after)
            last = after is None
            done = RotationPlace(following.name if following is not None else None)
            yield Range(cut, first, last, done if last else RotationPlace(pair.name, after))


async def _count(seen: Survey, pair: ComparedTable) -> int:
    """Returns about how many rows a table has, by the source's statistics."""
    sizes = await seen.source.sizes([side.name for side in pair.sources])
    return sum(rows for rows, _ in sizes.values())


async def _next(seen: Survey, pair: ComparedTable, after: int | None) -> tuple[Cut, int | None]:
    """Returns a range of the table, or all of it, and where it ends; None: at the table's end."""
    if not pair.integer or len(pair.sources) > 1:
        return await whole(seen, pair), None
    (side,) = pair.sources
    key, size = quote(side.dialect, side.columns[0].name), seen.feed.spark.piece_rows
    behind = f" WHERE {key} > {after}" if after is not None else ""
    found = await seen.source.ask(f"SELECT {key} FROM {side.table}{behind} ORDER BY {key} LIMIT 1 OFFSET {size - 1}")
    until = int(found[0][0]) if found else None
    narrow = msgspec.structs.replace(
        pair, sources=(_narrow(side, after, until),), target=_narrow(pair.target, after, until)
    )
    ((count,),) = await seen.source.ask(f"SELECT COUNT(*) FROM (SELECT 1 FROM {side.table}{behind} LIMIT {size}) t")
    return Cut(narrow, (("1 = 1",),), ("1 = 1",), int(count), small=await is_small(seen, narrow)), until


def _narrow(side: Side, after: int | None, until: int | None) -> Side:
    key = f"t.{quote(side.dialect, side.columns[0].name)}"
    parts = [side.where] if side.where else []
    parts += [f"{key} > {after}"] if after is not None else []
    parts += [f"{key} <= {until}"] if until is not None else []
    return msgspec.structs.replace(side, where=" AND ".join(f"({part})" for part in parts))
