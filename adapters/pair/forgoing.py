"""`tidelock pair rewound --arbiters-rows`: lets a pair go on where a spoke has written what nobody can read.

Its slot is gone, or its log uses places again, so what it has written since it lost commits cannot be told from what
the arbiter has.  That is given up: the feed from it goes on at the present end of its log, and the feed to it copies
the arbiter's rows anew (`resync`).  In between nobody may write at the spoke.  `verify` of the feed to it shows before
what the arbiter has not.
"""

from __future__ import annotations

import asyncio

from tidelock.adapters.config.pair import PairFeed
from tidelock.adapters.operator.adoption import proven
from tidelock.adapters.operator.feed_control import books
from tidelock.adapters.operator.first_place import kept
from tidelock.adapters.operator.kept_forms import begin_anew
from tidelock.adapters.pair.rewinding import begin_move, rename_kept
from tidelock.adapters.wiring.sources import overview_of
from tidelock.engine.model.records import Position


async def forgo(up: PairFeed) -> Position:
    """Moves the feed from a spoke to the present end of its log, and returns that.  Raises SourceError, TargetError."""
    feed = up.feed
    source = await asyncio.to_thread(overview_of, feed)
    beginning = await kept(feed, source, await proven(feed, source.now))
    async with books(feed) as book:
        epoch = await begin_move(book, beginning.place)
        for table in ("progress", "chunks", "wanted"):
            await book.session.execute(f"DELETE FROM {book.table(f'tidelock_{table}')} WHERE feed = %s", feed.name)
        await begin_anew(book, beginning.forms)
        await rename_kept(book, epoch)
        await book.session.execute("COMMIT")
    return beginning.place
