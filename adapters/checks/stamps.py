"""Checks whether the tables of a feed with stamps have what those need, at both sites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tidelock.adapters.checks.checked_table import CheckedTable
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.operator.stamps import clock, lacking, stamped_tables, stamps_of
from tidelock.adapters.ports.finding import Finding, error, warning
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.adapters.wiring.session import session
from tidelock.adapters.wiring.source_tables import tables_at
from tidelock.engine.batch.stamp_steps import require_stamps
from tidelock.engine.model.schema import Binding, SchemaMismatch

MOST_SKEW_US: Final = 2_000_000
_HINT = "`tidelock init FEED` prints what makes it, `tidelock init FEED --apply` runs it"


async def check_stamps(
    feed: Feed, tables: Iterable[SourceTable], source: Dialect, target: Dialect
) -> list[Finding]:
    """Lists columns, tombstones and triggers that are missing at either site, or are not as they should be, and clocks
    that differ.  Raises TargetError."""
    try:
        stamped = stamped_tables(feed, tables, source, target)
    except TargetError as problem:
        return [error("stamp-impossible", str(problem), problem.hint)]
    found, clocks = list[Finding](), list[int]()
    for place, of_site in ((feed.source_url, stamped.source), (feed.target_url, stamped.target)):
        if of_site:
            async with session(place) as server:
                lacks = await lacking(server, of_site)
                clocks.append(await clock(server))
            found += [error("stamp-missing", f"{place}: {lack.what}", _HINT) for lack in lacks]
    return found + _skewed(feed, clocks)


def _skewed(feed: Feed, clocks: Sequence[int]) -> list[Finding]:
    ahead = clocks[0] - clocks[1] if len(clocks) == 2 else 0
    if abs(ahead) < MOST_SKEW_US:
        return []
    early, late = (feed.source_url, feed.target_url) if ahead > 0 else (feed.target_url, feed.source_url)
    return [
        warning(
            "clock-skew",
            f"the clock of {early} is about {abs(ahead) / 1e6:.0f} s ahead of that of {late}, so its rows win "
            "conflicts that they should not",
            "Keep both servers' clocks right (NTP), and MySQL's and MariaDB's sessions in UTC (time_zone)",
        )
    ]


async def check_stamps_again(feed: Feed) -> list[Finding]:
    """Lists what keeps a run that is not the feed's first from starting; nothing where it compares no stamps.  Raises
    SourceError, TargetError."""
    if stamps_of(feed) is None:
        return []
    async with tables_at(feed.source_url) as source:
        tables = await source.shapes(lambda name: feed.select(name) is not None)
    found = await check_stamps(feed, tables.values(), feed.source_url.dialect, feed.target_url.dialect)
    return [finding for finding in found if finding.level == "error"]


def check_stamped(feed: Feed, pair: CheckedTable) -> list[Finding]:
    """Lists why rows of a table cannot be compared by stamps."""
    columns = stamps_of(feed)
    if columns is None:
        return []
    try:
        require_stamps(Binding(0, pair.source.shape, pair.target), columns)
    except SchemaMismatch as mismatch:
        problem, _, hint = str(mismatch).partition("; ")
        return [error("stamp-impossible", problem, hint[:1].upper() + hint[1:])]
    return []
