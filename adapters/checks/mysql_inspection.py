"""A MySQL or MariaDB source as `check` and `init` look at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tidelock.adapters.checks.source import (
    Settings,
    check_grants,
    check_patterns,
    check_place,
    check_settings,
    read_settings,
)
from tidelock.adapters.checks.source_inspection import Preparation, SourceView
from tidelock.adapters.checks.source_view import source_opened
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.mysql import catalogue
from tidelock.adapters.mysql.catalogue import BlockingServer
from tidelock.adapters.mysql.collation import equality
from tidelock.adapters.mysql.definitions import read_definitions
from tidelock.adapters.mysql.grants import Grants, read_grants
from tidelock.adapters.mysql.left_out import left_out
from tidelock.adapters.mysql.schema import read_shapes
from tidelock.adapters.ports.definition import Definition
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.ports.target_inspection import CannotRun
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import Equality


class MySqlInspection:
    """`schemas`: databases that the account sees."""

    def __init__(
        self, feed: Feed, server: BlockingServer, settings: Settings, grants: Grants, schemas: frozenset[str],
        view: SourceView,
    ) -> None:  # fmt: skip
        self.view = view
        self._feed = feed
        self._server = server
        self._settings = settings
        self._grants = grants
        self._schemas = schemas

    async def findings(self, stored: Position | None) -> list[Finding]:
        """Lists what is wrong at the source.  `stored`: the target's checkpoint."""
        findings = [
            *check_settings(self._feed, self._settings, self.view.tables),
            *check_grants(self._feed, self._grants, self.view.mariadb, list(self.view.tables)),
            *self._unmatched(),
        ]
        monitor = self._grants.everywhere("BINLOG MONITOR")
        if monitor and self._settings.values.get("log_bin", "").upper() == "ON":
            findings += await asyncio.to_thread(self._left_out)
            findings += await check_place(self._feed, self._server, stored)
        return findings

    def _left_out(self) -> list[Finding]:
        tables, ask = self.view.tables, self._server.rows
        databases = {name.schema for name in tables}
        found = left_out(ask, self._feed.source_url, databases, tables.__contains__, mariadb=self.view.mariadb)
        return [error(kind, problem.message, problem.hint) for kind, problem in found]

    async def preparations(self, stored: Position | None) -> list[Preparation]:
        """Lists the grants that are missing, which only an administrator can make."""
        unmatched = self._unmatched()
        for finding in unmatched:
            if finding.level == "error" and finding.kind != "source-grant":
                raise CannotRun(finding)
        unseen = [finding for finding in unmatched if finding.kind == "source-grant"]
        lacking = check_grants(self._feed, self._grants, self.view.mariadb, list(self.view.tables))
        return [Preparation(f.hint.rstrip(";"), f.message, administrator=True) for f in (*lacking, *unseen)]

    async def removals(self) -> list[Preparation]:
        """Lists nothing: a feed leaves nothing at MySQL but the grants of its user."""
        return []

    async def tellers(self, *, wanted: bool) -> list[Preparation]:
        """Raises CannotRun: this log has the statements themselves."""
        place = self._feed.source_url
        raise CannotRun(error("commands-logged", f"the log of {place} has statements, so nothing need tell them", ""))

    def _unmatched(self) -> list[Finding]:
        return check_patterns(self._feed, self.view.tables, self._grants, self._schemas)

    async def definitions(self) -> dict[TableName, Definition]:
        """Returns what the feed's tables have besides columns and keys."""
        return await read_definitions(self._server, list(self.view.tables))

    def equalities(self, table: SourceTable) -> dict[str, Equality]:
        """Returns how the source compares its text columns."""
        return {c.name: equality(c.collation, c.type.startswith("char("))[0] for c in table.columns if c.collation}

    async def execute(self, statement: str) -> None:
        """Executes a statement."""
        await self._server.ask(statement)


@asynccontextmanager
async def inspected(feed: Feed) -> AsyncIterator[MySqlInspection]:
    """Opens the source of a feed and looks at it.  Raises CannotRun, SourceError."""
    async with source_opened(feed.source_url) as server:
        settings = await read_settings(server)
        grants = await read_grants(server)
        schemas = frozenset(str(row[0]) for row in await server.ask("SHOW DATABASES"))
        yield MySqlInspection(feed, server, settings, grants, schemas, await _view(feed, server, settings))


async def _view(feed: Feed, server: BlockingServer, settings: Settings) -> SourceView:
    def wanted(name: TableName) -> bool:
        return name.schema != feed.schema and feed.select(name) is not None

    tables = await read_shapes(server, wanted)
    names = list(tables)
    acting = any(key.cascades for table in tables.values() for key in table.foreign_keys)
    return SourceView(
        dialect="mysql",
        mariadb=server.is_mariadb,
        tables=tables,
        rules=await catalogue.rules(server, {n.schema for n in names}) if acting else {},
        checks=await catalogue.checks(server, names) if names else {},
        logs_cascades=settings.logs_cascades,
        tells_visibility=server.is_mariadb or settings.get("gtid_mode") == "ON",
    )
