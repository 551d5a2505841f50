"""Tells whether the target is the one that the log in Kafka is applied to, and whether it is as new as that log says.

The topics are named after the feed alone.  So another file of that name, or this one with another target, finds them
too; and the target may have been put back from a backup since its groups have told how far they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.bookkeeping.tables import OWNER, quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka.control import SeenControl, read
from tidelock.adapters.kafka.topics import changes_topic
from tidelock.adapters.operator.store import Books
from tidelock.adapters.operator.upgrade import look
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import session
from tidelock.engine.model.lineage import server_of
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.group_reports import FeedState, GroupReport


class StrangeTarget(TargetError):
    """The target knows nothing of a feed whose log is in Kafka."""


async def require_known(feed: Feed, seen: SeenControl) -> None:
    """Raises StrangeTarget where the feed has a log in Kafka that was never applied to its target, which whoever made
    the log has noted there before; TargetError."""
    if seen.plan is None:
        return
    async with session(feed.target_url) as target:
        if not (await look(target, feed.schema, (OWNER,))).tables:
            owner = (await Books(feed, target).owners()).get(COORDINATOR)
            if owner is not None and owner.epoch:
                return
    last = f" (worker {seen.state.worker} told of it last)" if seen.state is not None and seen.state.worker else ""
    raise StrangeTarget(
        f"{changes_topic(feed.name)} is the log of a feed {feed.name} that {feed.target_url} knows nothing of{last}",
        "If a feed to another target has that name: give this one another (`feed:`). If the bookkeeping at the target "
        "is lost: `tidelock remove FEED --apply` and what it leaves to you, which ends the log, then begin anew with "
        "`start: copy` and `copy: {existing: replace}`",
    )


async def refuse_strange(feed: Feed) -> None:
    """Raises StrangeTarget, and LogError, before a worker shares the groups of a feed to another target with those that
    have it.  A target that is away says nothing: then each group asks it again, before it is taken over.
    """
    seen = await read(feed)
    try:
        await require_known(feed, seen)
    except StrangeTarget:
        raise
    except TargetError:
        return


async def raise_epoch(feed: Feed, group: int, epoch: int) -> None:
    """Has the group's owners be counted from `epoch` on, where the target counts less.  Raises TargetError."""
    async with session(feed.target_url) as target:
        owner = f"{quote(target.dialect, feed.schema)}.tidelock_owner"
        sql = f"UPDATE {owner} SET epoch = %s WHERE feed = %s AND grp = %s AND epoch < %s"
        await target.execute(sql, epoch, feed.name, group, epoch)


def ahead(state: FeedState | None, checkpoint: Position) -> bool:
    """Tells whether the feed was said to be behind a group's checkpoint, though it is the least of all its groups."""
    return (
        state is not None
        and server_of(state.checkpoint.proof) == server_of(checkpoint.proof)
        and state.checkpoint.order > checkpoint.order
    )


def put_back(reports: Iterable[GroupReport], places: Mapping[int, Position]) -> bool:
    """Tells whether a group has told of a checkpoint behind the one that the target holds: the target was put back to
    an older state since.  `places`: of the groups, read later than the reports.
    """
    return any(
        report.group in places
        and server_of(places[report.group].proof) == server_of(report.checkpoint.proof)
        and places[report.group].order < report.checkpoint.order
        for report in reports
    )
