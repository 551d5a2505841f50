"""A PostgreSQL source as `check` and `init` look at it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.checks.postgres_commands import check_commands, command_preparations, command_removals
from tidelock.adapters.checks.postgres_facts import SourceFacts, read_facts
from tidelock.adapters.checks.postgres_publication import (
    check_publication,
    publication_preparations,
    publication_removals,
)
from tidelock.adapters.checks.postgres_server import check_role, check_server
from tidelock.adapters.checks.postgres_slot import check_slot, slot_preparations, slot_removals
from tidelock.adapters.checks.postgres_tables import check_patterns, check_tables
from tidelock.adapters.checks.source_inspection import Preparation, SourceView
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.definition import Definition
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.ports.target_inspection import CannotRun
from tidelock.adapters.postgres.catalogue import AsyncServer
from tidelock.adapters.postgres.definitions import read_definitions
from tidelock.adapters.postgres.schema import is_replicated, read_rows, read_rules, tables_of
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS
from tidelock.adapters.postgres.target.session import SessionSettings
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.engine.model.records import Kind, Position, TableName
from tidelock.engine.model.schema import Equality

LOCK_SECONDS = 10


class PostgresInspection:
    """`facts`: of the server, the feed's slot, its publication and every table of the database."""

    def __init__(
        self, feed: Feed, connection: asyncpg.Connection[asyncpg.Record], facts: SourceFacts, view: SourceView
    ) -> None:
        self.view = view
        self._feed = feed
        self._connection = connection
        self._facts = facts

    async def findings(self, stored: Position | None) -> list[Finding]:
        """Lists what is wrong at the source.  `stored`: the target's checkpoint."""
        feed, facts, tables = self._feed, self._facts, self.view.tables
        return [
            *check_server(feed, facts),
            *check_role(feed, facts, list(tables)),
            *check_patterns(feed, facts, tables),
            *check_tables(feed, facts, tables),
            *check_publication(feed, facts, tables),
            *check_slot(feed, facts, stored),
            *check_commands(feed, facts),
        ]

    async def preparations(self, stored: Position | None) -> list[Preparation]:
        """Lists the statements that the source lacks, in the order to run them.  Raises CannotRun."""
        feed, facts, tables = self._feed, self._facts, self.view.tables
        for finding in check_patterns(feed, facts, tables):
            if finding.level == "error":
                raise CannotRun(finding)
        rights = check_role(feed, facts, list(tables))
        return [
            *(Preparation(f.hint.rstrip(";"), f.message, True) for f in rights if f.kind == "source-grant"),
            *publication_preparations(feed, facts, tables),
            *slot_preparations(feed, facts, stored),
        ]

    async def removals(self) -> list[Preparation]:
        """Lists the statements that drop the feed's event triggers, slot and publication.  Raises CannotRun while the
        slot is read."""
        feed, facts = self._feed, self._facts
        return [*slot_removals(feed, facts), *command_removals(feed, facts), *publication_removals(facts)]

    async def tellers(self, *, wanted: bool) -> list[Preparation]:
        """Lists the statements that make or drop the feed's event triggers.  Raises CannotRun."""
        return (command_preparations if wanted else command_removals)(self._feed, self._facts)

    async def definitions(self) -> dict[TableName, Definition]:
        """Returns what the feed's tables have besides columns and keys.  Raises SourceError."""
        try:
            return await read_definitions(AsyncServer(self._connection), list(self.view.tables))
        except SERVER_ERRORS as problem:
            raise _refused(self._feed.source_url, problem) from None

    def equalities(self, table: SourceTable) -> dict[str, Equality]:
        """Returns how the source compares the text columns: by their bytes, where the collation is deterministic."""
        texts = (Kind.TEXT, Kind.ENUM)
        folding = self._facts.folding
        return {
            c.name: Equality.FOLDED if c.collation in folding or c.type.endswith("citext") else Equality.EXACT
            for c in table.columns
            if c.column.kind in texts
        }

    async def execute(self, statement: str) -> None:
        """Executes a statement.  Raises SourceError."""
        try:
            await self._connection.execute(statement)
        except SERVER_ERRORS as problem:
            raise _refused(self._feed.source_url, problem) from None


@asynccontextmanager
async def inspected(feed: Feed) -> AsyncIterator[PostgresInspection]:
    """Opens the source of a feed and looks at it.  Raises CannotRun, SourceError."""
    try:
        connection = await SessionSettings(feed.source_url, "tidelock check", True, LOCK_SECONDS).connect()
    except SERVER_ERRORS as problem:
        raise CannotRun(_unusable(feed.source_url, problem)) from None
    try:
        server = AsyncServer(connection)
        try:
            facts = await read_facts(feed, server, await read_rows(server))
            view = await _view(feed, server, facts)
        except SERVER_ERRORS as problem:
            raise _refused(feed.source_url, problem) from None
        yield PostgresInspection(feed, connection, facts, view)
    finally:
        connection.terminate()


async def _view(feed: Feed, server: AsyncServer, facts: SourceFacts) -> SourceView:
    def wanted(name: TableName) -> bool:
        return name.schema != feed.schema and feed.select(name) is not None

    tables = await tables_of(server, [row for row in facts.tables if is_replicated(row) and wanted(row.name)])
    rules, checks = await read_rules(server, list(tables))
    return SourceView("postgres", False, tables, rules, checks, logs_cascades=True)


def _refused(place: Endpoint, problem: BaseException) -> SourceError:
    code = f" ({problem.sqlstate})" if isinstance(problem, asyncpg.PostgresError) else ""
    return SourceError(f"{place} answered: {problem}{code}", "See the server's log, and the rights of the feed's user")


def _unusable(place: Endpoint, problem: BaseException) -> Finding:
    user, database = quote("postgres", place.user), quote("postgres", place.database)
    match problem:
        case asyncpg.InvalidAuthorizationSpecificationError():
            hint = f"Correct user and password in the feed's `source`, or ALTER ROLE {user} LOGIN PASSWORD '…';"
            return error("source-denied", f"{place} refused us: {problem}", hint)
        case asyncpg.InvalidCatalogNameError():
            return error("source-database", f"{place} has no such database", "Correct the database in the feed's URL")
        case asyncpg.InsufficientPrivilegeError():
            hint = f"GRANT CONNECT ON DATABASE {database} TO {user};"
            return error("source-denied", f"{place} refused us: {problem}", hint)
        case asyncpg.PostgresError():
            return error("source-unusable", f"{place} answered: {problem} ({problem.sqlstate})", "See the server's log")
    reason = "no answer" if isinstance(problem, TimeoutError) else str(problem) or type(problem).__name__
    return error(
        "source-unreachable",
        f"{place} cannot be reached: {reason}",
        "Check that the server runs, and host, port and TLS of the feed's `source`",
    )
