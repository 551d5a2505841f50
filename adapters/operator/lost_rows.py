"""Rows that lost in conflicts of two sites, as an operator asks for it (`tidelock conflicts`)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tidelock.adapters.bookkeeping.tables import CONFLICTS
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.store import Books
from tidelock.adapters.operator.upgrade import look
from tidelock.adapters.ports.sink import TargetError
from tidelock.engine.model.records import read_extension

APPLIED = "applied"
"""Outcome of what an operator has written after all."""

_IDENTITY = "source, number, ordinal, entry"
_THIS = "WHERE feed = %s"


class LostRow(msgspec.Struct, frozen=True):
    """A row, or a delete, that was meant and does not stand.

    `id`: `source:number:ordinal:entry`.  `meant_by`: `spoke` or `arbiter` in a feed to the arbiter, else `source` or
    `target`.  `path`: sites where the change had been.  `seconds`: its age.
    """

    id: str
    table: str
    key: str
    type: str
    outcome: str
    meant_by: str
    path: str
    seconds: float


class LostRowDetail(msgspec.Struct, frozen=True):
    """A lost row with its values, and those of the row that stood when it was decided; None: none."""

    row: LostRow
    lost: dict[str, Any] | None
    stands: dict[str, Any] | None


class DecidedConflicts(msgspec.Struct, frozen=True):
    """Number of lost rows of one type and outcome."""

    type: str
    outcome: str
    rows: int


async def decided_conflicts(book: Books) -> tuple[DecidedConflicts, ...]:
    """Returns how many rows lost, by type and outcome.  Raises TargetError."""
    table = book.table(CONFLICTS)
    rows = await book.session.fetch(
        f"SELECT type, outcome, count(*) FROM {table} {_THIS} GROUP BY type, outcome ORDER BY type, outcome",
        book.feed.name,
    )
    return tuple(DecidedConflicts(str(row[0]), str(row[1]), int(row[2])) for row in rows)


async def lost_rows(book: Books, table: str, limit: int) -> list[LostRow]:
    """Returns the first `limit` rows, newest first; of all tables where `table` is ''.  Raises TargetError."""
    if await _never_kept(book):
        return []
    schema, _, name = table.partition(".")
    where, args = (" AND table_schema = %s AND table_name = %s", (schema, name)) if table else ("", ())
    rows = await book.session.fetch(
        f"SELECT {_columns(book)} FROM {book.table(CONFLICTS)} {_THIS}{where} "
        f"ORDER BY at DESC, {_IDENTITY} LIMIT {limit:d}",
        book.feed.name,
        *args,
    )
    return [_row(book.feed, row) for row in rows]


async def lost_row(book: Books, id: str) -> LostRowDetail:
    """Returns one row with its values.  Raises TargetError where there is none of that id."""
    asked = f"SELECT {_columns(book)}, lost, stands FROM {book.table(CONFLICTS)} {_THIS} {_OF_ID}"
    rows = [] if await _never_kept(book) else await book.session.fetch(asked, book.feed.name, *_identity(id))
    if not rows:
        raise TargetError(f"No lost row {id} in the feed {book.feed.name}", "See `tidelock conflicts list`")
    *row, lost, stands = rows[0]
    return LostRowDetail(_row(book.feed, row), _values(lost), _values(stands))


async def mark_applied(book: Books, id: str) -> None:
    """Notes that the row was written after all.  Raises TargetError."""
    await book.session.execute(
        f"UPDATE {book.table(CONFLICTS)} SET outcome = %s {_THIS} {_OF_ID}", APPLIED, book.feed.name, *_identity(id)
    )


async def _never_kept(book: Books) -> bool:
    """Tells whether no feed of this bookkeeping has had sites, between which rows lose."""
    return CONFLICTS in (await look(book.session, book.feed.schema, (CONFLICTS,))).tables


_OF_ID = "AND source = %s AND number = %s AND ordinal = %s AND entry = %s"


def _columns(book: Books) -> str:
    return f"{_IDENTITY}, table_schema, table_name, row_key, type, outcome, incoming, path, {book.age('at')}"


def _row(feed: Feed, row: Any) -> LostRow:
    source, number, ordinal, entry, schema, table, key, kind, outcome, incoming, path, age = row
    ends = ("arbiter", "spoke") if feed.direction == "up" else ("target", "source")
    id = f"{source}:{number}:{ordinal}:{entry}"
    return LostRow(id, f"{schema}.{table}", key, kind, outcome, ends[int(incoming)], path, float(age))


def _values(packed: bytes | None) -> dict[str, Any] | None:
    return None if packed is None else _DECODER.decode(packed)


_DECODER = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=read_extension)


def _identity(id: str) -> tuple[str, int, int, int]:
    found = re.fullmatch(r"(.+):(\d+):(\d+):(\d+)", id, re.ASCII)
    if not found:
        raise TargetError(
            f"{id!r} is no id of a lost row", "Ids look like 0-101:55:3:0, as `tidelock conflicts list` shows them"
        )
    return found[1], int(found[2]), int(found[3]), int(found[4])
