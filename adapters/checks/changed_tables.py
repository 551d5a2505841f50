"""Checks whether a feed's file takes what the feed did not take when it last ran: rows that would never come."""

from __future__ import annotations

import asyncio
from typing import Final

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.feed_change import SourceColumns, TableChange, difference
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.operator import held_copies, known_tables
from tidelock.adapters.operator.copies import requests
from tidelock.adapters.operator.store import Books
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.wiring.session import TargetSession
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.records import TableName

_HINT: Final = (
    "`tidelock edit FEED FEED`, with the feed's file twice, shows what that means; with `--apply` they are "
    "copied, with `--apply --no-copy` only changes come. Or put `tables` back as they were"
)
_HINT_OF_WORKERS: Final = (
    "`tidelock copy FEED`, with `--table DB.TABLE` for each of these tables, has them copied; after `tidelock edit "
    "FEED FEED --apply --no-copy`, with the feed's file twice, only changes come. Or put `tables` back as they were; "
    "the file is to be the same on each machine"
)
_COPIES: Final = frozenset(("copy", "keep", "fill", "resync"))


async def check_tables_again(feed: Feed, target: TargetSession) -> list[Finding]:
    """Lists that the file's tables are others than those of the last run, where rows would never come: they are there,
    and no copy of theirs is queued.

    Of a pair, whose file is another, nothing is known.  Raises SourceError, TargetError.
    """
    if feed.permit is not None:
        return []
    return _findings(feed, await left_out(Books(feed, target)))


async def left_out(book: Books) -> list[TableChange]:
    """Returns the tables that the book's feed takes rows of which would never come.  Raises SourceError,
    TargetError."""
    feed, former = book.feed, await known_tables.former(book)
    if former is feed:
        return []
    there = await asyncio.to_thread(at_source, former, feed)
    asked = {str(table) for table, mode in await requests(book) if mode in _COPIES}
    asked |= {str(table) for table in await held_copies.held(book, Mapping(rules_of(feed), feed.schema), there)}
    return [one for one in difference(former, feed, there).tables if one.copy and one.target not in asked]


def at_source(former: Feed, new: Feed) -> dict[TableName, SourceColumns]:
    """Returns the tables at the source that either takes.  Raises SourceError."""
    source = source_of(new.source_url)
    patterns = list(dict.fromkeys(rule.source for feed in (former, new) for rule in feed.tables))
    mappings = [Mapping(rules_of(feed), feed.schema) for feed in (former, new)]
    names = {n for n in source.look(patterns, earliest=False).tables if any(one.selects(n) for one in mappings)}
    shapes = source.shapes(names.__contains__)
    return {
        name: SourceColumns(tuple(column.name for column in shape.columns), bool(shape.primary_key))
        for name, shape in shapes.items()
        if name in names
    }


def _findings(feed: Feed, changes: list[TableChange]) -> list[Finding]:
    if not changes:
        return []
    told = "; ".join(_told(one) for one in changes)
    return [
        error(
            "tables-changed",
            f"the `tables` of feed {feed.name} were changed since it last ran, and rows that are there already would "
            f"never come: {told}",
            _HINT if feed.log_url is None else _HINT_OF_WORKERS,
        )
    ]


def _told(one: TableChange) -> str:
    words = f", {one.before} becomes {one.after}" if one.what in ("filter", "other target") else ""
    new = f" {one.after}" if one.what == "columns" else ""
    return f"{one.table}: {one.what}{new}{words}"
