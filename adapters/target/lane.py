"""The life of a lane: a session that is opened when it is needed, and the batch that it is busy with.

    idle ──run──▶ running ──▶ idle
                   ▲   └────▶ held ──COMMIT, rollback──▶ idle
                   └──run──────┘

A batch that is `held` leaves its transaction open after `run`: pieces may follow, until it is committed or rolled back.
What runs may be interrupted at any moment.  How a session gets out of its transaction is each database's own matter.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, Protocol, TypeVar

from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import BatchReady


class LaneSession(Protocol):
    """A session as a lane sees it."""

    @property
    def alive(self) -> bool:
        """True while the connection is of use."""
        ...


Answer = TypeVar("Answer")
SessionT = TypeVar("SessionT", bound=LaneSession)


class BatchLane(Generic[SessionT]):
    """`session`: None before it is opened and after it was dropped.  `batch`: the last that ran; `held`: it waits for
    COMMIT, its transaction open."""

    def __init__(
        self, open_session: Callable[[], Awaitable[SessionT]], opening_errors: tuple[type[BaseException], ...]
    ) -> None:
        """`opening_errors`: what `open_session` raises where the session cannot be had."""
        self.session: SessionT | None = None
        self.batch: EffectId | None = None
        self.held = False
        self._open_session = open_session
        self._opening_errors = opening_errors
        self._opening: asyncio.Task[None] | None = None
        self._task: asyncio.Task[object] | None = None
        self._stopped = asyncio.Event()

    @property
    def running(self) -> bool:
        """True while work on a batch is under way."""
        return self._task is not None

    def open_ahead(self) -> None:
        """Begin to open the session before there is a batch.  `ready` waits for it, and tells what goes wrong."""
        self._opening = asyncio.create_task(self._open_ahead())

    async def _open_ahead(self) -> None:
        with contextlib.suppress(*self._opening_errors):
            self.session = await self._open_session()

    async def stop_opening(self) -> None:
        """Stop opening the session, if that is under way."""
        if self._opening is not None:
            self._opening.cancel()
            await self._opened()

    async def _opened(self) -> None:
        if self._opening is not None:
            await asyncio.wait([self._opening])
            self._opening = None

    async def ready(self) -> SessionT:
        """Return the lane's session, opened where there is none that is alive.  Raises one of the `opening_errors`."""
        await self._opened()
        if self.session is None or not self.session.alive:
            self.session = await self._open_session()
        return self.session

    async def run(self, batch: EffectId, work: Awaitable[Answer]) -> Answer:
        """Return what `work` on `batch` answers.  Raises CancelledError where it was interrupted or cancelled."""
        self.batch = batch
        self._task = asyncio.current_task()
        self._stopped.clear()
        try:
            return await work
        except asyncio.CancelledError:
            self.abandon()
            raise
        finally:
            self._task = None
            self._stopped.set()

    async def begin(self, batch: EffectId, work: Awaitable[Answer]) -> Answer:
        """Run `work` on a new batch, which is held from then on where the answer is `BatchReady`.  Raises as `run`."""
        assert not self.running and not self.held, f"{batch}: the lane is busy with {self.batch}"
        answer = await self.run(batch, work)
        self.held = isinstance(answer, BatchReady)
        return answer

    async def interrupt(self) -> None:
        """End what runs, if anything does, and return once it has ended."""
        if self._task is not None:
            self._task.cancel()
            await self._stopped.wait()

    def abandon(self) -> None:
        """Work was cut off: the batch is held no longer, and nobody knows what the session is in."""
        self.held = False


def open_ahead(lanes: Iterable[BatchLane[SessionT]]) -> None:
    """Begin to open all their sessions."""
    for lane in lanes:
        lane.open_ahead()
