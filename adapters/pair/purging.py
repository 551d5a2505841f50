"""Takes tombstones away while `tidelock pair run` runs all feeds of a pair with stamps: as it begins, then hourly.

It waits for rounds as `tidelock tombstones` does (`app.tombstones`), in a thread of its own.  What keeps it from that,
such as a failed row, is told, and tried again an hour later.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from tidelock.adapters.config.pair import Pair, PairFeed
from tidelock.adapters.operator.stamps import stamps_of
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.process.command_process import Tell

PURGE_SECONDS: Final = 3600.0


@contextlib.contextmanager
def purged(pair: Pair, feeds: Sequence[PairFeed], tell: Tell) -> Iterator[None]:
    """Takes tombstones away inside the block, where `feeds` are all feeds of a pair with stamps."""
    if len(feeds) < len(pair.feeds) or any(stamps_of(one.feed) is None for one in feeds):
        yield
        return
    purging = _Purging(feeds, tell)
    purging.begin()
    try:
        yield
    finally:
        purging.end()


class _Purging:
    def __init__(self, feeds: Sequence[PairFeed], tell: Tell) -> None:
        self._feeds, self._tell = [one.feed for one in feeds], tell
        self._thread = threading.Thread(target=asyncio.run, args=(self._until_ended(),), daemon=True)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._thread.start()
        self._ready.wait()

    def end(self) -> None:
        assert self._loop is not None and self._task is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended by an error, which the thread has shown
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    async def _until_ended(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._again_and_again())
        self._ready.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _again_and_again(self) -> None:
        from tidelock.adapters.app.tombstones import purge

        while True:
            try:
                gone = await purge(self._feeds, lambda _: None)
            except (TargetError, SourceError) as error:
                self._tell("", f"tombstones stay: {error}; {error.hint}; tried again in an hour")
            else:
                if count := sum(one.tombstones for one in gone):
                    self._tell("", f"{count:,} tombstones have gone")
            await asyncio.sleep(PURGE_SECONDS)  # until the next purge
