"""The source as `check` sees it: its settings, the account's rights, and the feed's tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from tidelock.adapters.checks.source import (
    Settings,
    check_grants,
    check_patterns,
    check_place,
    check_settings,
    read_settings,
)
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.mysql import catalogue
from tidelock.adapters.mysql.catalogue import BlockingServer
from tidelock.adapters.mysql.collation import equality
from tidelock.adapters.mysql.connection import connect, reader_endpoint
from tidelock.adapters.mysql.grants import Grants, read_grants
from tidelock.adapters.mysql.schema import read_shapes
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.ports.source_errors import AccessDenied, SourceError
from tidelock.adapters.ports.target_inspection import CannotRun
from tidelock.adapters.schema.source_table import SourceTable, projected
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import Equality


class SourceView(msgspec.Struct, frozen=True):
    """The facts read from the source.

    `schemas`: databases that the account sees.  `tables`: the selected tables, complete.  `rules`, `checks`:
    foreign-key rules and check constraints of all their databases.
    """

    mariadb: bool
    settings: Settings
    grants: Grants
    schemas: frozenset[str]
    tables: dict[TableName, SourceTable]
    rules: dict[tuple[TableName, str], tuple[str, str]]
    checks: dict[TableName, list[tuple[str, str]]]


@asynccontextmanager
async def source_opened(endpoint: Endpoint) -> AsyncIterator[BlockingServer]:
    """Opens a session at the source for `check`.  Raises Refused."""
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


async def view_of(feed: Feed, server: BlockingServer) -> SourceView:
    """Reads the source.  Raises SourceError."""
    settings = await read_settings(server)
    grants = await read_grants(server)
    tables = await _selected(feed, server)
    names = list(tables)
    acting = any(key.cascades for table in tables.values() for key in table.foreign_keys)
    return SourceView(
        mariadb=server.is_mariadb,
        settings=settings,
        grants=grants,
        schemas=frozenset(str(row[0]) for row in await server.ask("SHOW DATABASES")),
        tables=tables,
        rules=await catalogue.rules(server, {n.schema for n in names}) if acting else {},
        checks=await catalogue.checks(server, names) if names else {},
    )


async def _selected(feed: Feed, server: BlockingServer) -> dict[TableName, SourceTable]:
    return await read_shapes(server, lambda n: n.schema != feed.schema and feed.select(n) is not None)


async def check_source(feed: Feed, server: BlockingServer, view: SourceView, stored: Position | None) -> list[Finding]:
    """Lists what is wrong at the source.  `stored`: the target's checkpoint."""
    findings = [
        *check_settings(feed, view.settings, view.tables),
        *check_grants(feed, view.grants, view.mariadb, list(view.tables)),
        *check_patterns(feed, view.tables, view.grants, view.schemas),
    ]
    monitor = view.grants.everywhere("BINLOG MONITOR")
    if monitor and view.settings.values.get("log_bin", "").upper() == "ON":
        findings += await check_place(feed, server, stored)
    return findings


def replicated(feed: Feed, source: SourceTable) -> SourceTable:
    """Returns the table as the feed's rules carry it over."""
    rule = feed.select(source.name)
    assert rule is not None, "only selected tables are read"

    def renames(parent: TableName) -> dict[str, str]:
        of_parent = feed.select(parent)
        return of_parent.columns.rename if of_parent else {}

    return projected(source, rule.columns, renames)


def equalities(source: SourceTable) -> dict[str, Equality]:
    """Returns how the source compares its text columns."""
    return {c.name: equality(c.collation, c.type.startswith("char("))[0] for c in source.columns if c.collation}
