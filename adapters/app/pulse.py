"""Sends a run's sign of life to its target: every few seconds one small UPDATE, on a session of its own.

It has a row of its own too (`tidelock_runs`).  Batches hold the owner's row shared nearly all the time, so a heartbeat
in that row and the batches would wait for each other.  A failure here halts nothing: it shows in `silent_seconds`.

A run that was taken over finds another run's name in the row.  It would learn of the takeover from its next batch,
which the fence rejects; but a run that has nothing to write would go on reading, as the same replica of the source as
its successor.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from tidelock.adapters.bookkeeping.lease import Claim
from tidelock.adapters.bookkeeping.permits import WORD_SECONDS
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.runs import BEAT_SECONDS
from tidelock.adapters.ports.capture_messages import Unanswered

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 10.0
END_SECONDS: Final = 3.0


class Line(Protocol):
    """A session at the target that holds the claim's lock.  Every method raises what its driver raises."""

    async def beat(self, prepared: str, permit: str, lag_us: int | None) -> bool:
        """Renews the sign of life; returns False where the row holds another run's name.  `prepared`, `permit`,
        `lag_us`: for the columns of these names, '' and None for NULL.
        """
        ...

    async def owner(self) -> str:
        """Returns the token in the row, '' where there is none."""
        ...

    async def end(self) -> None:
        """Removes our name from the row, if it is still ours."""
        ...

    def drop(self) -> None:
        """Closes the connection without telling the server."""
        ...


class Pulse:
    """The heartbeat of one run.  Call `begin` before the takeover, which may take long, and `end` when the run is over.
    """

    _displaced: Callable[[], None]
    _prepared: Callable[[], Unanswered]
    _permit: Callable[[], str] | None
    _lag: Callable[[], float | None]

    def __init__(self, feed: Feed, claim: Claim) -> None:
        self._feed = feed
        self.claim = claim
        self._line: Line | None = None
        self._task: asyncio.Task[None] | None = None
        self._answered = time.monotonic()
        self._known = False
        self.unwatch()

    @property
    def silent_seconds(self) -> float:
        """Seconds since the target last answered."""
        return max(0.0, time.monotonic() - self._answered - BEAT_SECONDS)

    def watch(
        self,
        displaced: Callable[[], None],
        prepared: Callable[[], Unanswered],
        permit: Callable[[], str] | None = None,
        lag: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Calls `displaced` once another run's name is in the row.  The results of `prepared`, `permit` and `lag`
        (seconds) go with each sign of life, which is given as often as the sister looks where there is a permit.
        """
        self._displaced, self._prepared, self._permit, self._lag = displaced, prepared, permit, lag

    def unwatch(self) -> None:
        """Ends `watch`: nobody is told of a takeover from now on."""
        self._displaced, self._prepared, self._permit, self._lag = _nothing, Unanswered, None, lambda: None

    def begin(self) -> None:
        """Starts the heartbeat."""
        if self._task is None:
            self._answered = time.monotonic()
            self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def end(self) -> None:
        """Ends the heartbeat and removes our name.  Raises nothing: where the target does not answer, the lease ends by
        itself.
        """
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(END_SECONDS):
                await (await self._open()).end()
        except Exception as error:
            log.warning("feed %s: our name could not be taken away at the target: %s", self._feed.name, _told(error))
        finally:
            self._drop()

    async def _go_on(self) -> None:
        failing = False
        while True:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._beat(await self._open())
                self._answered = time.monotonic()
                failing = False
            except asyncio.CancelledError:
                self._drop()  # its session waits for an answer, and takes no other statement
                raise
            except Exception as error:
                self._drop()
                if not failing:
                    log.warning("feed %s: no sign of life at the target: %s", self._feed.name, _told(error))
                failing = True
            await asyncio.sleep(BEAT_SECONDS if self._permit is None else WORD_SECONDS)

    async def _beat(self, line: Line) -> None:
        prepared = self._prepared()
        permit = "" if self._permit is None else self._permit()
        lag = self._lag()
        lag_us = None if lag is None else round(lag * 1e6)
        if await line.beat(msgspec.json.encode(prepared).decode() if prepared.xid else "", permit, lag_us):
            self._known = True
        elif self._known and await line.owner() not in ("", self.claim.token):
            self._displaced()

    async def _open(self) -> Line:
        if self._line is None:
            if self._feed.target_url.dialect == "postgres":
                from tidelock.adapters.postgres.target.pulse import open_line as postgres

                self._line = await postgres(self._feed.target_url, self.claim)
            else:
                from tidelock.adapters.mysql.target.pulse import open_line as mysql

                self._line = await mysql(self._feed.target_url, self.claim)
        return self._line

    def _drop(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            with contextlib.suppress(Exception):
                line.drop()


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__


def _nothing() -> None:
    """Does nothing."""
