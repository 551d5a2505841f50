"""`start: copy`: the first run copies all tables of the feed before it applies anything of the log.

Of workers, the coordinator queues that copy before the feed has a plan, and each table group begins with its part.

The request is in the bookkeeping before the feed has a position, and a copy removes its request as it begins.  So after
a crash at any moment the next run either finds no position, and begins anew, or finds what is still to be copied.

Unless the feed says otherwise the target's tables must be empty (`fill`).  That is looked at in the transaction that
begins the copy, whichever run that is, since others may write until then; nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from tidelock.adapters.bookkeeping.tables import OWNER, quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator import copies
from tidelock.adapters.operator.store import Books
from tidelock.adapters.operator.upgrade import look
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.wiring.session import session
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.records import TableName

_MODES: Final[dict[str, copies.Mode]] = {"refuse": "fill", "replace": "copy", "keep": "keep"}


async def ask(feed: Feed, mapping: Mapping, source_tables: Sequence[TableName]) -> bool:
    """Queues the first copy where it is due, and returns whether nothing may be applied without it: the copy has not
    begun.

    The feed's bookkeeping exists.  Raises TargetError.
    """
    async with session(feed.target_url) as target:
        book = Books(feed, target)
        seen = [one for one in await copies.copies(book) if not one.held]
        if any(not (table.queued or table.refused) for table in seen):
            return False
        if not seen and not await book.checkpoints():
            names = dict.fromkeys(mapping.target(name) for name in source_tables if mapping.selects(name))
            await copies.queue(book, _MODES[feed.copy.existing], [(name, None) for name in names])
            return bool(names)
        if feed.copy.existing != "refuse":
            await copies.change_fills(book, _MODES[feed.copy.existing])  # the operator has decided
        return bool(seen)


async def due(feed: Feed, tables: Collection[TableName], *, first: bool) -> bool:
    """Returns whether nothing may be applied to a table group without a copy that was asked for and has not begun.

    `tables`: the group's.  `first`: it stands where its log begins.  Raises TargetError.
    """
    async with session(feed.target_url) as target:
        book = Books(feed, target)
        if feed.start == "copy" and feed.copy.existing != "refuse":
            await copies.change_fills(book, _MODES[feed.copy.existing])  # the operator has decided
        modes = {mode for table, mode in await copies.requests(book) if table in tables}
        if modes & {"fill", "resync"}:
            return True
        return first and feed.start == "copy" and bool(modes & {"copy", "keep"})


async def rows_merged(feed: Feed) -> dict[str, int]:
    """Returns the rows merged by each copy that has begun, by target table.  Raises TargetError."""
    async with session(feed.target_url) as target:
        return {table.table: table.rows for table in await copies.copies(Books(feed, target))}


async def check_empty(feed: Feed, tables: Sequence[TableName]) -> list[Finding]:
    """Lists rows that the copy would have to replace or to keep, before the feed has ever run.

    `tables`: of the target, those that exist.  Raises TargetError.
    """
    if feed.start != "copy" or feed.copy.existing != "refuse":
        return []
    async with session(feed.target_url) as target:
        book = Books(feed, target)
        if not (await look(target, feed.schema, (OWNER,))).tables and await book.owners():
            return []
        full = list[TableName]()
        for name in tables:
            place = f"{quote(target.dialect, name.schema)}.{quote(target.dialect, name.table)}"
            if await target.fetch(f"SELECT 1 FROM {place} LIMIT 1"):
                full.append(name)
        return [_holds_rows(feed, name) for name in full]


def _holds_rows(feed: Feed, name: TableName) -> Finding:
    return error(
        "target-not-empty",
        f"{name} at {feed.target_url} holds rows already, and `start: copy` would have to take them away",
        "Empty it; or set `copy: {existing: replace}` in the feed, and they are replaced by the source's; or "
        "`copy: {existing: keep}`, and source rows that clash with them are passed over; or, where they are the "
        "source's rows of a known position, `start` there",
    )
