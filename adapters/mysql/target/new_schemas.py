"""Databases that MySQL or MariaDB lacks for a table of the source's log."""

from __future__ import annotations

from collections.abc import Callable

from tidelock.adapters.ddl.schemas import filled, making
from tidelock.adapters.mysql.target.literals import text
from tidelock.adapters.mysql.target.session import TargetSession
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl


async def with_schemas(
    session: TargetSession, ddl: Ddl, target_name: Callable[[TableName], TableName], statements: list[str]
) -> list[str]:
    """Returns the statements that a statement becomes, behind those that make the databases which they need.  Where
    none is missing nothing asks for the right to make one."""
    wanted = filled(ddl, target_name) if statements else []
    if not wanted:
        return statements
    names = ", ".join(map(text, wanted))
    found = await session.ask(f"SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME IN ({names})")
    return [*making(wanted, {str(row[0]) for row in found.rows}, "mysql"), *statements]
