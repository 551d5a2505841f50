"""The sign of life at a PostgreSQL target, and the statement that leaves a run's name there (`operator.runs`)."""

from __future__ import annotations

import asyncpg

from tidelock.adapters.bookkeeping.lease import LEASE_SECONDS, Claim
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.postgres.target.literals import text
from tidelock.adapters.postgres.target.session import SessionSettings
from tidelock.adapters.postgres.target.statements import identifier

LOCK_SECONDS = 5.0


def claim_statement(claim: Claim) -> str:
    """Write the statement that leaves a run's name at the target."""
    values = (
        f"{text(claim.feed)}, 0, {text(claim.token)}, {text(claim.host)}, {claim.pid:d}, {text(claim.place)}, now(), "
        f"clock_timestamp(), {LEASE_SECONDS}, NULL, NULL, NULL"
    )
    columns = ("token", "host", "pid", "place", "since", "beat_at", "lease_seconds", "prepared", "permit", "lag_us")
    return (
        f"INSERT INTO {_table(claim)} (feed, grp, {', '.join(columns)}) VALUES ({values}) "
        f"ON CONFLICT (feed, grp) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in columns)}"
    )


def token_query(claim: Claim) -> str:
    """Write the query for the token of the run that has the feed."""
    return f"SELECT token FROM {_table(claim)} WHERE feed = {text(claim.feed)} AND grp = 0"


async def open_line(endpoint: Endpoint, claim: Claim) -> PostgresLine:
    """Open the session.  Raises one of SERVER_ERRORS."""
    connection = await SessionSettings(endpoint, "tidelock pulse", False, LOCK_SECONDS).connect()
    await connection.execute(f"SELECT pg_try_advisory_lock({claim.lock})")
    return PostgresLine(connection, claim)


class PostgresLine:
    """The session that gives a run's sign of life."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], claim: Claim) -> None:
        self._connection = connection
        self._of = f"WHERE feed = {text(claim.feed)} AND grp = 0 AND token = {text(claim.token)}"
        self._table, self._token = _table(claim), token_query(claim)

    async def beat(self, prepared: str, permit: str, lag_us: int | None) -> bool:
        """Give a sign of life.  Returns whether the run still has the feed."""
        words, word = (text(one) if one else "NULL" for one in (prepared, permit))
        lag = "NULL" if lag_us is None else f"{lag_us:d}"
        done = await self._connection.execute(
            f"UPDATE {self._table} SET beat_at = clock_timestamp(), prepared = {words}, permit = {word}, "
            f"lag_us = {lag} {self._of}"
        )
        return bool(done == "UPDATE 1")

    async def owner(self) -> str:
        """Return the token of the run that has the feed, '' where there is none."""
        return await self._connection.fetchval(self._token) or ""

    async def end(self) -> None:
        """Take the sign of life away and close the session."""
        await self._connection.execute(
            f"UPDATE {self._table} SET beat_at = NULL, prepared = NULL, permit = NULL, lag_us = NULL {self._of}"
        )
        await self._connection.close()

    def drop(self) -> None:
        """Cut the session off."""
        self._connection.terminate()


def _table(claim: Claim) -> str:
    return f"{identifier(claim.schema)}.tidelock_runs"
