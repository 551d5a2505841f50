"""What is to be read: the servers are asked for their catalogues, then each side of each table is cut in pieces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from adapters.check import source_opened
from adapters.config import Feed
from adapters.inspection import Target, opened
from adapters.mysql import catalogue
from adapters.mysql.catalogue import BlockingServer
from adapters.mysql.schema import read_shapes
from adapters.session import Session, session
from adapters.spark.jdbc import Database
from adapters.spark.pairing import Catalogue, NotComparable, Pair, pairs
from adapters.spark.pieces import mysql_pieces, postgres_pieces
from engine.pattern import Pattern
from engine.records import TableName

_JSON_CHECK = re.compile(r"json_valid\(`(.+)`\)", re.IGNORECASE)
BUCKET_ROWS = 32
MOST_BUCKETS = 262_143


class Cut(msgspec.Struct, frozen=True):
    """One table's reading.  `sources`: pieces of each source table, as predicates; `rows`: about how many there are.

    `low`, `high`: the range of an integer key at the source, for pictures; None: it has none.
    """

    pair: Pair
    sources: tuple[tuple[str, ...], ...]
    target: tuple[str, ...]
    rows: int
    low: int | None = None
    high: int | None = None

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


async def plan(feed: Feed, only: Sequence[str]) -> Plan:
    """`only`: source tables, `db.table`, `*` for any text; empty for all.

    Raises NotComparable, Refused, SourceError, TargetError.
    """
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(source_opened(feed.source_url))
        target = await stack.enter_async_context(opened(feed.target_url))
        chat = await stack.enter_async_context(session(feed.target_url))
        own = await stack.enter_async_context(source_opened(feed.target_url)) if target.dialect == "mysql" else None
        seen = await _catalogue(feed, only, source, target, own)
        if not seen.sources:
            raise NotComparable(
                f"no table at {feed.source_url} matches {', '.join(only) or 'the feed'}", "See `tidelock check FEED`"
            )
        cuts = [await _cut(feed, seen, pair, source, _Asked(chat), own) for pair in pairs(feed, seen)]
        return Plan(
            Database(feed.source_url, await _is_encrypted(source)),
            Database(feed.target_url, await _is_encrypted(own) if own else False),
            tuple(cuts),
        )


class _Asked:
    def __init__(self, chat: Session) -> None:
        self._chat = chat

    async def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        return await self._chat.fetch(sql, *args)


async def _catalogue(
    feed: Feed, only: Sequence[str], source: BlockingServer, target: Target, own: BlockingServer | None
) -> Catalogue:
    patterns = [Pattern.of(text) for text in only]

    def wanted(name: TableName) -> bool:
        chosen = not patterns or any(p.matches(name) for p in patterns)
        return chosen and name.schema != feed.schema and feed.select(name) is not None

    sources = await read_shapes(source, wanted)
    names = list(dict.fromkeys(feed.target_name(name) for name in sources))
    return Catalogue(
        dialect=target.dialect,
        sources=sources,
        targets=await target.tables(names),
        own=await read_shapes(own, set(names).__contains__) if own else {},
        documents=await _documents(source, list(sources)) if source.is_mariadb and sources else {},
    )


async def _documents(source: BlockingServer, names: list[TableName]) -> dict[TableName, frozenset[str]]:
    """MariaDB's JSON is a text with a check."""
    checks = await catalogue.checks(source, names)
    return {
        table: frozenset(found[1] for _, clause in clauses if (found := _JSON_CHECK.fullmatch(clause)))
        for table, clauses in checks.items()
    }


async def _cut(
    feed: Feed, seen: Catalogue, pair: Pair, source: BlockingServer, chat: _Asked, own: BlockingServer | None
) -> Cut:
    size = feed.spark.piece_rows
    made = [await mysql_pieces(source, seen.sources[side.name], size) for side in pair.sources]
    if own:
        target = (await mysql_pieces(own, seen.own[pair.name], size))[0]
    else:
        target = await postgres_pieces(chat, pair.name, sum(len(pieces) for pieces, _ in made))
    low, high = await _range(pair, source) if pair.integer else (None, None)
    rows = sum(rows for _, rows in made)
    return Cut(pair, tuple(tuple(pieces) for pieces, _ in made), tuple(target), rows, low, high)


async def _range(pair: Pair, source: BlockingServer) -> tuple[int | None, int | None]:
    ends = list[int]()
    for side in pair.sources:
        column = side.cells[0].text
        (row,) = await source.ask(f"SELECT MIN({column}), MAX({column}) FROM {side.table} t")
        ends += [int(end) for end in row if end is not None]
    return (min(ends), max(ends)) if ends else (None, None)


async def _is_encrypted(server: BlockingServer) -> bool:
    return bool((await server.ask("SHOW SESSION STATUS LIKE 'Ssl_cipher'"))[0][1])
