"""Opens the source of a feed for `check` and `init`, whichever server it is."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from tidelock.adapters.checks.source_inspection import InspectedSource
from tidelock.adapters.config.feed import Feed


def source_inspected(feed: Feed) -> AbstractAsyncContextManager[InspectedSource]:
    """Opens the source and looks at it.  Raises CannotRun, SourceError."""
    if feed.source_url.dialect == "postgres":
        from tidelock.adapters.checks import postgres_inspection

        return postgres_inspection.inspected(feed)
    from tidelock.adapters.checks import mysql_inspection

    return mysql_inspection.inspected(feed)
