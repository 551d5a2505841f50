"""Who wrote a row last at an arbiter, and when that was committed: SQL over `tidelock_writers` and the receipts.

PostgreSQL tells the transaction that wrote a row (`xmin`), and with `track_commit_timestamp` when it was committed.  A
transaction of a feed has left a receipt.  When a checkpoint drops receipts, their transactions are noted, for a day.
A number is used again after four thousand million transactions, so a transaction is its number and its time.

A transaction that no feed has left is the arbiter's own, if all that feeds have left since then are there: each feed
says since when its are (number 0).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.adapters.bookkeeping.tables import WRITERS
from tidelock.adapters.postgres.target.literals import text
from tidelock.adapters.postgres.target.statements import identifier
from tidelock.engine.two_way.conflicts import NOT_TOLD, Writer, WrittenBy

KEPT = "1 day"
_HOURLY = "25 hours"
_TRACKED = "current_setting('track_commit_timestamp') = 'on'"


class WritersSql:
    """Statements for one feed."""

    def __init__(self, schema: str, feed: str) -> None:
        place = identifier(schema)
        self._feed, self._mine = feed, f"feed = {text(feed)}"
        self._writers, self._progress, self._owner = (
            f"{place}.{name}" for name in (WRITERS, "tidelock_progress", "tidelock_owner")
        )

    def keep(self, delete: str) -> list[str]:
        """Run a statement that deletes receipts, as `p`, and note their transactions; forget those of yesterday."""
        began = f"SELECT {text(self._feed)}, 0, now() WHERE NOT EXISTS (SELECT FROM {self._writers} WHERE {self._mine}"
        committed = f"CASE WHEN {_TRACKED} THEN pg_xact_commit_timestamp(x) END"
        noted = f"SELECT {text(self._feed)}, x::text::bigint, at FROM (SELECT x, {committed} AS at FROM gone) AS g"
        since = f"UPDATE {self._writers} SET committed_at = now() - interval '{KEPT}' WHERE {self._mine} AND xid = 0"
        old = f"{since} AND committed_at < now() - interval '{_HOURLY}' RETURNING committed_at AS since"
        note = f"WITH gone AS ({delete} RETURNING p.xmin AS x) INSERT INTO {self._writers} {noted} WHERE at IS NOT NULL"
        forget = f"WITH o AS ({old}) DELETE FROM {self._writers} AS w USING o WHERE {self._mine} AND w.xid <> 0"
        return [
            f"INSERT INTO {self._writers} {began} AND xid = 0) ON CONFLICT DO NOTHING",
            f"{note} ON CONFLICT DO NOTHING",
            f"{forget} AND w.committed_at < o.since",
        ]

    def writer(self, xid: str) -> str:
        """Query of when a transaction was committed, whose feed left it, and whether none is known not to have."""
        noted = f"{self._owner} AS o JOIN {self._writers} AS w ON w.feed = o.feed"
        receipt = f"(SELECT p.feed FROM {self._progress} AS p WHERE p.xmin = '{xid}'::xid LIMIT 1)"
        kept = f"(SELECT w.feed FROM {noted} AND w.xid = {xid} AND w.committed_at = t.at LIMIT 1)"
        known = f"(SELECT max(w.committed_at) FROM {noted} AND w.xid = 0)"
        ours = f"'{xid}'::xid = pg_current_xact_id()::xid"
        return (
            f"SELECT (extract(epoch FROM t.at) * 1000000)::bigint, "
            f"CASE WHEN {ours} THEN {text(self._feed)} ELSE coalesce({receipt}, {kept}) END, t.at >= {known} "
            f"FROM (SELECT pg_xact_commit_timestamp('{xid}'::xid) AS at) AS t"
        )

    def told(self, row: Sequence[object]) -> Writer:
        """Returns what an answer of that query says."""
        at_us, feed, known = row
        if feed == self._feed:
            return Writer(WrittenBy.SPOKE, int(str(at_us or 0)))
        if at_us is None:
            return NOT_TOLD
        by = WrittenBy.ANOTHER if feed else WrittenBy.ARBITER if known else WrittenBy.UNKNOWN
        return Writer(by, int(str(at_us)))
