"""How `check` and `init` look at a target, whichever database it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from adapters.bookkeeping import Lacking
from adapters.check_tables import Details
from adapters.endpoint import Endpoint
from adapters.finding import Finding, error
from adapters.types import Dialect
from engine.records import Position, TableName
from engine.schema import TargetTable

ROW_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")


class Refused(Exception):
    """The database cannot be used at all; `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


class Target(Protocol):
    """One open connection that only reads, but for `execute`."""

    dialect: Dialect
    mariadb: bool
    account: str

    async def tables(self, names: Sequence[TableName]) -> dict[TableName, TargetTable]: ...

    async def details(self, names: Sequence[TableName]) -> dict[TableName, Details]: ...

    async def making(self, names: Sequence[TableName]) -> list[Finding]:
        """What keeps the feed's user from making and filling these tables, which it does not see."""
        ...

    async def bookkeeping(self, schema: str) -> list[Finding]:
        """What keeps the feed's user from making or using tidelock's own tables."""
        ...

    async def lacking(self, schema: str) -> Lacking:
        """What is missing of tidelock's own tables."""
        ...

    async def may_add(self, schema: str, lacking: Lacking) -> bool:
        """Whether the feed's user may add the missing columns."""
        ...

    async def durability(self) -> list[Finding]:
        """Whether a commit that the server has reported can be lost without this feed noticing."""
        ...

    async def schemas(self) -> set[str]: ...

    async def checkpoint(self, schema: str, feed: str) -> Position | None:
        """Where the feed goes on from, of the lowest group; None before the first run."""
        ...

    async def execute(self, statement: str) -> None: ...

    async def close(self) -> None: ...


@asynccontextmanager
async def opened(endpoint: Endpoint) -> AsyncIterator[Target]:
    """Raises Refused, also for what goes wrong while it is open."""
    if endpoint.scheme == "hive":
        raise Refused(error("target-hive", f"{endpoint} is not looked at", "Hive has `run`, `check` and `status`"))
    opening = _postgres(endpoint) if endpoint.dialect == "postgres" else _mysql(endpoint)
    async with opening as target:
        yield target


@asynccontextmanager
async def _postgres(endpoint: Endpoint) -> AsyncIterator[Target]:
    from adapters.postgres.failures import CONNECTION_ERRORS
    from adapters.postgres.inspection import PostgresTarget, unusable

    try:
        target = await PostgresTarget.open(endpoint)
        try:
            yield target
        finally:
            await target.close()
    except CONNECTION_ERRORS as problem:
        raise Refused(unusable(endpoint, problem)) from None


@asynccontextmanager
async def _mysql(endpoint: Endpoint) -> AsyncIterator[Target]:
    from adapters.mysql.errors import SourceError
    from adapters.mysql.inspection import MySqlTarget, unusable

    try:
        target = await MySqlTarget.open(endpoint)
        try:
            yield target
        finally:
            await target.close()
    except SourceError as problem:
        raise Refused(unusable(endpoint, problem)) from None
