"""A schema change that takes long at the target is told of, and does not outlive whoever waits for it."""

from __future__ import annotations

import asyncio

import pytest

from tidelock.adapters.runtime.long_statement import told

STATEMENT = "ALTER TABLE t DROP COLUMN a"


async def test_it_is_told_of_until_it_ends() -> None:
    ended, said = asyncio.Event(), list[str]()

    async def work() -> int:
        await ended.wait()
        return 7

    def say(words: str) -> None:
        said.append(words)
        if len(said) == 2:
            ended.set()

    assert await told(work(), STATEMENT, say, 0.001) == 7
    assert len(said) >= 2
    assert all(words.endswith(STATEMENT) for words in said)


async def test_an_error_of_it_is_raised() -> None:
    async def work() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await told(work(), STATEMENT, print)


async def test_it_ends_with_whoever_waits() -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # as a session that is closed
            left.set()

    waits = asyncio.create_task(told(work(), STATEMENT, print))
    await begun.wait()
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert left.is_set()
