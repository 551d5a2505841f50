"""The claim of a worker on its name (`--name`), made before it joins Kafka's group: two members of one name would shut
each other out for ever.

A holder answers a claim at once.  One whose process is gone from this machine is not waited for, so that a killed
worker comes back without delay; one elsewhere, or one that stands still, has `ANSWER_SECONDS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec.structs import replace

from tidelock.adapters.bookkeeping.lease import place_of
from tidelock.adapters.kafka.control import WORKER, ControlTopic, News
from tidelock.engine.cluster.name_holder import NameHolder
from tidelock.engine.protocol.worker_names import NameWord

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 4.0
FAREWELL_SECONDS: Final = 1.0  # the broker may be away


class NameTaken(Exception):
    """Another worker has the name; `hint` says what to do."""

    hint = "Give each worker of the feed a name of its own (--name), or end that one first"
    exit_code = 1

    def __init__(self, feed: str, holder: NameWord) -> None:
        since = datetime.fromtimestamp(holder.since_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        super().__init__(
            f"another worker of feed {feed} has the name {holder.name}: on {holder.host} as process {holder.pid} "
            f"since {since}"
        )


class NameClaim:
    """One life's claim on a name.  `lost` is called once if another gets the name."""

    def __init__(self, feed: str, name: str, control: ControlTopic, lost: Callable[[NameTaken], None]) -> None:
        self._feed = feed
        self._control = control
        self._lost = lost
        self._words = control.seen.names.setdefault(name, NameHolder())
        self._mine = NameWord(
            says="claim",
            name=name,
            token=secrets.token_hex(8),
            host=socket.gethostname(),
            pid=os.getpid(),
            since_us=time.time_ns() // 1000,
            place=place_of(os.getpid()),
        )
        self._heard = asyncio.Event()
        self._claimed = False
        self._unwatch: Callable[[], None] = lambda: None
        self._answers: set[asyncio.Task[None]] = set()

    async def hold(self) -> None:
        """Returns once the name is ours.  Raises NameTaken."""
        await self._control.ready.wait()
        self._unwatch = self._control.watch(self._hear)
        await self._say("claim")
        deadline, took = time.monotonic() + ANSWER_SECONDS, False
        while not self._ours:
            holder = self._words.holder
            if self._claimed and self._words.refused(self._mine.token) and holder is not None:
                raise NameTaken(self._feed, holder)
            if not took and (gone(holder) or time.monotonic() > deadline):
                took = True
                await self._say("take")
            self._heard.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._heard.wait(), max(0.1, deadline - time.monotonic()))

    async def leave(self) -> None:
        """Gives the name back, if it is ours."""
        self._stop_hearing()
        if self._ours:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._say("left"), FAREWELL_SECONDS)
        for answer in self._answers:
            answer.cancel()

    @property
    def _ours(self) -> bool:
        return self._words.holder is not None and self._words.holder.token == self._mine.token

    def _hear(self, news: News) -> None:
        if not isinstance(news, NameWord) or news.name != self._mine.name:
            return
        self._heard.set()
        if news.token == self._mine.token:
            self._claimed = True
        elif self._ours and news.says == "claim":
            log.warning("process %d on %s wants the name %s too, and is refused", news.pid, news.host, news.name)
            self._answers.add(asyncio.get_running_loop().create_task(self._say("alive")))
        elif self._claimed and self._words.refused(self._mine.token) and self._words.holder is not None:
            self._stop_hearing()
            self._lost(NameTaken(self._feed, self._words.holder))

    def _stop_hearing(self) -> None:
        unwatch, self._unwatch = self._unwatch, lambda: None
        unwatch()

    async def _say(self, says: Literal["claim", "alive", "take", "left"]) -> None:
        await self._control.write(WORKER + self._mine.name, replace(self._mine, says=says))


def gone(holder: NameWord | None) -> bool:
    """Tells whether the holder's process is known to be gone: it was one of this machine, and is not there."""
    ours = place_of(os.getpid())
    if holder is None or not ours or ours.split()[:2] != holder.place.split()[:2]:
        return False
    return place_of(holder.pid) != holder.place
