"""Shows an operator a feed and takes requests for it, through the bookkeeping at its target.

Nothing here touches a replicated row.  A request is written to the bookkeeping, and the run that owns the feed carries
it out, now or when it is next started.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal, TypeAlias

import msgspec

from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.bookkeeping.tables import Lacking
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.former_words import share
from tidelock.adapters.operator.copies import CopiedTable, copies, staged_tables
from tidelock.adapters.operator.lost_rows import DecidedConflicts, decided_conflicts
from tidelock.adapters.operator.runs import Run
from tidelock.adapters.operator.runs import read as read_run
from tidelock.adapters.operator.scale_out import ScaleOut, least, log_of, scale_out, unbegun
from tidelock.adapters.operator.slot import slot_state
from tidelock.adapters.operator.store import (
    Books,
    FailedRow,
    FailedRowDetail,
    FailedTable,
    Halted,
    never_ran,
)
from tidelock.adapters.operator.upgrade import look, older, tables_of
from tidelock.adapters.ports.capture_messages import Unanswered
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.slot_state import SlotState, missing_slot
from tidelock.adapters.ports.staging import epoch_of
from tidelock.adapters.runtime.progress import Sample
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.engine.model.records import Position
from tidelock.engine.model.schema_change import Ddl

ASK_SECONDS = 2.0
SILENT_SECONDS = 15.0
Activity: TypeAlias = Literal["running", "not running", "halted"]
_SAMPLE: Final = msgspec.json.Decoder(Sample)


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A feed as its target knows it.

    `live`: the sample of a run that answered on `http`.  `run`: the last run that is no worker.  `epoch` 0: the feed
    has never run.  Ages are seconds by the target's clock.  `epoch`, `halted` and `ddl_passed` are of group 0, or of
    the first group that has one; `checkpoint` is the least that a group has stored at the target; `scale_out` tells of
    each.  `staged`: tables in the bookkeeping's schema with chunks on their way; `left_behind`: those of owners that
    are over.  `forms`: of the compiled modules here (`compiled_forms`).  `slot`: as the source itself shows it, where
    it keeps its log for this feed alone.  `conflicts`: rows that lost, by type and outcome.  `parked`: the former name
    of `failed_rows`.
    """

    feed: str
    source: str
    target: str
    epoch: int = 0
    desired_state: str = ""
    halted: Halted | None = None
    ddl_passed: str | None = None
    checkpoint: Position | None = None
    checkpoint_seconds: float | None = None
    receipts: int = 0
    failed_rows: tuple[FailedTable, ...] = ()
    copies: tuple[CopiedTable, ...] = ()
    staged: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()
    live: Sample | None = None
    scale_out: ScaleOut | None = None
    forms: dict[str, str] = {}
    run: Run | None = None
    slot: SlotState | None = None
    conflicts: tuple[DecidedConflicts, ...] = ()
    parked: tuple[FailedTable, ...] = ()

    def __post_init__(self) -> None:
        share(self, failed_rows="parked")

    @property
    def unanswered(self) -> Unanswered:
        """The transaction that the source has prepared for long and not decided, as the reader of its log says."""
        if self.activity != "running":
            return Unanswered()
        if self.scale_out is not None:
            return self.scale_out.prepared
        return self.run.prepared if self.run is not None else Unanswered()

    @property
    def activity(self) -> Activity:
        """The state in one word.  A halt lasts until the next run takes the feed over; a halted feed does not count as
        running.
        """
        if self.halted is not None:
            return "halted"
        if self.scale_out is not None:
            told = self.scale_out.state_seconds
            return "running" if told is not None and told < SILENT_SECONDS else "not running"
        return "running" if self.run is not None and self.run.alive else "not running"

    @property
    def left_over(self) -> tuple[str, ...]:
        """Staging tables that no run fills or merges any more; the next run drops them."""
        if self.activity == "not running":
            return self.staged
        return self.left_behind

    @property
    def slot_gone(self) -> bool:
        """Tells whether the source no longer keeps what the feed would read next.  A slot that is made just now belongs
        to a run.
        """
        if self.slot is None or self.checkpoint is None:
            return False
        return self.slot.lost or (self.slot.missing and self.activity != "running")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of what threatens the feed, each with what to do."""
        if self.slot is None:
            return ()
        if self.slot_gone and self.slot.missing and self.checkpoint is not None:
            return (missing_slot(self.slot.name, self.checkpoint),)
        if self.slot.lost and not self.slot_gone:  # the first run makes it anew
            return ()
        return (self.slot.warning,) if self.slot.warning else ()

    @property
    def needs_operator(self) -> bool:
        """Tells whether the feed has halted, has failed rows, or has lost its slot."""
        return self.halted is not None or bool(self.failed_rows) or self.slot_gone


@asynccontextmanager
async def books(feed: Feed) -> AsyncIterator[Books]:
    """Opens the bookkeeping.  Raises TargetError when the target cannot be reached or holds none."""
    async with session(feed.target_url) as target:
        if (await _missing_bookkeeping(feed, target)).everything:
            raise never_ran(feed)
        yield Books(feed, target)


async def _missing_bookkeeping(feed: Feed, target: TargetSession) -> Lacking:
    """Returns what the bookkeeping lacks.  Raises TargetError where an older version's has no place for our requests.
    """
    lacking = await look(target, feed.schema, tables_of(feed))
    if lacking and not lacking.everything:
        raise TargetError(
            f"{feed.target_url}: {older(feed.schema, lacking)}",
            "`tidelock init --apply FEED` adds them, as does the next `tidelock run`",
        )
    return lacking


async def status(feed: Feed) -> Status:
    """Returns the status of a feed, also of one that has never run (`epoch` 0).  Raises TargetError."""
    seen, slot = await asyncio.gather(_at_target(feed), slot_state(feed))
    return msgspec.structs.replace(seen, slot=slot)


async def _at_target(feed: Feed) -> Status:
    seen = Status(feed=feed.name, source=str(feed.source_url), target=str(feed.target_url))
    async with session(feed.target_url) as target:
        if (await _missing_bookkeeping(feed, target)).everything:
            return seen
        book = Books(feed, target)
        owners, checkpoints = await book.owners(), await book.checkpoints()
        groups = {group: place for group, place in checkpoints.items() if group != COORDINATOR}
        if not owners:  # `init --apply` has stored where it begins
            begins = least(groups)
            return msgspec.structs.replace(seen, checkpoint=begins[0] if begins else None)
        owner = owners.get(0) or next(iter(owners.values()))
        halts = {group: owner.halted for group, owner in owners.items() if owner.halted}
        log = await log_of(feed) if feed.log_url else None
        staged = await staged_tables(book, (group for group in owners if group != COORDINATOR))
        checkpoint = least({**groups, **unbegun(log, groups)})
        return msgspec.structs.replace(
            seen,
            epoch=owner.epoch,
            desired_state=owner.desired_state,
            halted=next(iter(halts.values()), None),
            ddl_passed=owner.ddl_passed,
            checkpoint=checkpoint[0] if checkpoint else None,
            checkpoint_seconds=checkpoint[1] if checkpoint else None,
            receipts=await book.receipts(),
            failed_rows=await book.failed_tables(),
            conflicts=await decided_conflicts(book) if feed.conflicts is not None else (),
            copies=await copies(book),
            staged=tuple(staged),
            left_behind=tuple(name for name, group in staged.items() if epoch_of(name) < owners[group].epoch),
            live=await live_sample(feed),
            run=await read_run(target, feed.schema, feed.name),
            scale_out=scale_out(log, groups, halts, checkpoint) if log is not None else None,
        )


async def set_state(feed: Feed, state: Literal["running", "paused"]) -> None:
    """Sets the desired state.  Resuming a scaled-out feed also restarts groups that have halted: their workers still
    run.
    """
    async with books(feed) as book:
        await book.set_state(state)
        if state == "running" and feed.log_url:
            await book.clear_halts()


async def nobody_runs(feed: Feed) -> str:
    """Returns a hint for an operator whose request nobody will carry out now; '' where a run is there to do it."""
    if feed.log_url is not None:
        return await _no_workers(feed)
    async with session(feed.target_url) as target:
        run = await read_run(target, feed.schema, feed.name)
    if run is not None and run.alive:
        return ""
    return "nobody runs this feed now: it is done once `tidelock run FEED` runs"


async def _no_workers(feed: Feed) -> str:
    from tidelock.adapters.kafka.connection import LogError  # with Kafka's client, which an embedded feed does without
    from tidelock.adapters.kafka.membership import members

    try:
        there = await members(feed.log_url, feed.name)
    except LogError as problem:
        return f"whether workers run is not known: {problem}"
    return "" if there else "no worker runs this feed now: it is done once `tidelock worker FEED` runs"


async def failed_rows(feed: Feed, table: str = "", limit: int = 100) -> list[FailedRow]:
    """Returns the first `limit` failed rows, oldest first; of all tables where `table` is ''.  Raises TargetError."""
    async with books(feed) as book:
        return await book.failed_rows(table, limit)


async def failed_row(feed: Feed, row_id: str) -> FailedRowDetail:
    """Returns one failed row with its values.  Raises TargetError where there is none of that id."""
    async with books(feed) as book:
        return await book.detail(row_id)


async def queue(feed: Feed, what: Literal["retry", "skip"], ids: Sequence[str], table: str = "") -> int:
    """Queues failed rows to be retried or skipped, and returns how many; all of them without `ids` and `table`.

    A retry takes all failed rows of a table together, because later changes of a row fail behind the first: an id
    stands for its table there.
    """
    async with books(feed) as book:
        if not ids:
            return await book.queue_table(table, what)
        details = [await book.detail(row_id) for row_id in ids]
        if what == "skip":
            return sum([await book.queue_row(row_id, what) for row_id in ids])
        tables = sorted({detail.change.table for detail in details})
        return sum([await book.queue_table(name, what) for name in tables])


async def halted(feed: Feed) -> Halted:
    """Returns the halt that needs an operator first.  Raises TargetError where none is halted."""
    async with books(feed) as book:
        return await book.halted()


async def any_halted(feed: Feed) -> bool:
    """Returns whether any group is halted.  Raises TargetError."""
    async with books(feed) as book:
        return any(owner.halt is not None for owner in (await book.owners()).values())


async def halted_group(feed: Feed, group: int) -> bool:
    """Returns whether this group is halted.  Raises TargetError."""
    async with books(feed) as book:
        owner = (await book.owners()).get(group)
        return owner is not None and owner.halt is not None


async def pass_ddl(feed: Feed, *, done: bool = False) -> Ddl:
    """Lets the feed go on behind the statement that halted it.  `done`: the same was done at the target by hand."""
    async with books(feed) as book:
        return await book.pass_ddl(done=done)


async def live_sample(feed: Feed) -> Sample | None:
    """Returns the sample of a run that serves `http`; None where there is none, or it does not answer at once."""
    if feed.http_address is None:
        return None
    return await asyncio.to_thread(_ask, feed)


def _ask(feed: Feed) -> Sample | None:
    from tidelock.adapters.web.own_pages import own_page

    try:
        return _SAMPLE.decode(own_page(feed, "/status", ASK_SECONDS)[1])
    except (OSError, msgspec.MsgspecError):
        return None
