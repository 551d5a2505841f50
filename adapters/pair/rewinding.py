"""`tidelock pair rewound`: lets a pair go on whose spoke's server has lost its last commits (history 12).

The arbiter has what the spoke has lost.  Three things must be put right:

- The feed from the spoke stood behind the end of the spoke's log.  It goes on at that end, so that what the spoke has
  written since is read.  Receipts of what was lost are removed: new transactions have the old numbers.  Failed rows and
  lost rows that are kept of it get another name of their source, `NAME!EPOCH`, for the same reason.
- The feed to the spoke has to send back what was lost.  A place of the arbiter's log that the spoke had stored before
  the loss is before the first receipt of a transaction that was lost: that receipt was made, read and stored at the
  spoke later, and a log loses its end.  So where no place was stored at the spoke since, the feed sends all of it back
  by itself: what stands before the end of the arbiter's log when its reader begins goes back (`engine.two_way.echo`).
- Where one was stored since, the reader begins too late.  Then rows are compared and read anew.
- The spoke's stored place may have gone back too, to one that the arbiter's log does not hold any more (PostgreSQL
  keeps it from the slot's place on).  Then its tables are copied anew, once the arbiter has all that the spoke wrote.

Where nobody can tell what is left of the spoke's log, or read what it has written since, that is given up
(`pair.forgoing`).
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from tidelock.adapters.config.pair import Pair, PairFeed
from tidelock.adapters.operator.feed_control import books, nobody_runs
from tidelock.adapters.operator.kept_forms import replace_behind
from tidelock.adapters.operator.store import Books
from tidelock.adapters.ports.history_words import LOSS_UNTOLD
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source import Loss
from tidelock.adapters.ports.source_errors import OtherHistory, PurgedPosition
from tidelock.adapters.wiring.sources import keeps_for_us, source_of
from tidelock.engine.log import receipts
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import Receipt

_MARK: Final = "!"


class Rewound(msgspec.Struct, frozen=True):
    """The plan for one spoke.  `up`: the feed from it, which goes on at `place`; `before`: where it stood.  `down`: the
    feed to it.  `loss`: of the spoke's log.  `returns`: the feed to it sends back all that was lost, by itself.
    `gone`: why the arbiter's log cannot be read from where the spoke has it; '' where it can."""

    up: PairFeed
    down: PairFeed
    before: Position
    place: Position
    loss: Loss
    returns: bool
    gone: str


async def plan(pair: Pair, site: str) -> Rewound:
    """Plans it; writes nothing.  Raises TargetError, SourceError."""
    up, down = await resting(pair, site)
    async with books(up.feed) as book:
        stood = await _place(book)
        known = receipts.furthest(await _receipts(book), stood)
    lost, is_there = await asyncio.to_thread(_lost, up, stood, known)
    if lost is None:
        raise await _nothing_lost(up, site, stood)
    loss = await asyncio.to_thread(source_of(up.feed.source_url).loss_before, lost)
    if not loss.source:
        raise TargetError(f"the log does not tell the GTID of the last transaction before {loss.place}", LOSS_UNTOLD)
    async with books(down.feed) as book:
        ((stored,),) = await book.session.fetch(
            f"SELECT {book.age('saved_at')} FROM {book.table('tidelock_checkpoint')} WHERE feed = %s", down.feed.name
        )
        returns = float(stored) > await _seconds_since(book, loss)
        gone = await asyncio.to_thread(_gone, down, await _place(book))
    return Rewound(up, down, stood, stood if is_there else loss.place, loss, returns, gone)


async def apply(rewound: Rewound) -> None:
    """Moves the feed from the spoke, in one transaction.  Raises TargetError."""
    async with books(rewound.up.feed) as book:
        epoch = await begin_move(book, rewound.place)
        await replace_behind(book, rewound.place)
        await _drop_receipts(book, rewound)
        await rename_kept(book, epoch, rewound.loss)
        await book.session.execute("COMMIT")


async def resting(pair: Pair, site: str) -> tuple[PairFeed, PairFeed]:
    """Returns the feeds from and to a spoke, which nobody runs.  Raises TargetError."""
    up, down = _feeds(pair, site)
    for one in (up, down):
        if not await nobody_runs(one.feed):
            raise TargetError(f"{one.name} runs", "End `tidelock pair run` (SIGTERM), then run this again")
    return up, down


async def begin_move(book: Books, place: Position) -> int:
    """Begins a transaction in which a feed moves to a place of its source's log; returns the epoch before.

    The epoch rises, which shuts out a run that was overlooked, and the halt ends.  Raises TargetError.
    """
    run, name, owner = book.session.execute, book.feed.name, book.table("tidelock_owner")
    await run("BEGIN")
    if book.session.dialect == "postgres":
        await run("SET LOCAL synchronous_commit = on")
    this = f"SELECT epoch FROM {owner} WHERE feed = %s AND grp = 0 FOR UPDATE"
    ((epoch,),) = await book.session.fetch(this, name)
    await run(f"UPDATE {owner} SET epoch = epoch + 1, halt = NULL, ddl_passed = NULL WHERE feed = %s", name)
    words = msgspec.json.encode(place).decode()
    await run(f"UPDATE {book.table('tidelock_checkpoint')} SET position = %s WHERE feed = %s", words, name)
    return int(epoch)


async def rename_kept(book: Books, epoch: int, loss: Loss | None = None) -> None:
    """Gives rows that are kept of lost transactions another name: new transactions have their numbers.  `loss`: none,
    and all are renamed."""
    more, values = "source NOT LIKE %s", (f"%{_MARK}%",)
    if loss is not None:
        more, values = f"source = %s AND number > {loss.number:d}", (loss.source,)
    for table in ("tidelock_parked", "tidelock_conflicts"):
        await book.session.execute(
            f"UPDATE {book.table(table)} SET source = CONCAT(source, '{_MARK}{epoch:d}') WHERE feed = %s AND {more}",
            book.feed.name,
            *values,
        )


def _feeds(pair: Pair, site: str) -> tuple[PairFeed, PairFeed]:
    """Returns the feeds from and to a spoke.  Raises TargetError."""
    for one in pair.feeds:
        if one.ends[0] == site and one.feed.conflicts is not None and one.feed.direction == "up":
            down = pair.way(one.ends[1], site)
            assert down is not None, "both feeds of an edge name the arbiter"
            return one, down
    raise TargetError(
        f"{pair.path}: {site} is no spoke of an arbiter",
        "Name a site that is, and whose server has lost commits; without an arbiter `tidelock resync` one of the feeds",
    )


async def _place(book: Books) -> Position:
    stored = await book.checkpoints()
    if 0 not in stored:
        raise TargetError(f"{book.feed.name} has never run", "`tidelock pair init` begins it")
    return stored[0][0]


async def _receipts(book: Books) -> list[Receipt]:
    rows = await book.session.fetch(
        f"SELECT epoch, batch, covered FROM {book.table('tidelock_progress')} WHERE feed = %s AND grp = 0",
        book.feed.name,
    )
    return [Receipt(EffectId(int(epoch), int(batch)), bytes(covered)) for epoch, batch, covered in rows]


def _lost(up: PairFeed, stood: Position, known: tuple[Position, ...]) -> tuple[Position | None, bool]:
    """Returns a place that was read and is not in the log any more, and whether the feed's own place is."""
    source = source_of(up.feed.source_url)
    try:
        source.confirm(stood)
    except OtherHistory:
        return stood, False
    for place in known:
        try:
            source.confirm(stood, [place])
        except OtherHistory:
            return place, True
    return None, True


async def _nothing_lost(up: PairFeed, site: str, stood: Position) -> TargetError:
    """Returns why nothing can be done: nothing is lost, or what has come since cannot be read."""
    if gone := await asyncio.to_thread(_gone, up, stood):
        return TargetError(gone, LOSS_UNTOLD)
    async with books(up.feed) as book:
        alarms = [owner.halted.alarm for owner in (await book.owners()).values() if owner.halted is not None]
    other = [alarm for alarm in alarms if alarm.kind == OtherHistory.__name__]
    if other and keeps_for_us(up.feed.source_url):  # which the reader of such a log alone can see
        return TargetError(other[0].message, LOSS_UNTOLD)
    return TargetError(
        f"the log of {site} holds all that {up.name} has read of it", "Nothing is to be done: run the pair"
    )


def _gone(one: PairFeed, place: Position) -> str:
    """Returns why the log of a feed's source cannot be read from a place on; '' where it can."""
    try:
        source_of(one.feed.source_url).require_log_behind(place)
    except (OtherHistory, PurgedPosition) as error:
        return error.message
    return ""


async def _seconds_since(book: Books, loss: Loss) -> float:
    """Returns how long ago the spoke's server went on, by its clock."""
    postgres = book.session.dialect == "postgres"
    now = "extract(epoch FROM clock_timestamp())" if postgres else "UNIX_TIMESTAMP(SYSDATE(6))"
    ((seconds,),) = await book.session.fetch(f"SELECT {now} - {loss.since:d}")
    return float(seconds)


async def _drop_receipts(book: Books, rewound: Rewound) -> None:
    """Removes receipts of what was lost; of those that cover other rows too, that part."""
    table, name = book.table("tidelock_progress"), book.feed.name
    source, number = rewound.loss.source, rewound.loss.number
    for receipt in await _receipts(book):
        rows = receipts.decode(receipt.covered)
        if rewound.place == rewound.before and (other := next((row[0] for row in rows if row[0] != source), "")):
            raise TargetError(f"{name} has applied transactions of {other} too", LOSS_UNTOLD)
        kept = [row for row in rows if row[1] <= number]
        this = f"WHERE feed = %s AND grp = 0 AND epoch = {receipt.id.epoch:d} AND batch = {receipt.id.counter:d}"
        if kept and rewound.place == rewound.before:
            covered = receipts.encode(kept)
            await book.session.execute(f"UPDATE {table} SET covered = %s {this}", covered, name)
        else:
            await book.session.execute(f"DELETE FROM {table} {this}", name)
