"""Opens both servers of a feed and reads what their catalogues say of its tables: every plan of reading begins with
that.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tidelock.adapters.checks.source_view import source_opened
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.mysql import catalogue
from tidelock.adapters.mysql.catalogue import BlockingServer
from tidelock.adapters.mysql.schema import read_shapes
from tidelock.adapters.ports.target_inspection import Target
from tidelock.adapters.spark.jdbc import Database
from tidelock.adapters.verify.table_pairs import Catalogue, ComparedTable, NotComparable, pairs
from tidelock.adapters.wiring.inspection import opened
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.adapters.wiring.source_tables import MySqlTables, SourceTables, tables_at
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.records import TableName

_JSON_CHECK = re.compile(r"json_valid\(`(.+)`\)", re.IGNORECASE)


class AskedTarget:
    """A session with the target that can be asked."""

    def __init__(self, chat: TargetSession) -> None:
        self._chat = chat

    async def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Returns the rows of a query."""
        return await self._chat.fetch(sql, *args)


class Survey:
    """Both servers, open.  `source`, `chat`: connections to source and target; `own`: the target once more, where it is
    a MySQL or MariaDB.  `pairs`: the tables, in order of their names at the target.
    """

    def __init__(
        self, feed: Feed, seen: Catalogue, source: SourceTables, chat: AskedTarget, own: BlockingServer | None
    ) -> None:
        self.feed, self.seen = feed, seen
        self.source, self.chat, self.own = source, chat, own
        self.pairs: list[ComparedTable] = pairs(feed, seen)

    async def databases(self) -> tuple[Database, Database]:
        """Returns source and target, as Spark reads them."""
        target = await MySqlTables(self.own).is_encrypted() if self.own else False
        return (
            Database(self.feed.source_url, await self.source.is_encrypted()),
            Database(self.feed.target_url, target),
        )


@asynccontextmanager
async def survey(feed: Feed, only: Sequence[str]) -> AsyncIterator[Survey]:
    """Opens both servers.  `only`: source tables, `db.table`, `*` for any text; empty for all.

    Raises NotComparable, Refused, SourceError, TargetError.
    """
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(_source(feed.source_url))
        target = await stack.enter_async_context(opened(feed.target_url))
        chat = await stack.enter_async_context(session(feed.target_url))
        own = await stack.enter_async_context(source_opened(feed.target_url)) if target.dialect == "mysql" else None
        seen = await _catalogue(feed, only, source, target, own)
        if not seen.sources:
            raise NotComparable(
                f"no table at {feed.source_url} matches {', '.join(only) or 'the feed'}", "See `tidelock check FEED`"
            )
        yield Survey(feed, seen, source, AskedTarget(chat), own)


@asynccontextmanager
async def _source(place: Endpoint) -> AsyncIterator[SourceTables]:
    if place.dialect == "postgres":
        async with tables_at(place) as tables:
            yield tables
        return
    async with source_opened(place) as server:
        yield MySqlTables(server)


async def paired(feed: Feed, only: Sequence[str]) -> list[ComparedTable]:
    """Returns `Survey.pairs`.  Raises what `survey` raises."""
    async with survey(feed, only) as seen:
        return seen.pairs


async def _catalogue(
    feed: Feed, only: Sequence[str], source: SourceTables, target: Target, own: BlockingServer | None
) -> Catalogue:
    patterns = [Pattern.of(text) for text in only]

    def wanted(name: TableName) -> bool:
        chosen = not patterns or any(p.matches(name) for p in patterns)
        return chosen and name.schema != feed.schema and feed.select(name) is not None

    sources = await source.shapes(wanted)
    names = list(dict.fromkeys(feed.target_name(name) for name in sources))
    return Catalogue(
        dialect=target.dialect,
        sources=sources,
        targets=await target.tables(names),
        own=await read_shapes(own, set(names).__contains__) if own else {},
        documents=await _documents(source, list(sources)) if sources else {},
    )


async def _documents(source: SourceTables, names: list[TableName]) -> dict[TableName, frozenset[str]]:
    """Returns columns that MariaDB declares as JSON: a text with a check."""
    if not isinstance(source, MySqlTables) or not source.server.is_mariadb:
        return {}
    checks = await catalogue.checks(source.server, names)
    return {
        table: frozenset(found[1] for _, clause in clauses if (found := _JSON_CHECK.fullmatch(clause)))
        for table, clauses in checks.items()
    }
