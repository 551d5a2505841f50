"""Visibility: up to which place of the log a reader of tables that begins now sees everything (counter-example 5).

A commit is in the log, and sent to whoever reads it, before its transaction leaves the server's list of those that
run, and until then no reader of tables sees what it wrote.  Between the two are microseconds, or the wait for a
synchronous standby: seconds, or for ever.  Whoever reads tables in that gap, and then follows the log from behind the
commit, has lost it.

*What is waited for, and why that is enough.*  Let P be a place that the log has when the question is asked, and T a
transaction that wrote the table and whose commit is at or before P.  Then T's locks tell.  Each statement that writes
a table takes ROW EXCLUSIVE on it, or ACCESS EXCLUSIVE (TRUNCATE), on a partition where it writes there, for cascades as
for anybody.  A lock is kept to the end of the transaction, also by one that is prepared; a rolled-back savepoint gives
up its own, and nothing of it is committed.  At the end a transaction leaves the list first and gives up its locks
then.  So at a moment behind P either T's lock is gone, and T with it from the list: every snapshot from here on sees
it; or the lock is there, and its holder is among those that are waited for.  Holders are known by their virtual
transaction, which no later one has again while the server runs.

*Who is not waited for.*  Others commit behind P and may take hours.  A client's session that is idle in its
transaction, at a moment behind P, has not begun to commit: its commit will be behind P.  The server tells that of
other people's sessions to members of `pg_read_all_stats` only; without it they are waited for like all others.  Nobody
waits for transactions that hold no such lock: readers, VACUUM, writers of other tables.

Of all tables together (`visible_end`) the lock of a transaction's own number says the same: it is taken with the
number, before the first row is written, and given up at the end.
"""

from __future__ import annotations

import time
from typing import Final

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.postgres.logical.positions import lsn_of, record_end
from tidelock.adapters.postgres.logical.session import Session, session, whole
from tidelock.engine.model.records import Position, TableName, spelled_lsn

WAIT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02

# Sessions that may be past their commit: any but a client's that is idle in its transaction.
_MAY_COMMIT: Final = """
    NOT coalesce(a.backend_type = 'client backend' AND a.state LIKE 'idle in transaction%', false)"""

_WRITERS: Final = f"""
WITH named AS (
    SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
), parts AS (
    SELECT oid FROM named UNION SELECT p.relid::oid FROM named, pg_partition_tree(named.oid) AS p
)
SELECT DISTINCT l.virtualtransaction, coalesce(l.pid, 0)
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.granted AND l.mode IN ('RowExclusiveLock', 'AccessExclusiveLock')
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.relation IN (SELECT oid FROM parts) AND {_MAY_COMMIT}"""

_NUMBERED: Final = f"""
SELECT DISTINCT l.virtualtransaction, coalesce(l.pid, 0)
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'transactionid' AND l.granted AND l.mode = 'ExclusiveLock' AND {_MAY_COMMIT}"""


def log_end(asked: Session) -> int:
    """Returns the LSN behind the last record of the log, on disk or not: a commit that is not on the disk can be seen.

    Raises SourceError.
    """
    ((inserted,),) = asked.rows("SELECT pg_current_wal_insert_lsn()")
    return record_end(lsn_of(str(inserted)))


def visible_end(place: Endpoint, seconds: float = WAIT_SECONDS) -> int:
    """Returns an LSN up to which whoever begins to read tables now sees everything.

    Raises SourceError, also where a transaction takes longer than `seconds`.
    """
    with session(place) as asked:
        end = log_end(asked)
        _wait(asked, seconds, f"what is in the log up to {spelled_lsn(end)}", _NUMBERED)
        return end


def wait_until_visible(place: Endpoint, position: Position, table: TableName, seconds: float = WAIT_SECONDS) -> None:
    """Returns when whoever begins to read this table sees everything of it up to this place of the log.

    Raises SourceError, also where it takes longer than `seconds`, and where the log does not reach so far.
    """
    with session(place) as asked:
        end = log_end(asked)
        if end < position.offset:
            raise SourceError(
                f"the log of {place} ends at {spelled_lsn(end)}, before {position}, up to which it was read",
                "Is it the server that the feed has read? See `tidelock check FEED`",
            )
        _wait(asked, seconds, str(table), _WRITERS, table.schema, table.table)


def _wait(asked: Session, seconds: float, what: str, query: str, *values: str) -> None:
    deadline = time.monotonic() + seconds
    waited_for = _holders(asked, query, *values)
    while waited_for:
        if time.monotonic() > deadline:
            raise SourceError(
                f"{what} cannot be read from the tables yet: {_told(waited_for)} may have committed changes of it "
                f"that nobody sees, for longer than {seconds:g} s",
                "It is tried again.  Does the source wait for a synchronous standby (pg_stat_replication)? Else end "
                f'that transaction, or GRANT pg_read_all_stats TO "{asked.place.user}", so that sessions idle in '
                "theirs can be told apart",
            )
        time.sleep(_POLL_SECONDS)
        still = _holders(asked, query, *values)
        waited_for = {holder: pid for holder, pid in waited_for.items() if holder in still}


def _holders(asked: Session, query: str, *values: str) -> dict[str, int]:
    return {str(holder): whole(pid) for holder, pid in asked.rows(query, *values)}


def _told(holders: dict[str, int]) -> str:
    """Names the sessions, and prepared transactions, which have none."""
    pids = sorted(pid for pid in holders.values() if pid)
    prepared = len(holders) - len(pids)
    told = []
    if pids:
        told.append(f"the session{'s' if len(pids) > 1 else ''} {', '.join(map(str, pids))} (pg_stat_activity)")
    if prepared:
        told.append(f"{prepared} prepared (pg_prepared_xacts)")
    return " and ".join(told)
