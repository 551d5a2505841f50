"""Place where a feed begins that has none yet: decided once, by whoever comes first.

A first run, the coordinator of workers and `init --apply` may come at one moment.  A source that keeps its log for each
feed alone (a slot) is told to before the place is stored; what it was told by somebody who then stored nothing is taken
back, and it is told anew.  Two that begin together would each take back what the other has just made: the place that
stays would be one from which nothing is kept.  So one at a time begins: by a lock at the target, in the session that
looks whether a place is stored and then stores it.  Whoever has lost that session stores nothing.

Where a place is stored, of whichever group, nothing is made at the source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from tidelock.adapters.bookkeeping.lease import lock_of
from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.operator.adoption import proven
from tidelock.adapters.operator.kept_forms import begin_anew
from tidelock.adapters.operator.store import Books
from tidelock.adapters.operator.tables_lock import taken
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source import Beginning, Overview
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.adapters.wiring.sources import keeps_for_us, source_of, start_of
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.records import Position


async def first_place(feed: Feed, source: Overview) -> Position | None:
    """Stores where the feed begins, and returns it; None where a place is stored already.

    Forms of the source's tables there are stored with it.  `source`: as a first run sees it.  Raises SourceError,
    TargetError.
    """
    async with session(feed.target_url) as target:
        await _alone(feed, target)
        if await has_place(feed, target):
            return None
        start = await asyncio.to_thread(start_of, feed, source)
        beginning = await kept(feed, source, start, there=feed.starts_where_kept)
        place = await proven(feed, beginning.place)
        await begin_anew(Books(feed, target), beginning.forms)
        words = msgspec.json.encode(place).decode()
        await target.execute(
            f"INSERT INTO {_checkpoints(feed, target)} (feed, grp, position) VALUES (%s, 0, %s)", feed.name, words
        )
        if target.dialect == "postgres":
            await target.execute("COMMIT")
    return place


async def place_to_begin(feed: Feed, source: Overview, tell: Callable[[str], None], *, begun: bool) -> Position:
    """Returns where the feed begins that has no place yet, stored where a source or the feed needs that; else what is
    as good as any.

    `begun`: it has one, or that is not known.  `tell`: is told of a place that was looked for by its time.  Raises
    SourceError, TargetError.
    """
    if not begun and (place := await first_place(feed, source)):
        if feed.starts_at_moment:
            tell(found_by_time(feed, place))
        return place
    return source.now if feed.starts_at_moment else start_of(feed, source)


def found_by_time(feed: Feed, place: Position) -> str:
    """Returns the message about where a feed begins whose `start` is a time."""
    return (
        f"`start: {feed.start}`: begins at {place}, before the first transaction that was committed then or later; "
        "rows that have not changed since are not at the target unless they are copied"
    )


async def has_place(feed: Feed, target: TargetSession) -> bool:
    """Tells whether a place of the feed is stored, of any group.  Raises TargetError."""
    return bool(await target.fetch(f"SELECT 1 FROM {_checkpoints(feed, target)} WHERE feed = %s", feed.name))


async def kept(feed: Feed, source: Overview, start: Position, *, there: bool = False) -> Beginning:
    """Has the source keep its log for a feed that begins; returns where it begins: at `start` where a source keeps its
    log anyway, or where it must keep it already (`there`).  Raises SourceError."""
    if not keeps_for_us(feed.source_url):
        return Beginning(start)
    mapping = Mapping(rules_of(feed), feed.schema)
    tables = [name for name in source.tables if mapping.selects(name)]
    return await asyncio.to_thread(source_of(feed.source_url).keep_log, tables, start, kept=there)


def _checkpoints(feed: Feed, target: TargetSession) -> str:
    return f"{quote(target.dialect, feed.schema)}.tidelock_checkpoint"


async def _alone(feed: Feed, target: TargetSession) -> None:
    """Returns once nobody else is about to begin, until the session or its transaction ends.  Raises TargetError."""
    busy = TargetError(
        f"feed {feed.name} is being begun by another run, worker or `tidelock init` just now",
        "Wait for that one, then try again",
        passing=True,
    )
    await taken(target, lock_of(feed.schema, feed.name, "begin"), busy)
