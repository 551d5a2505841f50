"""`tidelock rows take-source`: ends failed rows by writing what the source has of them now.

The rows are repaired as `tidelock repair` does it: the run that owns the feed reads them at the source once all that
the stream has taken is visible there, and merges them in the order of the log.  What is parked for a row goes with the
merge, in one transaction.  So all keys are asked for under which the failed changes of a row know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidelock.adapters.app.repair import Left, Part, Work
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator import feed_control
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.verify.catalogues import paired
from tidelock.engine.batch.parked_rows import ParkedChange
from tidelock.engine.model.records import Row, TableName


class FailedChange(msgspec.Struct, frozen=True):
    """A failed row as the bookkeeping has it."""

    id: str
    table: TableName
    change: ParkedChange


async def work_of(feed: Feed, ids: Sequence[str], table: str) -> Work:
    """Returns the rows to be written again.  `ids`: of failed rows; `table`: all of this target table; else all.

    Raises NotComparable, Refused, SourceError, TargetError.
    """
    async with feed_control.books(feed) as book:
        failed = [FailedChange(*row) for row in await book.failed_changes(table)]
    if unknown := set(ids) - {row.id for row in failed}:
        raise TargetError(f"No failed row {min(unknown)} in the feed {feed.name}", "See `tidelock rows list`")
    keys = {pair.name: pair.columns[: pair.key] for pair in await paired(feed, ())} if failed else {}
    return chosen(failed, ids, keys)


def chosen(failed: Sequence[FailedChange], ids: Iterable[str], keys: Mapping[TableName, tuple[str, ...]]) -> Work:
    """Returns the rows of these failed changes, or of those with `ids`, and of all that failed behind them.

    `keys`: the key columns of the tables.
    """
    wanted = frozenset(ids)
    parts, left = list[Part](), list[Left]()
    for name in dict.fromkeys(row.table for row in failed):
        of_table = [row for row in failed if row.table == name]
        asked = [row for row in of_table if not wanted or row.id in wanted]
        columns = keys.get(name, ())
        if not asked:
            continue
        if not columns or any(not _has(row, columns) for row in of_table):
            left.append(Left(str(name), len(asked), _why(columns)))
            continue
        parts.append(Part(name, tuple(_connected(of_table, asked, columns))))
    return Work(tuple(parts), tuple(left), ())


def _why(columns: tuple[str, ...]) -> str:
    if not columns:
        return "the feed has no table with a key there, so its failed rows can only be retried or skipped"
    return "failed rows have no value of the table's present key: retry or skip them"


def _has(row: FailedChange, columns: tuple[str, ...]) -> bool:
    return {column.name for column in row.change.shape.columns}.issuperset(columns)


def _connected(rows: Sequence[FailedChange], asked: Sequence[FailedChange], columns: tuple[str, ...]) -> list[Row]:
    """Returns the keys of the asked ones, and of all others that share a key with them."""
    of_row = {row.id: _keys(row, columns) for row in rows}
    found = dict.fromkeys(key for row in asked for key in of_row[row.id])
    size = 0
    while len(found) > size:
        size = len(found)
        for known in of_row.values():
            if any(key in found for key in known):
                found |= dict.fromkeys(known)
    return list(found)


def _keys(row: FailedChange, columns: tuple[str, ...]) -> list[Row]:
    at = {column.name: i for i, column in enumerate(row.change.shape.columns)}
    images = (image for image in (row.change.before, row.change.after) if image is not None)
    return [tuple(image[at[name]] for name in columns) for image in images]
