"""Finds feeds that bring the same rows to the same tables: a feed's file that was copied or has another name by now, or
another `schema` for its bookkeeping.

Such a feed begins anew.  What the other one has brought comes once more, which doubles rows without a key, and where it
begins `now`, what was changed since the other one's checkpoint never comes.  Where both run, each may write older rows
over those of the other.  All bookkeepings of the target are asked, whatever schema they are in.  That the other one
reads this very log its checkpoint proves; of a PostgreSQL source, whose log is that of all databases, its slot.

`check` asks, a run or a coordinator that begins, `init` before it stores a place, and who adds tables to a feed.  Two
that ask at one moment would not see each other, so they ask one after another (`operator.tables_lock`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.bookkeeping.tables import CHECKPOINTS, OWNER, Lacking, quote
from tidelock.adapters.config.feed import Feed, TableRule
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.operator import known_tables
from tidelock.adapters.operator.runs import read as read_run
from tidelock.adapters.operator.store import Books
from tidelock.adapters.operator.tables_lock import held
from tidelock.adapters.operator.upgrade import look
from tidelock.adapters.ports.finding import Finding, error, warning
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.records import Position

SAME_TABLES: Final = "same-tables"
_POSITION = msgspec.json.Decoder(Position)
_BOOKS = "SELECT table_schema FROM information_schema.tables WHERE table_name = %s ORDER BY 1"


class _Other(msgspec.Struct, frozen=True):
    """Another feed: its name, the schema of its bookkeeping, how far it is, the tables that it has run with or may run
    with next.  `alive`: it runs, as far as is known; of workers, only Kafka knows."""

    feed: str
    schema: str
    place: Position
    tables: tuple[TableRule, ...]
    alive: bool


async def check_same_tables(feed: Feed) -> list[Finding]:
    """Lists those feeds, where this one has not run yet."""
    if feed.target_url.scheme == "hive":
        return []
    try:
        async with session(feed.target_url) as target:
            return await _same_tables(feed, target)
    except TargetError:
        return []  # as is said elsewhere


async def _same_tables(feed: Feed, target: TargetSession) -> list[Finding]:
    try:
        if await has_run(feed, target):
            return []
        alike = [one for one in await _others(feed, target) if _meeting(feed.tables, one)]
        return [_beginning(feed, one) for one in alike if await _reads_our_log(feed, one)]
    except (TargetError, SourceError):
        return []  # as is said elsewhere


async def check_more_tables(feed: Feed, more: Sequence[TableRule]) -> list[Finding]:
    """Lists those feeds of which a feed that has run would take tables by these rules.  Raises SourceError,
    TargetError."""
    if feed.target_url.scheme == "hive" or not more:
        return []
    async with session(feed.target_url) as target:
        return await _more_tables(feed, target, more)


async def _more_tables(feed: Feed, target: TargetSession, more: Sequence[TableRule]) -> list[Finding]:
    others = await _others(feed, target)
    alike = [one for one in others if any(_whole(*pair) for pair in _meeting(more, one))]
    return [_taking(feed, more, one) for one in alike if await _reads_our_log(feed, one)]


async def check_new_rules(feed: Feed, target: TargetSession) -> list[Finding]:
    """Lists what `check_more_tables` finds of the rules that a feed which has run would run with for the first time.
    Raises SourceError, TargetError."""
    return await check_more_tables(feed, await _new_rules(feed, target))


@asynccontextmanager
async def takes_alone(feed: Feed) -> AsyncIterator[None]:
    """Has nobody else take tables of the target meanwhile, where the feed takes some for the first time.  Raises
    SourceError, TargetError, also where another feed brings them."""
    async with contextlib.AsyncExitStack() as stack:
        target = await stack.enter_async_context(session(feed.target_url))
        begun = await has_run(feed, target)
        more = await _new_rules(feed, target)
        if more or not begun:
            await stack.enter_async_context(held(feed, target))
            _refuse(await (_more_tables(feed, target, more) if begun else _same_tables(feed, target)))
        else:
            await stack.aclose()
        yield


async def refuse_same_tables(feed: Feed) -> None:
    """Raises TargetError with what `check_same_tables` finds to be wrong."""
    _refuse(await check_same_tables(feed))


def _refuse(findings: Sequence[Finding]) -> None:
    for found in findings:
        if found.level == "error":
            raise TargetError(found.message, found.hint)


async def _new_rules(feed: Feed, target: TargetSession) -> list[TableRule]:
    """Returns the rules that the feed has not run with; none where nobody has kept those."""
    known = await known_tables.all_of(Books(feed, target))
    return [rule for rule in feed.tables if rule not in known] if known else []


async def has_run(feed: Feed, target: TargetSession) -> bool:
    """Tells whether a run or workers have had the feed; `init` has not.  Raises TargetError."""
    lacking = await look(target, feed.schema, (OWNER,))
    return not lacking.tables and bool(await Books(feed, target).owners())


async def _others(feed: Feed, target: TargetSession) -> list[_Other]:
    found = list[_Other]()
    for (schema,) in await target.fetch(_BOOKS, CHECKPOINTS):
        name = str(schema)
        lacking = await look(target, name, (CHECKPOINTS, "tidelock_runs"))
        if CHECKPOINTS in lacking.tables:
            continue
        table = f"{quote(target.dialect, name)}.{CHECKPOINTS}"
        stored = dict[str, dict[int, Position]]()
        for other, group, text in await target.fetch(f"SELECT feed, grp, position FROM {table} ORDER BY feed"):
            stored.setdefault(str(other), {})[int(group)] = _POSITION.decode(text)
        for other, places in stored.items():
            books = Books(msgspec.structs.replace(feed, name=other, schema=name), target)
            if (name, other) != (feed.schema, feed.name) and (tables := await known_tables.all_of(books)):
                alive = COORDINATOR in places or await _alive(books, lacking)
                found.append(_Other(other, name, _least(places), tables, alive))
    return found


def _least(places: dict[int, Position]) -> Position:
    of_groups = [place for group, place in places.items() if group != COORDINATOR]
    return min(of_groups or places.values(), key=lambda place: place.order)


async def _alive(books: Books, lacking: Lacking) -> bool:
    if "tidelock_runs" in lacking.tables or "tidelock_runs" in lacking.columns:
        return False
    run = await read_run(books.session, books.feed.schema, books.feed.name)
    return run is not None and run.alive


def _meeting(rules: Sequence[TableRule], other: _Other) -> list[tuple[TableRule, TableRule]]:
    return [
        (ours, theirs)
        for ours in rules
        for theirs in other.tables
        if Pattern.of(ours.source).meets(Pattern.of(theirs.source))
        and Pattern.of(ours.target or ours.source).meets(Pattern.of(theirs.target or theirs.source))
    ]


def _whole(one: TableRule, two: TableRule) -> bool:
    """Tells whether both take all rows and columns alike."""
    return not (one.where or two.where or one.columns != two.columns)


async def _reads_our_log(feed: Feed, other: _Other) -> bool:
    """Returns whether the other feed's checkpoint is a place of the log that this one reads.  Raises SourceError,
    TargetError."""
    if feed.source_url.dialect == "postgres":
        async with session(feed.source_url) as source:
            slots = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND database = current_database()"
            return bool(await source.fetch(slots, slot_name(other.feed)))
    if not other.place.proof:
        return False
    try:
        await asyncio.to_thread(source_of(feed.source_url).confirm, other.place)
    except SourceError:
        return False
    return True


def _beginning(feed: Feed, other: _Other) -> Finding:
    """An error where all rows of a table would come twice, and the feed does not copy them anew or the other one goes
    on."""
    whole = any(_whole(*pair) for pair in _meeting(feed.tables, other))
    ours = f"`feed: {feed.name}`, `schema: {feed.schema}`"
    words = (
        f"{_told(feed, other)}, and is at {other.place}; "
        f"{feed.name} begins anew at `start: {feed.start}`, so rows that changed in between never come, or come twice"
    )
    hint = (
        f"Where this is that feed under other words, give it those again ({_words(other)} in place of {ours}). Else "
        "end that one (`tidelock remove` with its file), and begin with `start: copy` and `copy: {existing: replace}`; "
        "or name other tables"
    )
    bad = whole and (feed.start != "copy" or other.alive)
    return (error if bad else warning)(SAME_TABLES, words, hint)


def _taking(feed: Feed, more: Sequence[TableRule], other: _Other) -> Finding:
    names = ", ".join(dict.fromkeys(ours.source for ours, theirs in _meeting(more, other) if _whole(ours, theirs)))
    words = f"{_told(feed, other)}, and {feed.name} would take {names} too: rows would come twice, or older ones last"
    hint = (
        f"Leave {names} to one of them: out of this file, or out of that one's (`tidelock drop-table` or `edit`), "
        "which then runs once with its new file; or end that one (`tidelock remove` with its file)"
    )
    return error(SAME_TABLES, words, hint)


def _told(feed: Feed, other: _Other) -> str:
    return f"the feed of {_words(other)} brings the same tables from this source to {feed.target_url}"


def _words(other: _Other) -> str:
    return f"`feed: {other.feed}`, `schema: {other.schema}`"
