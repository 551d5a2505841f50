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
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from tidelock.adapters.config.pair import Pair, PairFeed
from tidelock.adapters.operator.feed_control import books, nobody_runs
from tidelock.adapters.operator.store import Books
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source import Loss
from tidelock.adapters.ports.source_errors import OtherHistory, PurgedPosition
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.log import receipts
from tidelock.engine.model import lineage
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import Receipt

_MARK: Final = "!"
_BY_ROWS: Final = (
    "`tidelock verify` shows what differs, and `tidelock repair` mends it; `tidelock resync` lets the feed go on"
)


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
    up, down = _feeds(pair, site)
    for one in (up, down):
        if not await nobody_runs(one.feed):
            raise TargetError(f"{one.name} runs", "End `tidelock pair run` (SIGTERM), then run this again")
    async with books(up.feed) as book:
        stood = await _place(book)
        known = receipts.furthest(await _receipts(book), stood)
    lost, is_there = await asyncio.to_thread(_lost, up, stood, known)
    if lost is None:
        raise TargetError(
            f"the log of {site} holds all that {up.name} has read of it", "Nothing is to be done: run the pair"
        )
    loss = await asyncio.to_thread(source_of(up.feed.source_url).loss_before, lost)
    _last(loss)
    async with books(down.feed) as book:
        ((stored,),) = await book.session.fetch(
            f"SELECT {book.age('saved_at')} FROM {book.table('tidelock_checkpoint')} WHERE feed = %s", down.feed.name
        )
        returns = float(stored) > await _seconds_since(book, loss)
        gone = await asyncio.to_thread(_gone, down, await _place(book))
    return Rewound(up, down, stood, stood if is_there else loss.place, loss, returns, gone)


async def apply(rewound: Rewound) -> None:
    """Moves the feed from the spoke, in one transaction.  Raises TargetError."""
    feed = rewound.up.feed
    async with books(feed) as book:
        run, name = book.session.execute, feed.name
        await run("BEGIN")
        if book.session.dialect == "postgres":
            await run("SET LOCAL synchronous_commit = on")
        owner = book.table("tidelock_owner")
        this = f"SELECT epoch FROM {owner} WHERE feed = %s AND grp = 0 FOR UPDATE"
        ((epoch,),) = await book.session.fetch(this, name)
        await run(f"UPDATE {owner} SET epoch = epoch + 1, halt = NULL WHERE feed = %s", name)
        words = msgspec.json.encode(rewound.place).decode()
        await run(f"UPDATE {book.table('tidelock_checkpoint')} SET position = %s WHERE feed = %s", words, name)
        await _drop_receipts(book, rewound)
        await _rename(book, rewound.loss, f"{_MARK}{epoch}")
        await run("COMMIT")


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


def _gone(down: PairFeed, place: Position) -> str:
    """Returns why the arbiter's log cannot be read from a place on; '' where it can."""
    try:
        source_of(down.feed.source_url).require_log_behind(place)
    except (OtherHistory, PurgedPosition) as error:
        return error.message
    return ""


async def _seconds_since(book: Books, loss: Loss) -> float:
    """Returns how long ago the spoke's server went on, by its clock."""
    ((seconds,),) = await book.session.fetch(f"SELECT UNIX_TIMESTAMP(SYSDATE(6)) - {loss.since:d}")
    return float(seconds)


async def _drop_receipts(book: Books, rewound: Rewound) -> None:
    """Removes receipts of what was lost; of those that cover other rows too, that part."""
    table, name = book.table("tidelock_progress"), book.feed.name
    source, number = _last(rewound.loss)
    for receipt in await _receipts(book):
        rows = receipts.decode(receipt.covered)
        if rewound.place == rewound.before and (other := next((row[0] for row in rows if row[0] != source), "")):
            raise TargetError(f"{name} has applied transactions of {other} too", _BY_ROWS)
        kept = [row for row in rows if row[1] <= number]
        this = f"WHERE feed = %s AND grp = 0 AND epoch = {receipt.id.epoch:d} AND batch = {receipt.id.counter:d}"
        if kept and rewound.place == rewound.before:
            covered = receipts.encode(kept)
            await book.session.execute(f"UPDATE {table} SET covered = %s {this}", covered, name)
        else:
            await book.session.execute(f"DELETE FROM {table} {this}", name)


async def _rename(book: Books, loss: Loss, mark: str) -> None:
    """Gives rows that are kept of lost transactions another name: new transactions have their numbers."""
    source, number = _last(loss)
    for table in ("tidelock_parked", "tidelock_conflicts"):
        await book.session.execute(
            f"UPDATE {book.table(table)} SET source = %s WHERE feed = %s AND source = %s AND number > {number:d}",
            f"{source}{mark}",
            book.feed.name,
            source,
        )


def _last(loss: Loss) -> tuple[str, int]:
    """Returns source and number of the last transaction that is left.  Raises TargetError."""
    proof = lineage.decode(loss.place.proof)
    if proof is None or proof.last is None or not proof.last.source:
        raise TargetError(
            f"the log does not tell the GTID of the last transaction before {loss.place}",
            _BY_ROWS,
        )
    return proof.last.source, proof.last.number
