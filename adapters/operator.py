"""What an operator sees of a feed and asks of it, through the bookkeeping at its target.

Nothing here touches a replicated row: a wish is written down, and the run that owns the feed carries it out, now or
when it is next started.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import msgspec

from adapters.bookkeeping import TABLES, present_query
from adapters.books import Books, Halted, ParkedChange, ParkedDetail, ParkedTable, never_ran
from adapters.config import Feed
from adapters.progress import Sample
from adapters.session import session
from engine.records import Ddl, Position

ASK_SECONDS = 2.0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A feed as its target knows it; `live` is the sample of a run that answered on `http`.

    `epoch` 0: the feed has never run.  Ages are seconds by the target's clock.
    """

    feed: str
    source: str
    target: str
    epoch: int = 0
    desired_state: str = ""
    halted: Halted | None = None
    ddl_passed: str | None = None
    checkpoint: Position | None = None
    checkpoint_seconds: float | None = None
    receipts: int = 0
    parked: tuple[ParkedTable, ...] = ()
    live: Sample | None = None

    @property
    def needs_operator(self) -> bool:
        return self.halted is not None or bool(self.parked)


@asynccontextmanager
async def books(feed: Feed) -> AsyncIterator[Books]:
    """Raises TargetError when the target cannot be reached or holds no bookkeeping."""
    async with session(feed.target_url) as target:
        if len(await target.fetch(present_query(feed.schema))) < len(TABLES):
            raise never_ran(feed)
        yield Books(feed, target)


async def status(feed: Feed) -> Status:
    """Raises TargetError.  A feed that has never run has a status too: `epoch` 0."""
    seen = Status(feed=feed.name, source=str(feed.source_url), target=str(feed.target_url))
    async with session(feed.target_url) as target:
        if len(await target.fetch(present_query(feed.schema))) < len(TABLES):
            return seen
        book = Books(feed, target)
        owner, checkpoint = await book.owner(), await book.checkpoint()
        if owner is None:
            return seen
        return msgspec.structs.replace(
            seen,
            epoch=owner[0],
            desired_state=owner[1],
            halted=msgspec.json.decode(owner[2], type=Halted) if owner[2] else None,
            ddl_passed=owner[3],
            checkpoint=checkpoint[0] if checkpoint else None,
            checkpoint_seconds=checkpoint[1] if checkpoint else None,
            receipts=await book.receipts(),
            parked=await book.parked_tables(),
            live=await live_sample(feed),
        )


async def set_state(feed: Feed, state: Literal["running", "paused"]) -> None:
    async with books(feed) as book:
        await book.set_state(state)


async def parked(feed: Feed, table: str = "", limit: int = 100) -> list[ParkedChange]:
    async with books(feed) as book:
        return await book.parked(table, limit)


async def parked_detail(feed: Feed, row_id: str) -> ParkedDetail:
    async with books(feed) as book:
        return await book.detail(row_id)


async def wish(feed: Feed, what: Literal["retry", "skip"], ids: Sequence[str], table: str = "") -> int:
    """Ask for parked rows to be retried or skipped; neither `ids` nor `table`: all of them.  Returns how many.

    A retry takes all parked rows of a table together (later changes of a row are parked behind the first), so an id
    stands for its table there.
    """
    async with books(feed) as book:
        if not ids:
            return await book.wish_table(table, what)
        details = [await book.detail(row_id) for row_id in ids]
        if what == "skip":
            return sum([await book.wish_row(row_id, what) for row_id in ids])
        tables = sorted({detail.change.table for detail in details})
        return sum([await book.wish_table(name, what) for name in tables])


async def halted(feed: Feed) -> Halted:
    async with books(feed) as book:
        return (await book.halted())[0]


async def pass_ddl(feed: Feed) -> Ddl:
    async with books(feed) as book:
        return await book.pass_ddl()


async def live_sample(feed: Feed) -> Sample | None:
    """The sample of a run that serves `http`; None where there is none, or it does not answer at once."""
    if feed.http_address is None:
        return None
    import asyncio

    return await asyncio.to_thread(_ask, *feed.http_address)


def _ask(host: str, port: int) -> Sample | None:
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(host.replace("0.0.0.0", "127.0.0.1"), port, timeout=ASK_SECONDS)
    try:
        connection.request("GET", "/status")
        return msgspec.json.decode(connection.getresponse().read(), type=Sample)
    except (OSError, HTTPException, msgspec.MsgspecError):
        return None
    finally:
        connection.close()
