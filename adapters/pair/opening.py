"""The state of a pair's feed, kept at its target: its sites are being made equal, or both are open to writers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, cast

from tidelock.adapters.bookkeeping.tables import PAIRS, quote
from tidelock.adapters.config.pair import Pair, PairFeed
from tidelock.adapters.operator.upgrade import look
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import session

Opening: TypeAlias = Literal["", "copying", "open"]


class NotOpen(TargetError):
    """Feeds of a pair whose sites were not made equal yet."""


async def opening(one: PairFeed) -> Opening:
    """Returns the state; '' where nothing was begun.  Raises TargetError."""
    feed = one.feed
    async with session(feed.target_url) as target:
        if PAIRS in (await look(target, feed.schema)).tables:
            return ""
        table = f"{quote(target.dialect, feed.schema)}.{PAIRS}"
        rows = await target.fetch(f"SELECT state FROM {table} WHERE feed = %s", feed.name)
    return cast(Opening, str(rows[0][0])) if rows else ""


async def set_opening(pair: Pair, one: PairFeed, state: Opening) -> None:
    """Stores the state.  Raises TargetError."""
    feed = one.feed
    async with session(feed.target_url) as target:
        table = f"{quote(target.dialect, feed.schema)}.{PAIRS}"
        if not await target.fetch(f"SELECT 1 FROM {table} WHERE feed = %s", feed.name):
            head = f"INTO {table} (feed, pair, state) VALUES (%s, %s, %s)"
            await target.execute(f"INSERT {head}", feed.name, pair.name, state)
        await target.execute(f"UPDATE {table} SET state = %s WHERE feed = %s", state, feed.name)


async def all_open(pair: Pair, feeds: Sequence[PairFeed]) -> None:
    """Passes where the sites of all these feeds are open.  Raises NotOpen, TargetError."""
    closed = [one.name for one in feeds if await opening(one) != "open"]
    if closed:
        raise NotOpen(
            f"the sites of {', '.join(closed)} were not made equal yet",
            f"`tidelock pair init {pair.path} --from SITE --apply` copies that site's rows to the others, and may be "
            "run again after it died",
        )
