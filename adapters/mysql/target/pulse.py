"""The sign of life at a MySQL or MariaDB target, and the statement that leaves a run's name there (`operator.runs`)."""

from __future__ import annotations

from tidelock.adapters.bookkeeping.lease import LEASE_SECONDS, Claim, lock_name
from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.mysql.target.literals import text
from tidelock.adapters.mysql.target.session import TargetSession, open_session

LOCK_SECONDS = 5


def claim_statement(claim: Claim) -> str:
    """Write the statement that leaves a run's name at the target."""
    set_to = (
        f"token={text(claim.token)},host={text(claim.host)},pid={claim.pid:d},place={text(claim.place)},since=NOW(6),"
        f"beat_at=NOW(6),lease_seconds={LEASE_SECONDS},prepared=NULL,permit=NULL,lag_us=NULL"
    )
    return f"INSERT INTO {_table(claim)} SET feed={text(claim.feed)},grp=0,{set_to} ON DUPLICATE KEY UPDATE {set_to}"


def token_query(claim: Claim) -> str:
    """Write the query for the token of the run that has the feed."""
    return f"SELECT token FROM {_table(claim)} WHERE feed={text(claim.feed)} AND grp=0"


async def open_line(endpoint: Endpoint, claim: Claim) -> MySqlLine:
    """Open the session.  Raises what `open_session` raises, and StatementFailed."""
    session = await open_session(endpoint, LOCK_SECONDS)
    try:
        await session.ask(f"SELECT GET_LOCK({text(lock_name(claim.lock))},0)")
        await session.commit()
    except BaseException:
        session.drop()
        raise
    return MySqlLine(session, claim)


class MySqlLine:
    """The session that gives a run's sign of life."""

    def __init__(self, session: TargetSession, claim: Claim) -> None:
        self._session = session
        self._of = f"WHERE feed={text(claim.feed)} AND grp=0 AND token={text(claim.token)}"
        self._table, self._token = _table(claim), token_query(claim)

    async def beat(self, prepared: str, permit: str, lag_us: int | None) -> bool:
        """Give a sign of life.  Returns whether the run still has the feed."""
        words, word = (text(one) if one else "NULL" for one in (prepared, permit))
        lag = "NULL" if lag_us is None else f"{lag_us:d}"
        statement = f"UPDATE {self._table} SET beat_at=NOW(6),prepared={words},permit={word},lag_us={lag} {self._of}"
        beaten, _ = await self._session.run([statement.encode(), b"COMMIT"])
        return beaten.affected == 1

    async def owner(self) -> str:
        """Return the token of the run that has the feed, '' where there is none."""
        found = (await self._session.ask(self._token)).rows
        await self._session.commit()
        return str(found[0][0]) if found else ""

    async def end(self) -> None:
        """Take the sign of life away and close the session."""
        ended = f"UPDATE {self._table} SET beat_at=NULL,prepared=NULL,permit=NULL,lag_us=NULL {self._of}"
        await self._session.run([ended.encode(), b"COMMIT"])
        await self._session.close()

    def drop(self) -> None:
        """Cut the session off."""
        self._session.drop()


def _table(claim: Claim) -> str:
    return f"{quote('mysql', claim.schema)}.tidelock_runs"
