"""Lists what tables with stamps lack at a site: columns, tombstones, triggers that are as they should be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.schema import mysql_stamps, postgres_stamps
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.adapters.schema.stamped_table import StampedTable, Trigger, Words
from tidelock.adapters.wiring.session import TargetSession
from tidelock.engine.model.records import TableName
from tidelock.engine.model.stamp_columns import StampColumns, holds_tombstones

NAME_BYTES: Final[dict[Dialect, int]] = {"postgres": 63 - len("tidelock_stamp_"), "mysql": 64 - len("_tombstones")}
_COLUMNS = (
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s AND table_name IN (%s, %s)"
)
_FUNCTIONS = """SELECT t.tgname::text, p.prosrc FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND t.tgenabled = 'O' AND t.tgrelid = to_regclass(%s)"""
_TRIGGERS = (
    "SELECT trigger_name, action_statement FROM information_schema.triggers "
    "WHERE event_object_schema = %s AND event_object_table = %s"
)


class Lack(msgspec.Struct, frozen=True):
    """Something that is missing, and the statements that make it."""

    what: str
    statements: tuple[str, ...]


class StampedTables(msgspec.Struct, frozen=True):
    """The tables of a feed with stamps, at each of its sites."""

    source: tuple[StampedTable, ...] = ()
    target: tuple[StampedTable, ...] = ()


def stamped_tables(
    feed: Feed, tables: Iterable[SourceTable], source: Dialect, target: Dialect
) -> StampedTables:
    """Returns the tables whose rows have stamps; none where the feed compares none.  Raises TargetError for a table
    that cannot have any."""
    columns = stamps_of(feed)
    if columns is None or feed.sites is None:
        return StampedTables()
    found = [table for table in tables if not holds_tombstones(table.name)]
    made = []
    for table in found:
        for dialect, name in ((source, table.name), (target, feed.target_name(table.name))):
            if len(name.table.encode()) > NAME_BYTES[dialect]:
                raise TargetError(
                    f"the name {name.table} leaves no room for those of its triggers and its tombstones",
                    f"Give it one of at most {NAME_BYTES[dialect]} bytes",
                )
        if not table.primary_key:
            raise TargetError(
                f"stamps need a primary key, and {table.name} has none",
                "Give it one at all sites, or leave it out of the feed's `tables`",
            )
        made.append(table)
    at_source, at_target = feed.sites.source, feed.sites.target
    return StampedTables(
        tuple(StampedTable(t.name, t.primary_key, columns, at_source, feed.schema) for t in made),
        tuple(StampedTable(feed.target_name(t.name), t.primary_key, columns, at_target, feed.schema) for t in made),
    )


def without_stamps(feed: Feed, tables: Mapping[TableName, SourceTable]) -> dict[TableName, SourceTable]:
    """Returns the tables as they are made at a target, which then gets what `lacking` tells."""
    columns = stamps_of(feed)
    if columns is None:
        return dict(tables)
    own = (columns.time, columns.site)
    return {
        name: msgspec.structs.replace(table, columns=tuple(c for c in table.columns if c.name not in own))
        for name, table in tables.items()
        if not holds_tombstones(name)
    }


def refuse_copies(feed: Feed) -> None:
    """Refuses to copy rows with stamps over what a site has: its own may be newer, and not sent yet.  Raises
    TargetError."""
    if stamps_of(feed) is not None:
        raise TargetError(
            "rows with stamps are not copied over a site's own, which may be newer and would differ there for good",
            "Of single rows: UPDATE each with its own values at the site that has the right ones, which makes it the "
            "newest everywhere. Of a whole site: docs/how-to/ring.md says how to fill it anew",
        )


def stamps_of(feed: Feed) -> StampColumns | None:
    """Returns the columns by which the feed compares rows; None where it does not."""
    if feed.conflicts is None or feed.conflicts.stamp is None:
        return None
    return StampColumns(feed.conflicts.stamp.time, feed.conflicts.stamp.site)


async def lacking(server: TargetSession, tables: Iterable[StampedTable]) -> list[Lack]:
    """Lists what the tables lack, in the order to make it.  Raises TargetError."""
    return [lack for table in tables for lack in await _lacking(server, table)]


async def clock(server: TargetSession) -> int:
    """Returns the server's time as its triggers stamp it, in microseconds.  Raises TargetError."""
    made = postgres_stamps if server.dialect == "postgres" else mysql_stamps
    return int((await server.fetch(f"SELECT {made.CLOCK}"))[0][0])


async def _lacking(server: TargetSession, table: StampedTable) -> list[Lack]:
    made = postgres_stamps if server.dialect == "postgres" else mysql_stamps
    dead = table.tombstones
    found = await server.fetch(_COLUMNS, table.name.schema, table.name.table, dead.table)
    names = {(str(of), str(column)) for of, column in found}
    lacks = []
    if not {(table.name.table, name) for name in (table.columns.time, table.columns.site)} <= names:
        lacks.append(Lack(f"{table.name} has no columns for stamps", (made.columns(table),)))
    if not any(of == dead.table for of, _ in names):
        lacks.append(Lack(f"{table.name} has no table for tombstones", tuple(made.tombstones(table))))
    there = await _triggers(server, table)
    wanted: Sequence[Trigger] = made.triggers(table)
    lacks += [
        Lack(f"{table.name} has no trigger {one.name} as stamps need it", one.statements)
        for one in wanted
        if there.get(one.name) != one.body
    ]
    return lacks


async def _triggers(server: TargetSession, table: StampedTable) -> dict[str, str]:
    if server.dialect == "postgres":
        found = await server.fetch(_FUNCTIONS, Words(table, "postgres").rows)
    else:
        found = await server.fetch(_TRIGGERS, table.name.schema, table.name.table)
    return {str(name): str(body) for name, body in found}
