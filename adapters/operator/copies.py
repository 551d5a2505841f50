"""Copies in a feed's bookkeeping: what operators asked to be copied or repaired, and how far each table is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from tidelock.adapters.config.former_words import share
from tidelock.adapters.operator.stamps import refuse_copies
from tidelock.adapters.operator.store import Books
from tidelock.adapters.ports.staging import HELD, LEFT, staged_prefix
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.protocol.events import Copied

Mode: TypeAlias = Literal["copy", "fill", "keep", "repair", "resync"]
_AT_ONCE = 1000  # requests in one statement: PostgreSQL takes 65,535 arguments
_THIS = "WHERE feed = %s"
_SPLIT: Final = msgspec.msgpack.Decoder(ChunkSplit)
_ALARM: Final = msgspec.json.Decoder(Alarm)


class CopiedTable(msgspec.Struct, frozen=True):
    """The progress of a target table's copy.

    `queued`: it was asked for and has not begun; `wanted` is the former name.  `held`: it waits for a run with the file
    that it was asked for with.  `refused`: why it will not begin, or ''.
    `rows`: in the `merged` ones of its `chunks`.  `seconds`: since something of it changed.
    """

    table: str
    chunks: int = 0
    merged: int = 0
    rows: int = 0
    seconds: float | None = None
    queued: bool = False
    refused: str = ""
    wanted: bool = False
    held: bool = False

    def __post_init__(self) -> None:
        share(self, queued="wanted")

    @property
    def done(self) -> bool:
        """Tells whether all chunks are merged."""
        return not self.queued and not self.refused and self.merged == self.chunks

    def with_chunk(self, rows: int | None, seconds: float) -> CopiedTable:
        """Returns the progress with one more chunk; `rows`: None while it is not merged."""
        least = seconds if self.seconds is None else min(seconds, self.seconds)
        if rows is None:
            return msgspec.structs.replace(self, seconds=least)
        return msgspec.structs.replace(self, merged=self.merged + 1, rows=self.rows + rows, seconds=least)


async def queue(book: Books, mode: Mode, asked: Sequence[tuple[TableName, Row | None]]) -> None:
    """Queues target tables to be copied, or rows of them, by their keys, to be repaired.

    All of `asked` is written in one transaction, because a copy that begins removes every request for its tables.
    Earlier refusals of these tables are forgotten.  Raises TargetError, also for rows with stamps: what is copied over
    what a site has written, and has not sent yet, would differ there for good.
    """
    if mode != "fill":
        refuse_copies(book.feed)
    place, feed = book.table("tidelock_wanted"), book.feed.name
    await book.session.execute("BEGIN")
    for table in dict.fromkeys(table for table, _ in asked):
        told = f"DELETE FROM {place} {_THIS} AND mode IN ('refused', %s) AND table_schema = %s AND table_name = %s"
        await book.session.execute(told, feed, LEFT, table.schema, table.table)
    now = time.time_ns() // 1000  # never used twice: the run that carries requests out remembers them by it
    for first in range(0, len(asked), _AT_ONCE):
        some = asked[first : first + _AT_ONCE]
        values = list[str | int | bytes | None]()
        for ordinal, (table, key) in enumerate(some, now + first):
            packed = None if key is None else msgspec.msgpack.encode(key)
            values += (feed, ordinal, table.schema, table.table, mode, packed)
        await book.session.execute(
            f"INSERT INTO {place} (feed, grp, ordinal, table_schema, table_name, mode, row_key) "
            f"VALUES {', '.join(['(%s, 0, %s, %s, %s, %s, %s)'] * len(some))}",
            *values,
        )
    await book.session.execute("COMMIT")


async def change_fills(book: Books, mode: Mode) -> None:
    """Gives queued copies into empty tables another mode.  Raises TargetError."""
    await book.session.execute("BEGIN")
    wanted = f"UPDATE {book.table('tidelock_wanted')} SET mode = %s {_THIS} AND mode = 'fill'"
    await book.session.execute(wanted, mode, book.feed.name)
    await book.session.execute("COMMIT")


async def without_left(
    book: Books, epoch: int, begun: Sequence[Copied], tell: Callable[[str], None]
) -> tuple[Copied, ...]:
    """Ends copies that have begun of tables which no rule of the feed names any more, for the run of this epoch: nobody
    would read their chunks, and the feed would wait for them for ever.  Returns the others.  Raises TargetError."""
    patterns = [Pattern.of(rule.target or rule.source) for rule in book.feed.tables]
    left = [
        one.split.table
        for one in begun
        if len(one.merged) < one.split.chunks and not any(pattern.matches(one.split.table) for pattern in patterns)
    ]
    for table in left:
        await book.session.execute(
            f"DELETE FROM {book.table('tidelock_chunks')} {_THIS} AND grp = 0 AND table_schema = %s "
            "AND table_name = %s "
            f"AND EXISTS (SELECT 1 FROM {book.table('tidelock_owner')} {_THIS} AND grp = 0 AND epoch = %s)",
            book.feed.name, table.schema, table.table, book.feed.name, epoch,
        )  # fmt: skip
        tell(f"the copy of {table} ends unfinished, as `tables` names it no more: the target has a part of its rows")
    return tuple(one for one in begun if one.split.table not in left)


async def staged_tables(book: Books, groups: Iterable[int] = (0,)) -> dict[str, int]:
    """Returns the staging tables of these table groups: chunks on their way, or left over by a run that was killed.

    Each has its group.  Raises TargetError.
    """
    seen: dict[str, int] = {}
    for group in groups:
        prefix = staged_prefix(book.feed.name, group)
        found = await book.session.fetch(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND left(table_name, %s) = %s "
            "ORDER BY table_name",
            book.feed.schema,
            len(prefix),
            prefix,
        )
        seen.update((str(name), group) for (name,) in found)
    return seen


async def requests(book: Books) -> list[tuple[TableName, str]]:
    """Lists what is queued and neither begun nor refused: (table, mode).  Raises TargetError."""
    wanted = book.table("tidelock_wanted")
    found = await book.session.fetch(
        f"SELECT DISTINCT table_schema, table_name, mode FROM {wanted} {_THIS} AND mode <> 'refused'", book.feed.name
    )
    return [(TableName(str(schema), str(table)), str(mode)) for schema, table, mode in found]


async def resync_pending(book: Books) -> bool:
    """Returns whether a copy is queued and has not begun without which nothing may be applied: that of a resync
    (`adapters.app.resync`), or into tables that must be empty, whatever `start` says by now.  Raises TargetError."""
    return any(mode in ("resync", "fill") for _, mode in await requests(book))


async def unfinished(book: Books) -> bool:
    """Returns whether a table is queued to be copied or being copied.  Raises TargetError."""
    return any(not (table.done or table.refused) for table in await copies(book))


async def copies(book: Books) -> tuple[CopiedTable, ...]:
    """Lists the tables that are being copied, were copied, or are queued, by name.  Raises TargetError.

    Rows that are repaired are not among them.
    """
    seen: dict[str, CopiedTable] = {}
    chunks = await book.session.fetch(
        f"SELECT table_schema, table_name, chunk, split, rows_merged, {book.age('changed_at')} "
        f"FROM {book.table('tidelock_chunks')} {_THIS} ORDER BY 1, 2, 3",
        book.feed.name,
    )
    for schema, table, chunk, split, rows, age in chunks:
        name = f"{schema}.{table}"
        if chunk == 0:
            read = _SPLIT.decode(split)
            if read.by is By.KEYS:
                continue
            seen[name] = CopiedTable(name, chunks=read.chunks)
        if name in seen:
            seen[name] = seen[name].with_chunk(None if rows is None else int(rows), float(age))
    requests = await book.session.fetch(
        f"SELECT table_schema, table_name, mode, row_key FROM {book.table('tidelock_wanted')} {_THIS} "
        "AND mode NOT IN ('repair', %s) ORDER BY ordinal",
        book.feed.name,
        LEFT,
    )
    for schema, table, mode, words in requests:
        name = f"{schema}.{table}"
        refused = str(_ALARM.decode(words)) if mode == "refused" else ""
        seen[name] = CopiedTable(name, queued=mode != "refused", refused=refused, held=mode in HELD.values())
    return tuple(seen[name] for name in sorted(seen))
