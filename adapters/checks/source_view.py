"""A session at a MySQL or MariaDB source, and a source's tables as a feed carries them over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.mysql.catalogue import BlockingServer
from tidelock.adapters.mysql.connection import connect, reader_endpoint
from tidelock.adapters.ports.finding import error
from tidelock.adapters.ports.source_errors import AccessDenied, SourceError
from tidelock.adapters.ports.target_inspection import CannotRun
from tidelock.adapters.schema.source_table import SourceTable, kept_names, projected
from tidelock.engine.model.records import TableName


@asynccontextmanager
async def source_opened(endpoint: Endpoint) -> AsyncIterator[BlockingServer]:
    """Opens a session at a MySQL or MariaDB source for `check`.  Raises CannotRun."""
    try:
        place = reader_endpoint(endpoint)
        server = BlockingServer(await asyncio.to_thread(connect, place), place)
    except AccessDenied as problem:
        raise CannotRun(
            error(
                "source-denied",
                problem.message,
                "Correct user and password in the feed's `source`, or at the source "
                f"ALTER USER '{endpoint.user}'@'%' IDENTIFIED BY '…';",
            )
        ) from None
    except SourceError as problem:
        raise CannotRun(error("source-unreachable", problem.message, problem.hint)) from None
    try:
        yield server
    finally:
        server.close()


def names_at_target(feed: Feed, source: SourceTable) -> dict[str, str]:
    """Returns the columns of a table that the feed carries over, with their names at the target."""
    rule = feed.select(source.name)
    assert rule is not None, "only selected tables are read"
    return kept_names(source, rule.columns)


def replicated(feed: Feed, source: SourceTable) -> SourceTable:
    """Returns the table as the feed's rules carry it over."""
    rule = feed.select(source.name)
    assert rule is not None, "only selected tables are read"

    def renames(parent: TableName) -> dict[str, str]:
        of_parent = feed.select(parent)
        return of_parent.columns.rename if of_parent else {}

    return projected(source, rule.columns, renames)
