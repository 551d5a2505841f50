"""`tidelock status` of a feed with a Hive target: what its last manifest says, beside the end of the source's log."""

from __future__ import annotations

import time

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.hive.opening import manifest_of
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.model.records import Position


class CopyProgress(msgspec.Struct, frozen=True):
    """A copy under way: tables still to be read, tables that are loaded, and where the log must be followed to."""

    pending: tuple[str, ...]
    loaded: tuple[str, ...]
    end: Position | None


class FeedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a feed with a Hive target.

    `merge`: number of the last one, -1: the feed has never run.  `changes`: merged in all, `last`: by the last one.
    `merge_seconds`: its age.  `position`: where the tables stand; `source_end`: where the source's log ends now, None
    with `source_error` where it did not say.  `lag_seconds`: 0 where nothing is missing, else the age of the last
    change that is in the tables; None: not known.
    """

    feed: str
    source: str
    target: str
    merge: int = -1
    merge_seconds: float = 0.0
    changes: int = 0
    last: int = 0
    position: Position | None = None
    tables: tuple[str, ...] = ()
    source_end: Position | None = None
    source_error: str = ""
    lag_seconds: float | None = None
    copy: CopyProgress | None = None


def feed_status(feed: Feed) -> FeedStatus:
    """Reads the last manifest and the end of the source's log.  Raises OSError, Missing, SparkFailed."""
    manifest = manifest_of(feed)
    seen = FeedStatus(feed=feed.name, source=str(feed.source_url), target=str(feed.target_url))
    if manifest is None:
        return seen
    end, problem = _source_end(feed)
    copy, now = manifest.copy, time.time()
    lag = now - manifest.end_us / 1e6 if manifest.end_us else None
    return msgspec.structs.replace(
        seen,
        merge=manifest.number,
        merge_seconds=max(0.0, now - manifest.made_us / 1e6),
        changes=manifest.changes,
        last=manifest.last,
        position=manifest.position,
        tables=tuple(sorted(manifest.tables)),
        source_end=end,
        source_error=problem,
        lag_seconds=0.0 if end is not None and manifest.position.order >= end.order else lag,
        copy=CopyProgress(tuple(copy.pending), copy.loaded, copy.end) if copy else None,
    )


def _source_end(feed: Feed) -> tuple[Position | None, str]:
    try:
        return source_of(feed.source_url).end()[0], ""
    except SourceError as error:
        return None, str(error)
