"""Brings tidelock's own tables at a target to this version: makes missing tables, adds missing columns.

An older version wrote them; feeds of that version may go on beside this one, as nothing is ever taken away.  The
feed's user may often not change them (at PostgreSQL only a table's owner may): then the statements are told.
"""

from __future__ import annotations

from tidelock.adapters.bookkeeping.tables import TABLES, Lacking, columns_query, lacking, needed, quote, statements_for
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import TargetSession

LOCK_SECONDS = 10
_PATIENCE: dict[Dialect, str] = {
    "postgres": f"SET lock_timeout = '{LOCK_SECONDS}s'",
    "mysql": f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}",
}
"""A transaction of some other feed that never ends must not hold up all that would read these tables after us."""


def tables_of(feed: Feed) -> tuple[str, ...]:
    """Returns the tables that the feed needs."""
    return needed(sites=feed.sites is not None)


async def look(target: TargetSession, schema: str, tables: tuple[str, ...] = TABLES) -> Lacking:
    """Returns what the bookkeeping lacks of these tables.  Raises TargetError."""
    return lacking(await target.fetch(columns_query(target.dialect, schema, tables)), tables)


async def upgrade(target: TargetSession, schema: str, seen: Lacking, user: str) -> None:
    """Adds what is missing.  `user`: our account there.  Raises TargetError with the statements where this user may
    not, or cannot now.
    """
    if not seen:
        return
    await target.execute(_PATIENCE[target.dialect])
    while True:
        try:
            for statement in statements_for(seen, target.dialect, schema):
                await target.execute(statement)
            return
        except TargetError as error:
            refusal, before = error, seen
            seen = await look(target, schema, seen.needed)
            if not seen:
                return
            if seen == before:
                break  # else another run adds the same at this moment, and may be ahead at each table
    told = advice(seen, target.dialect, schema, user)
    raise TargetError(f"Tidelock's own tables in {schema} lack {seen}: {refusal}", told)


def older(schema: str, seen: Lacking) -> str:
    """Returns words for what an older bookkeeping lacks."""
    return f"Tidelock's own tables in {schema} are of an older version: they lack {seen}"


def advice(seen: Lacking, dialect: Dialect, schema: str, user: str) -> str:
    """Returns statements that somebody else can run.  At PostgreSQL only its maker may use a new table unless it is
    granted.
    """
    statements = statements_for(seen, dialect, schema)
    if dialect == "postgres" and seen.tables:
        tables = ", ".join(f"{quote(dialect, schema)}.{table}" for table in seen.tables)
        statements.append(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {quote(dialect, user)}")
    owner = "their owner" if dialect == "postgres" else "an administrator"
    return "\n".join([f"Run as {owner}:", *(f"{statement};" for statement in statements)])
