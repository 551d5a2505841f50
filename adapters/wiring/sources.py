"""Maps the scheme of a source's URL to the implementation that reads it: a line of `_SOURCES` for each.

What an implementation brings is `adapters.ports.source.Source`, and a module that runs as a capture process: started
as `python -m MODULE FD`, it takes a `CaptureOrder` from the socket FD and sends batches in frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Final, NamedTuple

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.moments import StartMoment
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.history_words import time as told_time
from tidelock.adapters.ports.source import Overview, Source
from tidelock.adapters.ports.source_errors import PurgedPosition, SourceError
from tidelock.engine.model.records import Position


class _Wired(NamedTuple):
    """`opened` imports when it is called: the capture process starts by its name alone, before anything is loaded.
    `keeps_for_us`: the log is kept for a feed alone, from its checkpoint on, so it must be told of that.
    """

    capture_module: str
    opened: Callable[[Endpoint], Source]
    keeps_for_us: bool = False


def _mysql(place: Endpoint) -> Source:
    from tidelock.adapters.mysql.binlog.source import MySqlSource

    return MySqlSource(place)


def _postgres(place: Endpoint) -> Source:
    from tidelock.adapters.postgres.logical.source import PostgresSource

    return PostgresSource(place)


_SOURCES: Final = {
    "mysql": _Wired("tidelock.adapters.mysql.binlog.capture_process", _mysql),
    "mariadb": _Wired("tidelock.adapters.mysql.binlog.capture_process", _mysql),
    "postgresql": _Wired("tidelock.adapters.postgres.logical.capture_process", _postgres, keeps_for_us=True),
}
SCHEMES: Final = tuple(_SOURCES)


def source_of(place: Endpoint) -> Source:
    return _SOURCES[place.scheme].opened(place)


def capture_module(place: Endpoint) -> str:
    return _SOURCES[place.scheme].capture_module


def keeps_for_us(place: Endpoint) -> bool:
    """Tells whether the source keeps its log for each feed alone, from the feed's checkpoint on."""
    return _SOURCES[place.scheme].keeps_for_us


def load_reader(scheme: str) -> None:
    """Import what reading such a source's log takes, before there is an order."""
    import_module(_SOURCES[scheme].capture_module)


def overview_of(feed: Feed, *, first_run: bool = False) -> Overview:
    """The source as this feed sees it; `first_run`: with what `start_of` needs.  Raises SourceError."""
    patterns = [rule.source for rule in feed.tables]
    return source_of(feed.source_url).look(patterns, earliest=first_run and feed.start == "earliest")


def start_of(feed: Feed, source: Overview) -> Position:
    """Where a first run begins; of a time, it is looked for in the log.  Raises SourceError where the log has no such
    time."""
    match feed.start_place:
        case "now":
            return source.now
        case "earliest":
            return source.earliest
        case StartMoment() as moment:
            return place_of(feed, moment)
        case position:
            return position


def place_of(feed: Feed, moment: StartMoment) -> Position:
    """The place before the first transaction that was committed at the moment or later.  Raises SourceError where the
    log does not reach back so far, or the moment is in the future."""
    source = source_of(feed.source_url)
    _, now_us = source.end()
    at_us = moment.before(now_us)
    if at_us > now_us + 1_000_000:  # some servers tell whole seconds
        raise PurgedPosition(
            f"`start: {feed.start}` is in the future: at {feed.source_url} it is {told_time(now_us)}",
            "Set a time that is over, or `start: now`",
        )
    return source.committed_since(at_us)


async def look(feed: Feed) -> Overview | SourceError:
    """Looks at the source.  An error is kept for later: `check` says the same with the statement that corrects it."""
    try:
        return await asyncio.to_thread(overview_of, feed, first_run=True)
    except SourceError as error:
        return error
