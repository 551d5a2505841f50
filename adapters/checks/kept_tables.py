"""Checks at each start whether the target's tables keep rows over a crash, as the bookkeeping beside them does.

`check` looks at that before a first run, and a table may have been altered since: one that is UNLOGGED, or of an engine
without transactions, comes back empty, or with half a batch, and the checkpoint says that all is applied.
"""

from __future__ import annotations

from typing import Final

from tidelock.adapters.checks.target_schemas import among
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.schema.create_table import qualified
from tidelock.adapters.wiring.session import TargetSession
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.records import TableName

_POSTGRES: Final = (
    "SELECT n.nspname::text, c.relname::text, '' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind = 'r' AND c.relpersistence = 'u' ORDER BY 1, 2"
)
_MYSQL: Final = (
    "SELECT table_schema, table_name, engine FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
    "AND engine IS NOT NULL AND LOWER(engine) <> 'innodb' AND {} ORDER BY 1, 2"
)


async def check_kept_tables(feed: Feed, target: TargetSession) -> list[Finding]:
    """Lists tables of the target that do not keep their rows.  Raises TargetError."""
    patterns = [Pattern.of(rule.target or rule.source) for rule in feed.tables]
    where, schemas = among(patterns)
    asked = target.fetch(_POSTGRES) if target.dialect == "postgres" else target.fetch(_MYSQL.format(where), *schemas)
    rows = await asked
    found = [(TableName(str(schema), str(table)), str(engine)) for schema, table, engine in rows]
    return [
        _unlogged(name) if target.dialect == "postgres" else _of_engine(name, engine)
        for name, engine in found
        if name.schema != feed.schema and any(pattern.matches(name) for pattern in patterns)
    ]


def _unlogged(name: TableName) -> Finding:
    return error(
        "target-unlogged",
        f"{name} is UNLOGGED: a crash empties it and keeps the record of what was applied",
        f"ALTER TABLE {qualified('postgres', name)} SET LOGGED; {_again(name)}",
    )


def _of_engine(name: TableName, engine: str) -> Finding:
    return error(
        "target-engine",
        f"{name} is a {engine} table, whose changes cannot be rolled back",
        f"ALTER TABLE {qualified('mysql', name)} ENGINE=InnoDB; {_again(name)}",
    )


def _again(name: TableName) -> str:
    return (
        "then `tidelock run FEED`, and if the server has crashed or was restarted since, beside it `tidelock copy FEED "
        f"--table {name}`"
    )
