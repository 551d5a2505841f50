"""Opens a target for `check` and `init`, whichever database it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.ports.target_inspection import CannotRun, Target


class _Kind(NamedTuple):
    """`open` and what is asked raise `errors`; `unusable` puts one of them into words."""

    open: Callable[[Endpoint], Awaitable[Target]]
    unusable: Callable[[Endpoint, Any], Finding]
    errors: tuple[type[BaseException], ...]


@asynccontextmanager
async def opened(endpoint: Endpoint) -> AsyncIterator[Target]:
    """Opens the target.  Raises CannotRun, also for errors while it is open."""
    if endpoint.scheme == "hive":
        raise CannotRun(error("target-hive", f"{endpoint} is not looked at", "Hive has `run`, `check` and `status`"))
    kind = _postgres() if endpoint.dialect == "postgres" else _mysql()
    try:
        target = await kind.open(endpoint)
        try:
            yield target
        finally:
            await target.close()
    except kind.errors as problem:
        raise CannotRun(kind.unusable(endpoint, problem)) from None


def _postgres() -> _Kind:
    from tidelock.adapters.postgres.target.failures import SERVER_ERRORS
    from tidelock.adapters.postgres.target.inspection import PostgresTarget, unusable

    return _Kind(PostgresTarget.open, unusable, SERVER_ERRORS)


def _mysql() -> _Kind:
    from tidelock.adapters.mysql.target.inspection import MySqlTarget, unusable
    from tidelock.adapters.ports.source_errors import SourceError

    return _Kind(MySqlTarget.open, unusable, (SourceError,))
