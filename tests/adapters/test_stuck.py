"""Tasks that wait where a process should have ended: each is told with its calls."""

import asyncio
from collections.abc import AsyncIterator

from tidelock.adapters.process.stuck import waiting


async def inner(never: asyncio.Event) -> None:
    await never.wait()


async def outer(never: asyncio.Event) -> None:
    await inner(never)


async def parts(never: asyncio.Event) -> AsyncIterator[int]:
    await inner(never)
    yield 1


async def through_parts(never: asyncio.Event) -> None:
    async for _ in parts(never):
        pass


async def test_each_task_is_told_with_the_calls_down_to_where_it_waits() -> None:
    never = asyncio.Event()
    tasks = [
        asyncio.create_task(outer(never), name="the one"),
        asyncio.create_task(through_parts(never), name="the other"),
    ]
    await asyncio.sleep(0)  # each runs until it waits
    told = {line.partition(":")[0]: line for line in waiting()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    calls = [place.split()[-1] for place in told["the one"].partition(": ")[2].split(" > ")]
    assert calls[:3] == ["outer", "inner", "wait"]
    assert "test_stuck.py:" in told["the one"] and "test_stuck.py:" in told["the other"]
    assert not [line for line in told.values() if "waiting" in line], "not the task that asks"
