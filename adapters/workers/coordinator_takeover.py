"""Takes a feed over for a new coordinator, and finds the log that it goes on with.

The order is what makes it safe: our epoch is committed at the target, which fences older coordinators' statements; the
sole writer of the control topic is opened, which shuts them out there; only then is the topic read.  Whatever is read
after that can no longer change under us.  The publisher's id does the same for the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

import msgspec

from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.checks.refusals import tables_there
from tidelock.adapters.checks.same_tables import takes_alone
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka import control, topics
from tidelock.adapters.kafka.control import ControlTopic, SeenControl, SoleWriter
from tidelock.adapters.operator import known_tables, start_copy
from tidelock.adapters.operator.feed_control import books
from tidelock.adapters.operator.known_target import put_back, raise_epoch, require_known
from tidelock.adapters.ports.sink import Sink, TargetError
from tidelock.adapters.wiring.session import session
from tidelock.adapters.wiring.sources import overview_of
from tidelock.adapters.workers.copy_homes import follow_plan
from tidelock.adapters.workers.lost_log import LostLog, lost, lost_log, places_of
from tidelock.adapters.workers.new_log import fenced, first_log, log_as_it_is, new_log, open_log
from tidelock.adapters.workers.start_position import beginning, require_no_run
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.records import Position
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.coordinator_messages import FeedTaken
from tidelock.engine.protocol.events import TakenOver
from tidelock.engine.protocol.group_reports import GroupReport
from tidelock.engine.protocol.published_log import PublishedLog

log = logging.getLogger(__name__)


class Taken(msgspec.Struct, frozen=True):
    """A feed that was taken over.  `log`: the one that the changes topic holds.  `lost`: why the feed halts at once.
    `reached`: where all groups are at least, as the target has it; what they told may be as old as the topics.
    """

    feed: FeedTaken
    log: PublishedLog
    lost: LostLog | None
    reached: Position | None


class CoordinatorTakeover:
    """One takeover.  `resumed`: the lost log that halted the feed, where an operator has ended that halt: it is
    published again, and then it is None.
    """

    def __init__(
        self,
        feed: Feed,
        mapping: Mapping,
        worker: str,
        control_topic: ControlTopic,
        sink: Sink,
        pen: SoleWriter,
        resumed: LostLog | None,
    ) -> None:
        self._feed = feed
        self._mapping = mapping
        self._worker = worker
        self._control = control_topic
        self._sink = sink
        self._pen = pen
        self.resumed = resumed

    async def run(self) -> Taken:
        """Takes over.  Raises TargetError, SourceError, LogError, KafkaError: nobody coordinates then."""
        loss, again = await self._loss()
        lost_for_good = None if again else loss
        if lost_for_good is None:
            await topics.ensure(self._feed.log_url, self._feed.name, loss.plan.partitions if loss is not None else 1)
        taken, start, reset = await self._fence()
        seen = await control.read(self._feed)
        if seen.plan is not None and (
            reset or put_back(seen.groups.values(), await places_of(self._feed, seen.plan))
        ):
            again = await self._older_target(seen, seen.plan, again=again or lost_for_good is not None)
        if seen.plan is not None:  # whoever stored it may have died before the copies followed
            await follow_plan(self._feed, seen.plan, taken.epoch, await self._still_leaving(seen.plan))
        log, begun = await self._current_log(seen, lost_for_good, again=again)
        self.resumed = None
        reports = await self._reports(seen, stored=begun or lost_for_good is not None)
        if begun and reports:  # the end of the log before is not that of this one
            least = min((report.checkpoint for report in reports), key=lambda place: place.order)
            seen.state = seen.state and msgspec.structs.replace(seen.state, published=least)
        return Taken(
            FeedTaken(
                epoch=taken.epoch,
                worker=self._worker,
                start=start,
                tables=taken.tables,
                partitions=1 if self._feed.consistency == "transaction" else self._feed.partitions,
                ddl_passed=taken.ddl_passed,
                plan=seen.plan,
                feed=seen.state,
                reports=tuple(reports),
            ),
            log,
            lost_for_good,
            await self._reached(seen.plan),
        )

    async def _reached(self, plan: TablePartitioning | None) -> Position | None:
        if plan is None:
            return None
        return min((await places_of(self._feed, plan)).values(), key=lambda place: place.order)

    async def _loss(self) -> tuple[LostLog | None, bool]:
        """Returns the loss of the log, if it is lost, and whether the source is to be published again for it."""
        resumed = self.resumed
        found = await lost_log(self._feed)
        if resumed is not None and found is None:
            found = await lost(self._feed, resumed.plan, resumed.instead, resumed.cut, resumed.short)
        return found, resumed is not None and found is not None and not found.obstacle

    async def _older_target(self, seen: SeenControl, plan: TablePartitioning, *, again: bool) -> bool:
        """Forgets what was told of a target that has been put back to an older state, and returns whether the source is
        to be published again: statements that have run since come once more then.  Where the source has not got them,
        groups read the topic again.  Raises TargetError.
        """
        back = await lost(self._feed, plan)
        log.warning(
            "feed %s: the target is older than what its workers have told of it; it goes on from %s",
            self._feed.name,
            back.least,
        )
        for report in seen.groups.values():  # owners of before still tell of what is no more, or would write
            await raise_epoch(self._feed, report.group, report.epoch + 1)
        seen.state, seen.groups = None, {
            group: _standing(group, place, seen.groups[group].epoch + 1 if group in seen.groups else 0)
            for group, place in back.places.items()
        }
        return again or not back.obstacle

    async def _fence(self) -> tuple[TakenOver, Position, bool]:
        """Shuts every coordinator before us out, at the target and at the control topic.  Returns what the target
        holds, where the feed begins, and whether the target knows of fewer coordinators than there were.
        """
        seen = await control.read(self._feed)
        await require_known(self._feed, seen)
        if seen.plan is None:
            await require_no_run(self._feed)
        async with takes_alone(self._feed):
            if seen.plan is None and self._feed.start == "copy":
                source = await asyncio.to_thread(overview_of, self._feed, first_run=True)
                await start_copy.ask(self._feed, self._mapping, source.tables)
            start = await beginning(self._feed) if seen.plan is None else seen.plan.position
            async with session(self._feed.target_url) as target:
                names = dict.fromkeys(await tables_there(self._feed, target))
            names.update(dict.fromkeys(name for name, _ in seen.plan.tables) if seen.plan else {})
            taken = await self._sink.take_over(list(names), start)
            reset = seen.state is not None and taken.epoch <= seen.state.epoch
            if seen.state is not None and reset:
                await raise_epoch(self._feed, COORDINATOR, seen.state.epoch)
                taken = await self._sink.take_over(list(names), start)
            async with books(self._feed) as book:
                await known_tables.keep(book, taken.epoch, COORDINATOR)
        if seen.plan is None:  # a resync may have moved the feed since it was asked
            await fenced(self._feed, self._mapping, 0, start)  # an embedded run that began just now is over
            start = await beginning(self._feed)
        await self._pen.open()
        failure = await self._sink.settle()
        if failure is not None:
            raise TargetError(f"{self._feed.target_url}: {failure.message}", "It is tried again")
        return taken, start, reset

    async def _still_leaving(self, plan: TablePartitioning) -> Collection[int]:
        """Returns the groups that tables left with this plan, unless the log has gone on behind it."""
        if not plan.left:
            return ()
        async with books(self._feed) as book:
            stored = await book.checkpoints()
        places = [stored[group][0] if group in stored else since for group, since in enumerate(plan.since)]
        return plan.left if any(place.order <= plan.position.order for place in places) else ()

    async def _current_log(
        self, seen: SeenControl, lost_for_good: LostLog | None, *, again: bool
    ) -> tuple[PublishedLog, bool]:
        """Returns the log that the topic holds, and whether it begins here.  `again`: the source is to be published
        again.
        """
        if seen.plan is None:
            return await first_log(self._feed, self._pen, seen.log), False
        if again:
            return await new_log(self._feed, self._mapping, seen.plan, self._pen, self._control), True
        if seen.log is None:
            return (PublishedLog(0) if lost_for_good is not None else await log_as_it_is(self._feed, self._pen)), False
        if not seen.log.is_open and lost_for_good is None:
            return await open_log(self._feed, self._mapping, seen.plan, self._pen, self._control, seen.log), True
        return seen.log, False

    async def _reports(self, seen: SeenControl, *, stored: bool) -> list[GroupReport]:
        """Returns a report of each group, as it told last, or with the checkpoint that the target has (`stored`): that
        may be later.
        """
        if seen.plan is None:
            return list(seen.groups.values())
        places = await places_of(self._feed, seen.plan)
        unheard = [
            _standing(group, place)
            for group, place in places.items()
            if group not in seen.groups
        ]
        told = [
            msgspec.structs.replace(one, checkpoint=places[one.group]) if stored else one
            for one in seen.groups.values()
            if one.group in places
        ]
        return [*told, *unheard]


def _standing(group: int, place: Position, epoch: int = 0) -> GroupReport:
    """Returns what a group would report whose owner, of this epoch at least, has told nothing yet."""
    return GroupReport(group=group, epoch=epoch, worker="", state="", resolved=place, checkpoint=place)
