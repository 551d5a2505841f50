"""Overview of a PostgreSQL source, before its log is read: that it can be, which tables, and where the log ends."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.source import Overview
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.adapters.postgres.logical.history import identify, primary
from tidelock.adapters.postgres.logical.positions import Identity, lsn_of, record_end
from tidelock.adapters.postgres.logical.session import Session, asked, session
from tidelock.adapters.postgres.logical.slots import slot_of
from tidelock.adapters.postgres.logical.table_forms import is_there
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.records import Position, TableName

OLDEST: Final = 140000
_TOLD: Final = "event triggers at the source tell each schema change at its place in the log"
_UNTOLD: Final = (
    "no event triggers at the source tell schema changes: columns that are added, dropped and renamed, and tables that "
    "are dropped and renamed are followed where the log makes it certain, and other changes halt (`tidelock ddl "
    "install FEED` prints the triggers)"
)
_TABLES: Final = (
    "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition "
    "AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1, 2"
)


def look(place: Endpoint, patterns: Sequence[str]) -> Overview:
    """Ask the server, in a handful of round trips.  Raises SourceError.

    What a slot has kept is known where one is looked for (`kept_slot`): the beginning is a place without an LSN.
    """
    with session(place, replication=True) as opened:
        suitable(opened)
        now = log_end(opened, identify(opened))  # first: a table that is made after it is in the log behind it
        names = tables(opened, patterns)
        told = is_there(functools.partial(asked, opened), slot_of(place))
    unmatched = tuple(p for p in patterns if not any(Pattern.of(p).matches(name) for name in names))
    return Overview(names, now, Position("", 0), unmatched, _TOLD if told else _UNTOLD)


def suitable(opened: Session) -> None:
    """Passes where the server writes a log that can be decoded.  Raises UnsuitableLog, Busy."""
    place = opened.place
    if opened.version < OLDEST:
        raise UnsuitableLog(f"{place} is PostgreSQL {opened.version // 10000}", "A source is 14 or newer")
    primary(opened)
    level = opened.rows("SHOW wal_level")[0][0]
    if level != "logical":
        raise UnsuitableLog(
            f"{place} has wal_level={level}, replication needs logical",
            "Run ALTER SYSTEM SET wal_level = logical; and restart the server",
        )


def log_end(opened: Session, identity: Identity) -> Position:
    """The place behind everything that anybody can have seen of the server's tables.

    What was committed with `synchronous_commit = off` is seen before it is on the disk, where a reader of the log
    finds it a moment later.
    """
    inserted = opened.rows("SELECT pg_current_wal_insert_lsn()")[0][0]
    return identity.place(record_end(lsn_of(str(inserted))))


def tables(opened: Session, patterns: Sequence[str]) -> tuple[TableName, ...]:
    """The tables that the patterns match, a partitioned one in place of its partitions.  Raises SourceError."""
    read = [Pattern.of(p) for p in patterns]
    found = (TableName(str(schema), str(table)) for schema, table in opened.rows(_TABLES))
    return tuple(name for name in found if any(p.matches(name) for p in read))
