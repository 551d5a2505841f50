"""Asks a target what a run must know of it before it takes its feed over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tidelock.adapters.bookkeeping.lease import Claim
from tidelock.adapters.checks.refusals import refusals, tables_there
from tidelock.adapters.checks.same_tables import has_run
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.first_place import has_place
from tidelock.adapters.operator.runs import admitted
from tidelock.adapters.ports.finding import Finding
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import session
from tidelock.adapters.wiring.sources import keeps_for_us
from tidelock.engine.model.records import TableName

_WHEREVER: Final = ("now", "earliest", "copy")
"""Values of `start` that mean another place in the log each time."""
GONE: Final = (
    "the bookkeeping of feed {} at {} is gone, which this run had: the target was put back, or somebody removed it"
)
GONE_HINT: Final = (
    "Put rows and bookkeeping of one moment back, and run it again; else it is a new feed: `start: copy` and "
    "`copy: {existing: replace}` bring all rows anew"
)


class AtTarget(msgspec.Struct, frozen=True):
    """`findings`: why the feed cannot run.  `over`: the run that is over (`Entry.over`).  `tables`: those that the
    feed's rules may mean.  `begun`: it holds a checkpoint, or that is not known: only some sources ask."""

    findings: Sequence[Finding]
    over: str | None
    tables: Sequence[TableName]
    begun: bool


async def ask(feed: Feed, guest: Claim | None, tell: Callable[[str], None], *, had: bool) -> AtTarget:
    """Asks, and makes or completes the bookkeeping where nothing keeps the feed from running.

    `guest`: leaves a live run alone.  `had`: this process has had the feed, which it does not begin anew at another
    place.  Raises TargetError.
    """
    async with session(feed.target_url) as target:
        if had and feed.start in _WHEREVER and not await has_run(feed, target):
            raise TargetError(GONE.format(feed.name, feed.target_url), GONE_HINT)
        findings = await refusals(feed, target)
        over = await admitted(target, guest, tell) if guest and not findings else None
        asks = (keeps_for_us(feed.source_url) or feed.starts_at_moment) and not findings
        begun = not asks or await has_place(feed, target)
        return AtTarget(findings, over, await tables_there(feed, target), begun)
