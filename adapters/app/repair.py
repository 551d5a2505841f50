"""`tidelock repair`: queues the rows that a report of verify lists, so that the feed itself writes them again.

Nothing here touches a replicated row.  Keys become requests in `tidelock_wanted`, all in one transaction.  The run that
owns the feed reads those rows at the source and merges them in the order of the log
(`docs/decisions/2026-11-22-repair.md`).  A request is removed when its rows are about to be read: from then on
`tidelock_chunks` holds the keys, and says when they are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator import feed_control
from tidelock.adapters.operator.copies import queue
from tidelock.adapters.operator.store import Books
from tidelock.adapters.ports.operator_error import OperatorError
from tidelock.adapters.ports.staging import LEFT
from tidelock.adapters.spark.keys import NoSuchKey, canonical
from tidelock.adapters.verify.catalogues import paired
from tidelock.adapters.verify.report import Difference, TableReport, VerifyReport
from tidelock.adapters.verify.table_pairs import ComparedTable
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Row, TableName

RepairState: TypeAlias = Literal["waiting", "reading", "repaired", "refused", "lost"]
_THIS = "WHERE feed = %s"
_ALARM: Final = msgspec.json.Decoder(Alarm)
_SPLIT: Final = msgspec.msgpack.Decoder(ChunkSplit)
_UNREPAIRED: Final = msgspec.json.Decoder(list[tuple[str, str]])


class NotRepairable(OperatorError):
    """The report cannot be worked off; the text says why and `hint` what to do."""

    exit_code = 2


class Part(msgspec.Struct, frozen=True):
    """Rows of a target table that are to be read again."""

    table: TableName
    keys: tuple[Row, ...]


class Left(msgspec.Struct, frozen=True):
    """Rows of a table that cannot be repaired row by row, and what to do about them."""

    table: str
    rows: int
    why: str


class Work(msgspec.Struct, frozen=True):
    """The rows that a report asks to be repaired.  `notes`: what the report did not see."""

    parts: tuple[Part, ...]
    left: tuple[Left, ...]
    notes: tuple[str, ...]

    @property
    def rows(self) -> int:
        """The number of rows to be repaired."""
        return sum(len(part.keys) for part in self.parts)


class Unrepaired(msgspec.Struct, frozen=True):
    """A row that stays as it is, as the target refuses what the source has: its key, and the target's words."""

    key: str
    why: str


class RepairProgress(msgspec.Struct, frozen=True):
    """The state of the rows of one part.  `why`: they were refused.  `unrepaired`: those of them that stay as they are,
    while the others are repaired."""

    table: str
    rows: int
    state: RepairState
    why: str = ""
    unrepaired: tuple[Unrepaired, ...] = ()

    @property
    def ended(self) -> bool:
        """Tells whether nothing more will happen to these rows."""
        return self.state in ("repaired", "refused", "lost")


async def work_of(feed: Feed, report: VerifyReport, only: Sequence[str]) -> Work:
    """Turns a report into work.  `only`: source tables, all if empty.

    Raises NotRepairable, NotComparable, Refused, SourceError, TargetError.
    """
    by_name = {str(pair.name): pair for pair in await paired(feed, only)}
    parts, left = list[Part](), list[Left]()
    chosen = [table for table in report.tables if not only or table.table in by_name]
    if not chosen:
        raise NotRepairable(f"the report knows no table {', '.join(only)}", "See its `tables`")
    for table in chosen:
        if table.differences:
            part, rest = _part(feed, table, by_name.get(table.table))
            parts += [part] if part.keys else []
            left += rest
    return Work(tuple(parts), tuple(left), tuple(_notes(report, chosen)))


def _part(feed: Feed, table: TableReport, pair: ComparedTable | None) -> tuple[Part, list[Left]]:
    if pair is None:
        raise NotRepairable(f"the feed {feed.name} has no table {table.table} any more", "Run `tidelock verify` again")
    if not table.key:
        why = f"it has no key, so it is copied as a whole: `tidelock copy FEED --table {pair.source_names}`"
        return Part(pair.name, ()), [Left(table.table, table.total, why)]
    if table.key != pair.columns[: pair.key]:
        raise NotRepairable(f"{table.table} has another key since that report", "Run `tidelock verify` again")
    keys, left = dict[Row, None](), list[Left]()
    for found in table.differences:
        try:
            keys.update(dict.fromkeys(_keys(pair, found)))
        except NoSuchKey as error:
            shown = ", ".join(f"{name}={value}" for name, value in found.key.items())
            why = f"{shown} is no key that the source can have ({error}): correct it by hand"
            left.append(Left(table.table, 1, why))
    return Part(pair.name, tuple(keys)), left


def _keys(pair: ComparedTable, found: Difference) -> list[Row]:
    """Returns the key of a row as each source table that maps to its table would log it: two tables may spell a number
    with other digits.
    """
    shown = [found.key[name] for name in pair.columns[: pair.key]]
    return [
        tuple(canonical(form, c.column, value) for form, c, value in zip(pair.forms, side.columns, shown, strict=False))
        for side in pair.sources
    ]


def _notes(report: VerifyReport, tables: Sequence[TableReport]) -> list[str]:
    notes = [
        f"{table.table}: the report does not hold all differences; run `tidelock verify` again after this repair"
        for table in tables
        if not table.complete
    ]
    notes += [
        f"{table.table}: {table.still_changing:,} rows were still changing; run `tidelock verify` again after this "
        "repair"
        for table in tables
        if table.still_changing
    ]
    return notes + ([f"the report was made while {report.note}"] if report.note else [])


async def ask(feed: Feed, work: Work) -> None:
    """Queues the rows for repair.  Raises TargetError."""
    asked: list[tuple[TableName, Row | None]] = [(part.table, key) for part in work.parts for key in part.keys]
    async with feed_control.books(feed) as book:
        await queue(book, "repair", asked)


async def progress_of(feed: Feed, work: Work) -> list[RepairProgress]:
    """Returns the state of each part.  Raises TargetError."""
    async with feed_control.books(feed) as book:
        return [await _progress(book, part) for part in work.parts]


async def _progress(book: Books, part: Part) -> RepairProgress:
    table, rows = str(part.table), len(part.keys)
    where = f"{_THIS} AND table_schema = %s AND table_name = %s"
    mine = (book.feed.name, part.table.schema, part.table.table)
    wanted, chunks = book.table("tidelock_wanted"), book.table("tidelock_chunks")
    counted = await book.session.fetch(f"SELECT mode, count(*) FROM {wanted} {where} GROUP BY mode", *mine)
    modes = {str(mode): int(count) for mode, count in counted}
    if "refused" in modes:
        found = await book.session.fetch(f"SELECT row_key FROM {wanted} {where} AND mode = 'refused' LIMIT 1", *mine)
        why = str(_ALARM.decode(found[0][0])) if found else ""
        return RepairProgress(table, rows, "refused", why)
    if "repair" in modes:
        return RepairProgress(table, rows, "waiting")
    found = await book.session.fetch(f"SELECT chunk, split, rows_merged FROM {chunks} {where} ORDER BY chunk", *mine)
    split = _SPLIT.decode(found[0][1]) if found and found[0][1] else None
    if split is not None and split.by is By.KEYS and not split.keys:
        return RepairProgress(table, rows, "refused", "the target refused the rows: what the feed wrote last says why")
    if split is None or split.by is not By.KEYS or not set(part.keys) <= set(split.keys):
        why = "another copy of the table has taken its place: run `tidelock verify`"
        return RepairProgress(table, rows, "lost", why)
    state: RepairState = "reading" if any(row[2] is None for row in found) else "repaired"
    # Read behind the chunks: the last merge may commit meanwhile, and with it what it leaves.
    left = await _unrepaired(book, where, mine) if state == "repaired" else ()
    return RepairProgress(table, rows, state, unrepaired=left)


async def _unrepaired(book: Books, where: str, mine: tuple[str, ...]) -> tuple[Unrepaired, ...]:
    """Returns the rows of a table that its last repair left as they are.  Raises TargetError."""
    wanted = book.table("tidelock_wanted")
    query = f"SELECT row_key FROM {wanted} {where} AND mode = %s ORDER BY ordinal"
    found = await book.session.fetch(query, *mine, LEFT)
    rows = [row for (words,) in found for row in _UNREPAIRED.decode(words)]
    return tuple(Unrepaired(key, why) for key, why in rows)
