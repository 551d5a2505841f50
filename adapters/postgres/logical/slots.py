"""Slot and publication of a feed at its source: found, judged, made and dropped.

The slot keeps the server's log for us from a place on, and the publication says which tables' changes are in it.  The
publication is made first: the log is decoded by the catalogue as it was at each place, and says nothing of a
publication that is younger.

Neither is made for a feed that has a checkpoint.  A slot that is made then begins behind it, and what was committed in
between is lost without a word.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from tidelock.adapters.config.url import SLOT, Endpoint
from tidelock.adapters.ports.source_errors import Busy, SourceError, UnsuitableLog
from tidelock.adapters.postgres.logical.positions import lsn_of
from tidelock.adapters.postgres.logical.session import Session, asked, whole
from tidelock.adapters.postgres.silent_partitions import require_told_partitions
from tidelock.engine.model.errors import RESYNC, UNLOGGED
from tidelock.engine.model.records import TableName

PLUGIN: Final = "pgoutput"
WAIT_SECONDS: Final = 60


class Slot(msgspec.Struct, frozen=True):
    """A slot as `pg_replication_slots` shows it.

    `confirmed`: the log is kept for us from here on.  `restart`: the oldest place that the server still needs for
    that.  `active_pid`: of the walsender that uses it; 0: none.  `wal_status`: `reserved`, `extended`, `unreserved` or
    `lost`.  `safe_bytes`: that can be written until it may be lost; None: as many as there are.  `retained_bytes`: of
    the log that it holds back.
    """

    name: str
    plugin: str
    database: str
    confirmed: int
    restart: int
    active_pid: int = 0
    wal_status: str = "reserved"
    safe_bytes: int | None = None
    retained_bytes: int = 0
    temporary: bool = False
    two_phase: bool = False

    @property
    def lost(self) -> bool:
        """The server has removed what the slot was to keep."""
        return self.wal_status == "lost" or not self.restart

    def is_for(self, database: str) -> bool:
        """Tells whether a feed from this database can read by it."""
        return self.plugin == PLUGIN and self.database == database and not self.temporary and not self.two_phase

    @property
    def kind(self) -> str:
        """Its kind, in words: its plugin, its database, and what is unusual of it."""
        told = f"plugin {self.plugin or 'none (physical)'}, database {self.database or 'none'}"
        return f"{told}{', temporary' * self.temporary}{', two_phase' * self.two_phase}"


def slot_of(place: Endpoint) -> str:
    """The name of the feed's slot and of its publication, which `config.feed.completed` has put into the URL."""
    return place.options[SLOT]


def find_slot(session: Session, name: str) -> Slot | None:
    """Reads the slot; None where there is none.  Raises SourceError."""
    found = session.rows(
        "SELECT slot_name, coalesce(plugin, ''), coalesce(database, ''), confirmed_flush_lsn, restart_lsn, "
        "active_pid, wal_status, safe_wal_size, "
        "CASE WHEN pg_is_in_recovery() THEN 0 ELSE pg_current_wal_lsn() - restart_lsn END, temporary, two_phase "
        "FROM pg_replication_slots WHERE slot_name = %s",
        name,
    )
    if not found:
        return None
    slot, plugin, database, confirmed, restart, pid, status, safe, retained, temporary, two_phase = found[0]
    return Slot(
        name=str(slot),
        plugin=str(plugin),
        database=str(database),
        confirmed=lsn_of(confirmed) if confirmed else 0,
        restart=lsn_of(restart) if restart else 0,
        active_pid=whole(pid),
        wal_status=status or "lost",
        safe_bytes=None if safe is None else int(safe),
        retained_bytes=int(float(retained or 0)),
        temporary=temporary == "t",
        two_phase=two_phase == "t",
    )


def make_slot(session: Session, name: str) -> int:
    """Makes the slot and returns the place from which it keeps the log.  It begins a transaction whose view is that of
    the place: what it reads is as the log before the place has left it.

    PostgreSQL waits for every transaction that is open at the moment.  Raises SourceError.
    """
    session.run(f"SET lock_timeout = {WAIT_SECONDS * 1000}")  # such a wait is one for a lock
    try:
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        ((_, place, *_),) = session.rows(f"CREATE_REPLICATION_SLOT {quoted(name)} LOGICAL {PLUGIN} USE_SNAPSHOT")
    except SourceError as error:
        session.run("ROLLBACK")
        if "(55P03)" not in error.message:
            raise
        raise Busy(
            f"{session.place} did not make the slot {name} in {WAIT_SECONDS} s: it waits for the transactions that are "
            f"open there ({_open_transactions(session)})",
            "End them, or wait until they end",
        ) from None
    return lsn_of(str(place))


def _open_transactions(session: Session) -> str:
    rows = session.rows(
        "SELECT pid, coalesce(usename::text, '?'), now() - xact_start FROM pg_stat_activity WHERE backend_xid IS NOT "
        "NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 5"
    )
    return ", ".join(f"pid {pid} of {user} for {age}" for pid, user, age in rows) or "none any more"


def drop_slot(session: Session, name: str) -> None:
    """Drops the slot, which nobody uses.  Raises SourceError."""
    session.run("SELECT pg_drop_replication_slot(%s)", name)


def drop_slot_sql(name: str) -> str:
    """The statement that drops it."""
    return f"SELECT pg_drop_replication_slot('{name}');"


# ---------------------------------------------------------------------------------------------- publication


class Publication(msgspec.Struct, frozen=True):
    """A publication: what it publishes, and of which tables.  `via_root`: rows of partitions as those of the table
    that they are partitions of."""

    name: str
    inserts: bool
    updates: bool
    deletes: bool
    truncates: bool
    via_root: bool
    tables: frozenset[TableName]

    @property
    def whole(self) -> bool:
        """All that changes rows is in it."""
        return self.inserts and self.updates and self.deletes and self.truncates and self.via_root


def find_publication(session: Session, name: str) -> Publication | None:
    """Reads the publication; None where there is none.  Raises SourceError."""
    found = session.rows(
        "SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot FROM pg_publication WHERE pubname = %s", name
    )
    if not found:
        return None
    tables = session.rows("SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", name)
    inserts, updates, deletes, truncates, via_root = (flag == "t" for flag in found[0])
    named = frozenset(TableName(str(schema), str(table)) for schema, table in tables)
    return Publication(name, inserts, updates, deletes, truncates, via_root, named)


def create_publication_sql(name: str, tables: Sequence[TableName]) -> str:
    """The statement that makes it; each table's owner may run it, who also may create in the database."""
    return (
        f"CREATE PUBLICATION {quoted(name)} FOR TABLE {', '.join(map(qualified, tables))} "
        "WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)"
    )


def add_tables_sql(name: str, tables: Iterable[TableName]) -> str:
    """The statement that adds tables to it."""
    return f"ALTER PUBLICATION {quoted(name)} ADD TABLE {', '.join(map(qualified, sorted(tables)))};"


def whole_publication_sql(name: str) -> str:
    """The statement that makes it publish all that changes rows."""
    return (
        f"ALTER PUBLICATION {quoted(name)} SET (publish = 'insert, update, delete, truncate', "
        "publish_via_partition_root = true);"
    )


def drop_publication_sql(name: str) -> str:
    """The statement that drops it."""
    return f"DROP PUBLICATION IF EXISTS {quoted(name)};"


def require_publication(session: Session, name: str, tables: Sequence[TableName]) -> None:
    """Passes where the publication has every change of these tables, and the log all of their partitions'.  Raises
    UnsuitableLog.

    A table that it lacks is not in the log, and the log does not say so.
    """
    found, place = find_publication(session, name), session.place
    if found is None:
        raise UnsuitableLog(
            f"{place} has no publication {name}, so nothing of the feed's tables is in its log",
            f"If it was dropped, what was changed since is not in the log: {create_publication_sql(name, tables)}; "
            f"and {RESYNC}",
        )
    if not found.whole:
        raise UnsuitableLog(
            f"the publication {name} at {place} leaves changes out, or names partitions in place of their table",
            f"{whole_publication_sql(name)} {UNLOGGED}: {RESYNC}",
        )
    lacking = sorted(set(tables) - found.tables)
    if lacking:
        more = f" and {len(lacking) - 1} more tables" if len(lacking) > 1 else ""
        raise UnsuitableLog(
            f"the publication {name} at {place} lacks {lacking[0]}{more}, so the log has nothing of what changes there",
            f"{add_tables_sql(name, lacking)} Then `tidelock run FEED`, which halts once more at a table that the feed "
            "had before and says what to do, and `tidelock copy FEED` for these tables: what was changed before is not "
            "in the log; or leave them out of `tables`",
        )
    require_told_partitions(functools.partial(asked, session), name, set(tables).__contains__)


def quoted(name: str) -> str:
    """An identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'


def qualified(name: TableName) -> str:
    """A table's name in quotes."""
    return f"{quoted(name.schema)}.{quoted(name.table)}"
