"""Lanes over the control API, of a feed's process that answers, is busy, or is another one by now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.test_api import Fleet, serving
from tests.adapters.test_api import folder as folder  # the fixture
from tidelock.adapters.fleet.member import Member

PATH = "/api/v1/feeds/shop/lanes"


class Runs:
    """A feed's process, of which only its pages are there.  `page`: of its lanes; None: it is too busy to answer."""

    def __init__(self, page: bytes) -> None:
        self.page: bytes | None = page

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if self.page is None:
            await reader.read()  # until whoever asked has given up
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(self.page), self.page))
            await writer.drain()
        writer.close()


@asynccontextmanager
async def running(one: Member) -> AsyncIterator[Runs]:
    """Lets it look as if the feed had a process that serves at its socket."""
    process = Runs(b'{"total_waiting":7,"lanes":[]}')
    one._process, one.starts = process, one.starts + 1  # type: ignore[assignment]
    async with await asyncio.start_unix_server(process.answer, str(one.socket)):
        yield process
    one._process = None
    one.socket.unlink(missing_ok=True)


async def test_a_busy_process_is_shown_as_it_was_and_no_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelock.adapters.fleet.pages.ASK_SECONDS", 0.2)
    fleet = Fleet(folder)
    one = fleet.members[folder / "shop.yaml"]
    async with serving(folder, fleet, None) as client:

        async def asked() -> tuple[int, Any]:
            return await client.ask("GET", PATH)

        async with running(one) as process:
            assert await asked() == (200, {"total_waiting": 7, "lanes": [], "age_seconds": 0.0})
            process.page = None
            status, told = await asked()
            assert (status, told["total_waiting"]) == (200, 7) and told["age_seconds"] >= 0.2
            for page in (b"[]", b"{", b'{"x":"' + b"y" * (1 << 20) + b'"}'):
                process.page = page
                status, told = await asked()
                assert status == 503 and "what is no JSON object" in told["error"]
        assert (await asked())[0] == 503, "it runs no more"
        async with running(one) as process:
            process.page = None
            status, told = await asked()
            assert status == 503 and "is busy" in told["error"], "another process has told nothing yet"
            process.page = b'{"total_waiting":0}'
            assert await asked() == (200, {"total_waiting": 0, "age_seconds": 0.0})
