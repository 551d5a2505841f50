"""The halt of a feed whose source did not log all: it stays until a resync.

Once the source logs again, its log goes on as if nothing was missing.  So a run that begins looks for such a halt, and
what refuses a run for that reason is kept as one.
"""

from __future__ import annotations

import msgspec

from tidelock.adapters.bookkeeping.tables import OWNER
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.store import Books, Halted
from tidelock.adapters.operator.upgrade import look
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.wiring.session import session
from tidelock.engine.model.errors import UNLOGGED, Alarm


async def keep(feed: Feed, error: SourceError) -> None:
    """Keeps the error as the halt of a feed that has run, where it tells of what is not logged.  Raises TargetError."""
    if UNLOGGED not in error.hint:
        return
    async with session(feed.target_url) as target:
        if (await look(target, feed.schema, (OWNER,))).tables:
            return
        book = Books(feed, target)
        halted = Halted(Alarm(type(error).__name__, error.message, error.hint, error.position))
        await target.execute(
            f"UPDATE {book.table(OWNER)} SET halt = %s WHERE feed = %s AND halt IS NULL",
            msgspec.json.encode(halted).decode(),
            feed.name,
        )


async def kept(book: Books) -> Alarm | None:
    """Returns such a halt of the feed's; None: there is none.  Raises TargetError."""
    halts = [owner.halted for owner in (await book.owners()).values()]
    return next((halt.alarm for halt in halts if halt is not None and UNLOGGED in halt.alarm.hint), None)
