"""Schemas that PostgreSQL lacks for a table of the source's log."""

from __future__ import annotations

from collections.abc import Callable

from tidelock.adapters.ddl.schemas import filled, making
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl


async def with_schemas(
    session: TargetSession, ddl: Ddl, target_name: Callable[[TableName], TableName], statements: list[str]
) -> list[str]:
    """Returns the statements that a statement becomes, behind those that make the schemas which they need.  Where none
    is missing nothing asks for the right to make one."""
    wanted = filled(ddl, target_name) if statements else []
    if not wanted:
        return statements
    query = "SELECT nspname::text FROM pg_namespace WHERE nspname = ANY($1::text[])"
    found = await session.connection.fetch(query, wanted)
    return [*making(wanted, {row[0] for row in found}, "postgres"), *statements]
