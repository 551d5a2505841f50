"""Tasks are ended though a library that they use passes over a cancellation."""

import asyncio
import contextlib

from tidelock.adapters.process.ending import ended


async def closing() -> None:
    """Wait for a task of one's own as aiokafka's clients do when they are closed."""
    own = asyncio.create_task(asyncio.Event().wait())
    own.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await own


async def looking(begun: asyncio.Event) -> None:
    while True:
        begun.set()
        await closing()
        await asyncio.sleep(60)


async def test_a_task_that_lost_its_cancellation_is_cancelled_again() -> None:
    begun = asyncio.Event()
    task = asyncio.create_task(looking(begun))
    await begun.wait()  # it waits for its own task now
    task.cancel()
    await asyncio.wait([task], timeout=0.01)
    assert not task.done(), "it was lost, as what follows takes for granted"
    async with asyncio.timeout(30):
        await ended(task, again=0.01)
    assert task.cancelled()


async def test_what_ends_in_order_is_not_cut_off_and_its_error_is_its_own() -> None:
    closed = list[str]()

    async def orderly() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            closed.append("in order")
            raise ValueError("as it closed")

    task = asyncio.create_task(orderly())
    await asyncio.sleep(0)
    await ended(task, asyncio.create_task(asyncio.sleep(0)))
    assert closed == ["in order"] and isinstance(task.exception(), ValueError)
    await ended()
