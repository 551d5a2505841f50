"""Finds feeds that bring this feed's source what they read at its target: two ways, where this one names no sites.

Without names a change is known by `host:port` at MySQL and MariaDB, and at PostgreSQL by nothing.  There what this feed
brings goes back, an older row over a newer one.  A feed that writes to the source has its checkpoint there, and that
says whose log it reads.  Beside it are the tables that it has run with (`operator.known_tables`), unless it runs as
workers: one that reads no table that this feed writes to, or writes to none that this feed reads, sends nothing round.
"""

from __future__ import annotations

import msgspec

from tidelock.adapters.bookkeeping.tables import CHECKPOINTS, quote
from tidelock.adapters.config.feed import Feed, TableRule
from tidelock.adapters.operator import known_tables
from tidelock.adapters.operator.store import Books
from tidelock.adapters.operator.upgrade import look
from tidelock.adapters.ports.finding import Finding, error, warning
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model import lineage
from tidelock.engine.model.records import Position

_POSITION = msgspec.json.Decoder(Position)


async def check_other_way(feed: Feed) -> list[Finding]:
    """Lists those feeds, where they can be seen."""
    if feed.sites is not None or feed.target_url.scheme == "hive":
        return []
    try:
        async with session(feed.source_url) as source:
            if (await look(source, feed.schema, (CHECKPOINTS,))).tables:
                return []
            async with session(feed.target_url) as target:
                server, certain = await _server(target)
            table = f"{quote(source.dialect, feed.schema)}.{CHECKPOINTS}"
            stored = await source.fetch(f"SELECT feed, position FROM {table} ORDER BY feed")
            back = dict.fromkeys(str(name) for name, text in stored if _reads(_POSITION.decode(text)) == server)
            apart = [name for name in back if await _apart(feed, name, source)]
    except TargetError:
        return []  # as is said elsewhere
    return [_finding(feed, name, certain) for name in back if name not in apart]


async def _apart(feed: Feed, name: str, source: TargetSession) -> bool:
    """Returns whether nothing goes round between this feed and that of the name, whose bookkeeping `source` has."""
    known = await known_tables.read(Books(msgspec.structs.replace(feed, name=name), source))
    if known is None:
        return False
    taken = known.ran + known.accepted
    gone = any(_written(ours).meets(Pattern.of(theirs.source)) for ours in feed.tables for theirs in taken)
    come = any(_written(theirs).meets(Pattern.of(ours.source)) for ours in feed.tables for theirs in taken)
    return not (gone and come)


def _written(rule: TableRule) -> Pattern:
    return Pattern.of(rule.target or rule.source)


def _reads(position: Position) -> str:
    """Returns the server whose log the position is of."""
    system, timeline, _ = position.file.partition("/")
    return system if timeline else lineage.server_of(position.proof)


async def _server(target: TargetSession) -> tuple[str, bool]:
    """Returns what the server is known by in a position, and whether no other server is."""
    if target.dialect == "postgres":
        return str((await target.fetch("SELECT system_identifier::text FROM pg_control_system()"))[0][0]), True
    version = str((await target.fetch("SELECT VERSION()"))[0][0])
    mariadb = "mariadb" in version.lower()
    identity = "CONCAT('server_id ', @@server_id)" if mariadb else "@@server_uuid"
    return str((await target.fetch(f"SELECT {identity}"))[0][0]), not mariadb


def _finding(feed: Feed, name: str, certain: bool) -> Finding:
    unseen = feed.source_url.dialect == "postgres"
    what = (
        "PostgreSQL's log does not tell what a feed without sites has brought, so older rows come back over newer ones"
        if unseen
        else "without names a change is known by host:port alone, and a second spelling of one sends it round"
    )
    words = f"feed {name} writes to {feed.source_url} and reads {feed.target_url}: with a table in common, {what}"
    names = "Name sites in both feeds (`sites: {source: …, target: …, sister: …}`)"
    workers = f", which feeds of workers cannot: use `log: embedded` (`tidelock run`) for both. {_APART}"
    hint = names + (workers if feed.log_url is not None else f". {_APART}")
    return (error if unseen and certain else warning)("other-way", words, hint)


_APART = "If they have no table in common, give this one a `schema:` of its own"
