"""`tidelock tombstones`: takes those away that nothing older can meet any more (`engine.two_way.tombstones`).

All feeds of the network are given, as a tombstone may go only when every site has applied what every other one wrote
before it.  So rounds are watched: each begins with the ends of all logs, and is over when the checkpoint of every feed
is there.  After twice as many as there are hops between the farthest sites, what stood at the beginning goes, and each
site's floor is above it: its triggers stamp no row below from then on.

Feeds run on meanwhile; who waits is this command.  A failed row would come later than any round, so there may be none.
What is stamped ahead of the clock stays until it is past, as the floor would be ahead too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from tidelock.adapters.bookkeeping.tables import CHECKPOINTS, SITES, quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.operator.stamps import stamped_tables, stamps_of
from tidelock.adapters.operator.store import Books
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.schema.stamped_table import StampedTable, Words
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.adapters.wiring.source_tables import tables_at
from tidelock.adapters.wiring.sources import overview_of
from tidelock.engine.model.records import TableName
from tidelock.engine.two_way.places import Place
from tidelock.engine.two_way.tombstones import Rounds

MOST: Final = 100_000
"""Tombstones of a table that one call takes away, the oldest first."""
AT_ONCE: Final = 200
PAUSE_SECONDS: Final = 1.0


class Purged(msgspec.Struct, frozen=True):
    """Tombstones of a table at a site that were taken away."""

    site: str
    table: str
    tombstones: int


class _Old(msgspec.Struct, frozen=True):
    """Tombstones that stood as the first round began: values of the key, and the stamp's."""

    table: StampedTable
    rows: tuple[tuple[Any, ...], ...]


async def purge(feeds: Sequence[Feed], told: Callable[[str], None]) -> list[Purged]:
    """Waits for the rounds, and takes the tombstones away; `told`: is told of each round.  Raises TargetError,
    SourceError."""
    sites = _sites(feeds)
    wanted = 2 * hops([(feed.sites.source, feed.sites.target) for feed in feeds if feed.sites is not None])
    await _all_feeds(feeds)
    await _no_failed_rows(feeds)
    old = {site: await _tombstones([feed for feed in feeds if _source(feed) == site]) for site in sites}
    rounds = Rounds(await _ends(feeds))
    while rounds.finished < wanted:
        told(f"round {rounds.running} of {wanted} begins")
        while not rounds.step(await _applied(feeds), await _ends(feeds)):  # noqa: ASYNC110  # other processes apply
            await asyncio.sleep(PAUSE_SECONDS)
    await _no_failed_rows(feeds)
    return [done for site, place in sites.items() for done in await _forget(site, place, feeds[0].schema, old[site])]


def hops(edges: Iterable[tuple[str, str]]) -> int:
    """Returns the most edges that a change takes from one site to another.  Raises TargetError where it does not come
    to all."""
    ways: dict[str, set[str]] = {}
    for source, target in edges:
        ways.setdefault(source, set()).add(target)
        ways.setdefault(target, set())
    most = 0
    for site in ways:
        reached, frontier, distance = {site}, {site}, 0
        while frontier := {there for near in frontier for there in ways[near]} - reached:
            reached |= frontier
            distance += 1
        if missing := sorted(ways.keys() - reached):
            raise TargetError(
                f"by these feeds nothing comes from {site} to {', '.join(missing)}",
                "Give the files of all feeds between these sites",
            )
        most = max(most, distance)
    return most


def _source(feed: Feed) -> str:
    return "" if feed.sites is None else feed.sites.source


def _sites(feeds: Sequence[Feed]) -> dict[str, Endpoint]:
    """Returns where each site is.  Raises TargetError."""
    for feed in feeds:
        if stamps_of(feed) is None or feed.sites is None:
            raise TargetError(f"{feed.name} compares no stamps", "Give feeds with `conflicts: stamp` alone")
        if feed.schema != feeds[0].schema:
            raise TargetError(f"{feed.name} and {feeds[0].name} keep their books in schemas of two names", "Use one")
    return {feed.sites.source: feed.source_url for feed in feeds if feed.sites is not None}


async def _all_feeds(feeds: Sequence[Feed]) -> None:
    """Raises TargetError where a site knows of feeds that were not given."""
    given = {feed.name for feed in feeds}
    for feed in feeds:
        async with session(feed.target_url) as target:
            table = f"{quote(target.dialect, feed.schema)}.{CHECKPOINTS}"
            known = await target.fetch(f"SELECT DISTINCT feed FROM {table} WHERE site IS NOT NULL")
        if missing := sorted({str(name) for (name,) in known} - given):
            raise TargetError(
                f"{feed.target_url} has rows of {', '.join(missing)} too",
                "Give the files of all feeds; what is left of one that is no more goes with `tidelock remove --apply`",
            )


async def _no_failed_rows(feeds: Sequence[Feed]) -> None:
    for feed in feeds:
        async with session(feed.target_url) as target:
            failed = await Books(feed, target).failed_tables()
        if failed:
            raise TargetError(
                f"{feed.name} has failed rows of {failed[0].table}, which may be older than tombstones",
                "Look at them with `tidelock rows list`, then retry or skip them",
            )


async def _tombstones(feeds: Sequence[Feed]) -> list[_Old]:
    found: dict[TableName, StampedTable] = {}
    for feed in feeds:
        async with tables_at(feed.source_url) as source:
            tables = await source.shapes(_selected(feed))
        of_feed = stamped_tables(feed, tables.values(), feed.source_url.dialect, feed.target_url.dialect)
        found |= {table.name: table for table in of_feed.source}
    async with session(feeds[0].source_url) as server:
        return [_Old(table, await _past(server, table)) for table in found.values()]


def _selected(feed: Feed) -> Callable[[TableName], bool]:
    return lambda name: feed.select(name) is not None


async def _past(server: TargetSession, table: StampedTable) -> tuple[tuple[Any, ...], ...]:
    words = Words(table, server.dialect)
    wanted = words.listed(words.time, words.stamped_at)
    return tuple(
        await server.fetch(
            f"SELECT {wanted} FROM {words.dead} WHERE {words.time} < %s ORDER BY {words.time} LIMIT {MOST}",
            int(time.time() * 1_000_000),
        )
    )


async def _ends(feeds: Sequence[Feed]) -> dict[str, Place]:
    """Returns the ends of all logs."""
    sources = {_source(feed): feed for feed in feeds}
    looks = [asyncio.to_thread(overview_of, feed) for feed in sources.values()]
    return {site: one.now.order for site, one in zip(sources, await asyncio.gather(*looks), strict=True)}


async def _applied(feeds: Sequence[Feed]) -> Mapping[tuple[str, str], Place]:
    """Returns how far each feed has applied the log of its source."""
    applied: dict[tuple[str, str], Place] = {}
    for feed in feeds:
        async with session(feed.target_url) as target:
            stored = [position.order for position, _ in (await Books(feed, target).checkpoints()).values()]
        applied[feed.name, _source(feed)] = min(stored, default=())
    return applied


async def _forget(site: str, place: Endpoint, schema: str, old: Sequence[_Old]) -> list[Purged]:
    """The floor comes first: from then on nothing is stamped below what goes."""
    made = []
    async with session(place) as server:
        for one in old:
            words, count = Words(one.table, server.dialect), 0
            if one.rows:
                floor = max(row[-2] for row in one.rows)
                books = f"{quote(server.dialect, schema)}.{SITES}"
                await server.execute(f"UPDATE {books} SET floor = %s WHERE own = 1 AND floor < %s", floor, floor)
            for start in range(0, len(one.rows), AT_ONCE):
                count += await server.execute(*_delete(words, one.rows[start : start + AT_ONCE]))
            made.append(Purged(site, str(one.table.name), count))
    return made


def _delete(words: Words, rows: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Yields the statement and its values: a tombstone that is greater by now stays."""
    columns = [*words.keys, words.time, words.stamped_at]
    same = " AND ".join(f"{column} = %s" for column in columns)
    yield f"DELETE FROM {words.dead} WHERE " + " OR ".join([f"({same})"] * len(rows))
    for row in rows:
        yield from row
