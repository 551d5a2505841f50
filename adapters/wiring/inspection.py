"""Opens a target for `check` and `init`, whichever database it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.finding import error
from tidelock.adapters.ports.target_inspection import CannotRun, Target


@asynccontextmanager
async def opened(endpoint: Endpoint) -> AsyncIterator[Target]:
    """Opens the target.  Raises Refused, also for errors while it is open."""
    if endpoint.scheme == "hive":
        raise CannotRun(error("target-hive", f"{endpoint} is not looked at", "Hive has `run`, `check` and `status`"))
    opening = _postgres(endpoint) if endpoint.dialect == "postgres" else _mysql(endpoint)
    async with opening as target:
        yield target


@asynccontextmanager
async def _postgres(endpoint: Endpoint) -> AsyncIterator[Target]:
    from tidelock.adapters.postgres.target.failures import SERVER_ERRORS
    from tidelock.adapters.postgres.target.inspection import PostgresTarget, unusable

    try:
        target = await PostgresTarget.open(endpoint)
        try:
            yield target
        finally:
            await target.close()
    except SERVER_ERRORS as problem:
        raise CannotRun(unusable(endpoint, problem)) from None


@asynccontextmanager
async def _mysql(endpoint: Endpoint) -> AsyncIterator[Target]:
    from tidelock.adapters.mysql.target.inspection import MySqlTarget, unusable
    from tidelock.adapters.ports.source_errors import SourceError

    try:
        target = await MySqlTarget.open(endpoint)
        try:
            yield target
        finally:
            await target.close()
    except SourceError as problem:
        raise CannotRun(unusable(endpoint, problem)) from None
