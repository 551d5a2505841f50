"""Finds feeds that bring the same rows to the same tables: a feed's file that was copied or has another name by now, or
another `schema` for its bookkeeping.

Such a feed begins anew.  What the other one has brought comes once more, which doubles rows without a key, and where it
begins `now`, what was changed since the other one's checkpoint never comes.  Where both run, each may write older rows
over those of the other.  All bookkeepings of the target are asked, whatever schema they are in.  That the other one
reads this very log its checkpoint proves; of a PostgreSQL source, whose log is that of all databases, its slot.
"""

from __future__ import annotations

import asyncio

import msgspec

from tidelock.adapters.bookkeeping.tables import CHECKPOINTS, quote
from tidelock.adapters.config.feed import Feed, TableRule
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.operator import known_tables
from tidelock.adapters.operator.store import Books
from tidelock.adapters.operator.upgrade import look
from tidelock.adapters.ports.finding import Finding, error, warning
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.records import Position

_POSITION = msgspec.json.Decoder(Position)
_BOOKS = "SELECT table_schema FROM information_schema.tables WHERE table_name = %s ORDER BY 1"


class _Other(msgspec.Struct, frozen=True):
    """Another feed: its name, the schema of its bookkeeping, how far it is, the tables that it has run with."""

    feed: str
    schema: str
    place: Position
    tables: tuple[TableRule, ...]


async def check_same_tables(feed: Feed) -> list[Finding]:
    """Lists those feeds, where this one has not begun.  Of workers, each with a file of its own, nothing is known."""
    if feed.target_url.scheme == "hive":
        return []
    try:
        async with session(feed.target_url) as target:
            others = await _others(feed, target)
        alike = [one for one in others if _meeting(feed, one.tables)]
        return [_finding(feed, one) for one in alike if await _reads_our_log(feed, one)]
    except (TargetError, SourceError):
        return []  # as is said elsewhere


async def _others(feed: Feed, target: TargetSession) -> list[_Other]:
    found = list[_Other]()
    for (schema,) in await target.fetch(_BOOKS, CHECKPOINTS):
        name = str(schema)
        if CHECKPOINTS in (await look(target, name)).tables:
            continue
        table = f"{quote(target.dialect, name)}.{CHECKPOINTS}"
        for other, text in await target.fetch(f"SELECT feed, position FROM {table} WHERE grp = 0 ORDER BY feed"):
            if (name, str(other)) == (feed.schema, feed.name):
                return []
            books = Books(msgspec.structs.replace(feed, name=str(other), schema=name), target)
            known = await known_tables.read(books)
            if known is not None:
                found.append(_Other(str(other), name, _POSITION.decode(text), known.ran))
    return found


def _meeting(feed: Feed, tables: tuple[TableRule, ...]) -> list[tuple[TableRule, TableRule]]:
    return [
        (ours, theirs)
        for ours in feed.tables
        for theirs in tables
        if Pattern.of(ours.source).meets(Pattern.of(theirs.source))
        and Pattern.of(ours.target or ours.source).meets(Pattern.of(theirs.target or theirs.source))
    ]


async def _reads_our_log(feed: Feed, other: _Other) -> bool:
    """Returns whether the other feed's checkpoint is a place of the log that this one reads.  Raises SourceError,
    TargetError."""
    if feed.source_url.dialect == "postgres":
        async with session(feed.source_url) as source:
            slots = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND database = current_database()"
            return bool(await source.fetch(slots, slot_name(other.feed)))
    if not other.place.proof:
        return False
    try:
        await asyncio.to_thread(source_of(feed.source_url).confirm, other.place)
    except SourceError:
        return False
    return True


def _finding(feed: Feed, other: _Other) -> Finding:
    """An error where all rows of a table would come twice, and the feed does not copy them anew."""
    whole = any(not (one.where or two.where or one.columns != two.columns) for one, two in _meeting(feed, other.tables))
    ours, theirs = f"`feed: {feed.name}`, `schema: {feed.schema}`", f"`feed: {other.feed}`, `schema: {other.schema}`"
    words = (
        f"the feed of {theirs} brings the same tables from this source to {feed.target_url}, and is at {other.place}; "
        f"{feed.name} begins anew at `start: {feed.start}`, so rows that changed in between never come, or come twice"
    )
    hint = (
        f"Where this is that feed under other words, give it those again ({theirs} in place of {ours}). Else end that "
        "one (`tidelock remove` with its file), and begin with `start: copy` and `copy: {existing: replace}`; or name "
        "other tables"
    )
    return (error if whole and feed.start != "copy" else warning)("same-tables", words, hint)
