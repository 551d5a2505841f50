"""The takeover of a feed by an embedded run, and what the run finds in the bookkeeping then.

A feed that takes tables for the first time is taken over while no other feed of the target does, after one more look
whether one of them brings these (`checks.same_tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.bookkeeping.lease import Overtaken
from tidelock.adapters.checks.same_tables import takes_alone
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator import held_copies, known_tables, start_copy
from tidelock.adapters.operator.adoption import adopted
from tidelock.adapters.operator.copies import resync_pending, without_left
from tidelock.adapters.operator.first_place import place_to_begin
from tidelock.adapters.operator.kept_forms import KeptForms
from tidelock.adapters.operator.store import Books
from tidelock.adapters.ports.sink import Sink
from tidelock.adapters.ports.source import Overview
from tidelock.adapters.wiring.session import session
from tidelock.adapters.wiring.sources import keeps_for_us
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.records import TableName
from tidelock.engine.protocol.events import TakenOver

FORMS_UNKNOWN = (
    "this feed ran with a version that did not keep the forms of the source's tables: where one was changed while the "
    "feed stood still, until now, that is not noticed, and `tidelock verify FEED` shows what differs. From now on it is"
)


class Takeover(msgspec.Struct, frozen=True):
    """`taken`: with the proof of the checkpoint.  `essential`: nothing may be applied before a copy that is queued.
    `left_behind`: as in `engine.model.options`."""

    taken: TakenOver
    forms: KeptForms
    essential: bool
    left_behind: tuple[TableName, ...]


async def take_over(
    feed: Feed,
    source: Overview,
    sink: Sink,
    mapping: Mapping,
    tables: Sequence[TableName],
    tell: Callable[[str], None],
    *,
    begun: bool,
    ours: Callable[[], None],
) -> Takeover:
    """Takes the feed over.  `tables`: of the target.  `begun`: as `place_to_begin` takes it.  `ours`: is called once
    this run has the feed.  Raises SourceError, TargetError, Overtaken."""
    async with takes_alone(feed):
        first_copy = feed.start == "copy" and await start_copy.ask(feed, mapping, source.tables)
        start = await place_to_begin(feed, source, tell, begun=begun)
        taken = await sink.take_over(list(tables), start)
        ours()
        if feed.start != "now" and not first_copy and taken.checkpoint != start:
            tell(f"`start: {feed.start}` is for a first run: goes on at the checkpoint, {taken.checkpoint}")
        forms = KeptForms(feed, 0, taken.epoch)
        async with session(feed.target_url) as target:
            book = Books(feed, target)
            if COORDINATOR in await book.owners():  # workers have begun since we looked, and shut out who came before
                await sink.close()
                raise Overtaken
            left = known_tables.left_behind(await known_tables.keep(book, taken.epoch), feed, tables)
            await held_copies.release(book, mapping, source.tables, tell)
            chunks = await without_left(book, taken.epoch, taken.chunks, tell)
            essential = await resync_pending(book) or first_copy  # whoever resyncs from now on shuts us out
            if not await forms.read(book, taken.checkpoint) and begun and keeps_for_us(feed.source_url):
                tell(FORMS_UNKNOWN)
        checkpoint = await adopted(feed, sink, taken, start, tell)
    return Takeover(msgspec.structs.replace(taken, checkpoint=checkpoint, chunks=chunks), forms, essential, left)
