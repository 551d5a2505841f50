"""Forms of the source's tables (`adapters.ports.table_form`) for the publishers of one coordinator.

A publisher begins once those behind the log's end are forgotten.  It learns forms and waits until they are kept at the
target, before it publishes what is behind them: the next one goes on from the log's end, and compares with the forms in
force there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.kept_forms import KeptForms
from tidelock.adapters.operator.store import Books
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.table_form import TableForm
from tidelock.adapters.wiring.session import session
from tidelock.engine.model.records import Position

AGAIN_SECONDS: Final = 1.0


class PublisherForms:
    """`epoch`: the coordinator's; what one that is over would keep is not kept."""

    def __init__(self, feed: Feed, epoch: int) -> None:
        self._feed = feed
        self._kept = KeptForms(feed, COORDINATOR, epoch)
        self._read = False

    async def all(self, checkpoint: Position) -> tuple[TableForm, ...]:
        """Returns those that a reader may need that begins at the checkpoint or behind it.  Raises TargetError."""
        if not self._read:
            async with session(self._feed.target_url) as target:
                await self._kept.read(Books(self._feed, target), checkpoint, ahead=True)
            self._read = True
        return self._kept.all

    async def read_on(self, end: Position) -> None:
        """Forgets those behind the log's end, where a publisher goes on: it learns them once more.  Waits for a target
        that cannot now.  Raises TargetError."""
        await _done(lambda: self._kept.read_on(end))

    async def keep(self, forms: Sequence[TableForm]) -> None:
        """Keeps these too; waits for a target that cannot now.  Raises TargetError."""
        if forms:
            await _done(lambda: self._kept.keep(forms))


async def _done(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while True:
        try:
            await work()
        except TargetError as error:
            if not (error.passing or error.unreachable):
                raise
            await asyncio.sleep(AGAIN_SECONDS)  # back off, not synchronisation
        else:
            return
