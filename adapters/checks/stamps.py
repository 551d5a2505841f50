"""Checks whether the tables of a feed with stamps have what those need, at both sites."""

from __future__ import annotations

from collections.abc import Iterable

from tidelock.adapters.checks.checked_table import CheckedTable
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.operator.stamps import lacking, stamped_tables, stamps_of
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.adapters.wiring.session import session
from tidelock.engine.batch.stamp_steps import require_stamps
from tidelock.engine.model.schema import Binding, SchemaMismatch

_HINT = "`tidelock init FEED` prints what makes it, `tidelock init FEED --apply` runs it"


async def check_stamps(
    feed: Feed, tables: Iterable[SourceTable], source: Dialect, target: Dialect
) -> list[Finding]:
    """Lists columns, tombstones and triggers that are missing at either site, or are not as they should be."""
    try:
        stamped = stamped_tables(feed, tables, source, target)
        found = []
        for place, of_site in ((feed.source_url, stamped.source), (feed.target_url, stamped.target)):
            if of_site:
                async with session(place) as server:
                    lacks = await lacking(server, of_site)
                found += [error("stamp-missing", f"{place}: {lack.what}", _HINT) for lack in lacks]
    except TargetError as problem:
        return [error("stamp-impossible", str(problem), problem.hint)]
    return found


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
