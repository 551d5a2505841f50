"""Checks the source: its log, the account's rights, the place to begin at.  Nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.feed import Feed, TableRule
from tidelock.adapters.config.moments import StartMoment
from tidelock.adapters.mysql.catalogue import BlockingServer
from tidelock.adapters.mysql.grants import Grants
from tidelock.adapters.mysql.log_settings import METADATA, NAME_COLUMNS, NEEDED, NO_BLOB, leaves_out
from tidelock.adapters.ports.finding import Finding, error, note, warning
from tidelock.adapters.ports.source_errors import OtherHistory, PurgedPosition
from tidelock.adapters.schema.create_table import qualified
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.adapters.wiring.sources import place_of, source_of
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Position, TableName

EXPIRE_SECONDS = 86_400
_MENDS = {
    "log_bin": "Set log_bin=ON in its configuration file and restart it",
    "binlog_format": "SET GLOBAL binlog_format=ROW; then let its writers connect anew",
    "binlog_row_image": "SET GLOBAL binlog_row_image=FULL; then let its writers connect anew",
}
_OTHERS = (
    METADATA,
    "server_id",
    "binlog_checksum",
    "binlog_expire_logs_seconds",
    "expire_logs_days",
    "gtid_mode",
    "gtid_purged",
    "innodb_native_foreign_keys",
)


class Settings(msgspec.Struct, frozen=True):
    """The source's variables by name, lower case; a variable that the server does not have is absent."""

    values: dict[str, str]

    def get(self, name: str) -> str | None:
        """Returns a variable's value, None where the server does not have it."""
        return self.values.get(name)

    @property
    def logs_cascades(self) -> bool:
        """Tells whether cascades are in the log: MySQL 9.6 and later run them in the SQL layer, unless told not to."""
        return self.values.get("innodb_native_foreign_keys", "ON").upper() == "OFF"


async def read_settings(server: BlockingServer) -> Settings:
    """Reads the variables of the source."""
    names = ", ".join(f"'{name}'" for name in (*NEEDED, *_OTHERS))
    rows = await server.ask(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    return Settings({str(name).lower(): str(value) for name, value in rows})


def check_settings(feed: Feed, settings: Settings, tables: Mapping[TableName, SourceTable]) -> list[Finding]:
    """Checks the source's variables."""
    place = feed.source_url
    findings = []
    holes = sorted(str(name) for name, table in tables.items() if any(leaves_out(c.type) for c in table.columns))
    for name, wanted in NEEDED.items():
        value = settings.get(name)
        if name == "binlog_row_image" and value is not None and value.upper() == NO_BLOB and not holes:
            continue  # images without blobs of tables that have none are full
        if value is not None and value.upper() != wanted:
            findings.append(
                error(
                    f"source-{name.replace('_', '-')}",
                    f"{place} has {name}={value!r}; the log needs {wanted!r}",
                    _MENDS[name],
                )
            )
    number = int(settings.get("server_id") or 0)
    if number == 0:
        findings.append(error("source-server-id", f"{place} has server_id=0", "SET GLOBAL server_id=1;"))
    elif number == feed.server_id:
        findings.append(
            error(
                "source-server-id",
                f"{place} has server_id={number}, which is the feed's too",
                "Give the feed another: `server_id:` in its YAML",
            )
        )
    findings += [*_check_metadata(feed, settings), *_check_checksum(place, settings)]
    return findings + _check_expiry(place, settings)


def _check_metadata(feed: Feed, settings: Settings) -> list[Finding]:
    """A feed to Hive keeps no tables of its source, so it takes names from the log alone."""
    value = settings.get(METADATA)
    if value is None or value.upper() == "FULL":
        return []
    kind, place = f"source-{METADATA.replace('_', '-')}", feed.source_url
    if feed.target_url.scheme == "hive":
        return [error(kind, f"{place} has {METADATA}={value!r}; a feed to Hive needs 'FULL'", NAME_COLUMNS)]
    return [
        note(
            kind,
            f"{place} has {METADATA}={value!r}: its log names no columns, so the feed names them by what it knows of "
            "the tables. It halts where it does not know how a table was at a row: where a session that logs nothing "
            "has changed one, or a statement of before the feed was there",
            f"{NAME_COLUMNS[:-1]} has the log name them; this needs no restart and no resync",
        )
    ]


def _check_checksum(place: Any, settings: Settings) -> list[Finding]:
    if settings.get("binlog_checksum") != "NONE":
        return []
    return [
        warning(
            "source-checksum",
            f"{place} writes its log without checksums: a byte that changes on its disk or on the way is replicated",
            "SET GLOBAL binlog_checksum=CRC32;",
        )
    ]


def _check_expiry(place: Any, settings: Settings) -> list[Finding]:
    days = float(settings.get("expire_logs_days") or 0)
    seconds = int(settings.get("binlog_expire_logs_seconds") or days * 86_400)
    if not 0 < seconds < EXPIRE_SECONDS:
        return []
    return [
        warning(
            "source-log-expiry",
            f"{place} deletes its log after {seconds} s; a feed that is stopped for longer than that loses changes",
            f"SET GLOBAL binlog_expire_logs_seconds={7 * 86_400};",
        )
    ]


def check_grants(feed: Feed, grants: Grants, mariadb: bool, tables: list[TableName]) -> list[Finding]:
    """Checks the account's rights at the source."""
    place, account = feed.source_url, grants.account
    server_rights = ("REPLICATION SLAVE", "BINLOG MONITOR" if mariadb else "REPLICATION CLIENT")
    lacking = [
        error("source-grant", f"{account} lacks {right} at {place}", f"GRANT {right} ON *.* TO {account};")
        for right in server_rights
        if not grants.everywhere(right)
    ]
    unreadable = dict.fromkeys(
        _may_not_read(feed, grants, table) for table in tables if not grants.on_table("SELECT", table)
    )
    return [*lacking, *unreadable, *_later_tables(feed, grants, tables)]


def _may_not_read(feed: Feed, grants: Grants, table: TableName) -> Finding:
    rule = feed.select(table)
    place = _whole(Pattern.of(rule.source)) if rule is not None and "*" in rule.source else qualified("mysql", table)
    return error(
        "source-grant",
        f"{grants.account} may not read {table} at {feed.source_url}",
        f"GRANT SELECT ON {place} TO {grants.account};",
    )


def _later_tables(feed: Feed, grants: Grants, tables: list[TableName]) -> list[Finding]:
    """Lists rules that may match tables to come, where all existing tables can be read."""
    findings = []
    for rule in feed.tables:
        pattern = Pattern.of(rule.source)
        readable = [grants.on_table("SELECT", name) for name in tables if feed.select(name) is rule]
        if readable and all(readable) and "*" in rule.source and not sees_all(grants, pattern):
            findings.append(
                warning(
                    "source-grant-later",
                    f"{grants.account} may read single tables of {rule.source} at {feed.source_url}: one that is made "
                    "later halts the feed, and `tidelock resync` wants to see them all",
                    f"GRANT SELECT ON {_whole(pattern)} TO {grants.account};",
                )
            )
    return findings


def sees_all(grants: Grants, pattern: Pattern) -> bool:
    """Returns whether the account sees every table that the pattern matches, also tables that do not exist yet."""
    if "*" in pattern.schema:
        return grants.everywhere("SELECT")
    if "*" in pattern.table:
        return grants.on_schema("SELECT", pattern.schema)
    return grants.on_table("SELECT", TableName(pattern.schema, pattern.table))


def _whole(pattern: Pattern) -> str:
    return "*.*" if "*" in pattern.schema else f"{quote('mysql', pattern.schema)}.*"


def check_patterns(
    feed: Feed, tables: dict[TableName, SourceTable], grants: Grants, schemas: frozenset[str]
) -> list[Finding]:
    """Checks that each rule matches a table.  `schemas`: the databases that the account sees."""
    unmatched = (rule for rule in feed.tables if not any(feed.select(name) is rule for name in tables))
    return [_unmatched(feed, rule, tables, grants, schemas) for rule in unmatched]


def _unmatched(
    feed: Feed, rule: TableRule, tables: dict[TableName, SourceTable], grants: Grants, schemas: frozenset[str]
) -> Finding:
    """Judges a rule that matches no table.

    A database without tables may get some.  A name that does not exist at all is a mistake, unless the account cannot
    see it.
    """
    pattern, place, account = Pattern.of(rule.source), feed.source_url, grants.account
    message = f"no table at {place} matches {rule.source}"
    if any(rule.matches(name) for name in tables):
        message += " that an earlier rule does not take"
    elif not sees_all(grants, pattern):
        return error(
            "source-grant",
            f"{message} that {account} may read",
            f"GRANT SELECT ON {_whole(pattern)} TO {account};",
        )
    elif "*" in pattern.table and ("*" in pattern.schema or pattern.schema in schemas):
        later = "The feed takes each that is made, from its CREATE TABLE on"
        return warning("table-unmatched", f"{message} yet", later)
    return error("table-unmatched", message, "Correct `tables` in the feed, or make the table")


async def check_place(feed: Feed, server: BlockingServer, stored: Position | None) -> list[Finding]:
    """Checks that the log still holds the place to read from.  `stored`: the target's checkpoint, which goes before
    `start`.
    """
    start = feed.start_place
    place = stored or (start if isinstance(start, Position) else None)
    if place is None and isinstance(start, StartMoment):
        return await _at_moment(feed, start)
    if place is None:
        return []
    try:
        await asyncio.to_thread(source_of(feed.source_url).confirm, place)
    except OtherHistory as other:
        return [error("source-history", other.message, other.hint)]
    if place.proof and place.gtids and server.is_mariadb:
        return []  # the GTIDs name the place, in whichever file it is here
    problem = await _gone(server, place)
    if not problem:
        return []
    hint = (
        f"The changes since then cannot be read by the feed any more: {RESYNC}"
        if stored
        else "Set `start:` to a place that is still there: SHOW BINARY LOGS; lists them; or `earliest`"
    )
    return [error("source-position", f"the log of {feed.source_url} does not hold {place}: {problem}", hint)]


async def _at_moment(feed: Feed, moment: StartMoment) -> list[Finding]:
    """Says where a feed begins whose `start` is a time, or why it cannot."""
    try:
        place = await asyncio.to_thread(place_of, feed, moment)
    except PurgedPosition as gone:
        return [error("source-position", gone.message, gone.hint)]
    message = f"`start: {feed.start}` begins at {place}, before the first transaction that was committed then or later"
    hint = "Rows that have not changed since are not at the target unless they are copied: `tidelock copy FEED`"
    return [note("start-place", message, hint)]


async def _gone(server: BlockingServer, place: Position) -> str:
    if place.gtids and not server.is_mariadb:
        ((covered, purged),) = await server.ask(
            "SELECT GTID_SUBSET(@@global.gtid_purged, %s), @@global.gtid_purged", place.gtids
        )
        return "" if covered else f"transactions of {purged} are purged".replace("\n", "")
    if not place.file:
        return ""
    logs = {str(row[0]): int(row[1]) for row in await server.ask("SHOW BINARY LOGS")}
    if place.file not in logs:
        return f"its files are {min(logs)} to {max(logs)}"
    return "" if place.offset <= logs[place.file] else f"{place.file} ends at {logs[place.file]}"
