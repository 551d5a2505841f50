"""The life of a lane (`adapters.target.lane`), whichever database it is: what runs, what is held, what is cut off."""

from __future__ import annotations

import asyncio

import pytest

from tidelock.adapters.target.lane import BatchLane
from tidelock.engine.protocol.effects import EffectId

BATCH = EffectId(1, 1)


class Unreachable(Exception):
    pass


class Connected:
    def __init__(self) -> None:
        self.alive = True


class Opener:
    """Opens sessions, but for the first `failures` attempts; each waits for `gate` where there is one."""

    def __init__(self, failures: int = 0, gate: asyncio.Event | None = None) -> None:
        self.opened: list[Connected] = []
        self.failures = failures
        self.gate = gate

    async def __call__(self) -> Connected:
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise Unreachable
        self.opened.append(Connected())
        return self.opened[-1]


def lane_of(opener: Opener) -> BatchLane[Connected]:
    return BatchLane(opener, (Unreachable,))


async def test_a_session_is_opened_once_and_again_when_it_is_dead() -> None:
    opener = Opener()
    lane = lane_of(opener)
    first = await lane.ready()
    assert await lane.ready() is first
    first.alive = False
    assert await lane.ready() is not first
    assert len(opener.opened) == 2


async def test_a_session_that_is_opened_ahead_is_waited_for() -> None:
    opener = Opener(gate=asyncio.Event())
    lane = lane_of(opener)
    lane.open_ahead()
    waiting = asyncio.create_task(lane.ready())
    await asyncio.sleep(0)
    assert opener.gate is not None
    opener.gate.set()
    session = await waiting
    assert opener.opened == [session]


async def test_what_goes_wrong_ahead_is_told_to_the_first_batch() -> None:
    lane = lane_of(Opener(failures=2))
    lane.open_ahead()
    with pytest.raises(Unreachable):
        await lane.ready()
    assert (await lane.ready()).alive


async def test_opening_ahead_can_be_stopped() -> None:
    opener = Opener(gate=asyncio.Event())
    lane = lane_of(opener)
    lane.open_ahead()
    await asyncio.sleep(0)
    await lane.stop_opening()
    assert opener.gate is not None
    opener.gate.set()
    await asyncio.sleep(0)
    assert opener.opened == [] and lane.session is None


async def test_who_interrupts_goes_on_when_what_ran_has_ended() -> None:
    lane, steps = lane_of(Opener()), list[str]()
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("ended")

    running = asyncio.create_task(lane.run(BATCH, work()))
    await started.wait()
    assert lane.running and lane.batch == BATCH
    await lane.interrupt()
    steps.append("interrupted")
    assert steps == ["ended", "interrupted"] and not lane.running
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_nothing_that_runs_is_nothing_to_interrupt() -> None:
    lane = lane_of(Opener())
    await lane.interrupt()

    async def answer() -> str:
        return "done"

    assert await lane.run(BATCH, answer()) == "done"
    await lane.interrupt()
    assert not lane.running and lane.batch == BATCH


async def test_a_batch_that_is_cut_off_is_held_no_longer() -> None:
    lane = lane_of(Opener())
    lane.held = True
    piece = asyncio.create_task(lane.run(BATCH, asyncio.Event().wait()))
    await asyncio.sleep(0)
    piece.cancel()
    with pytest.raises(asyncio.CancelledError):
        await piece
    assert not lane.held and not lane.running
