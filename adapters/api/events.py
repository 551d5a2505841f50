"""Server-sent events: all feeds, at first and whenever something about them has changed."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import msgspec
from aiohttp import web

from tidelock.adapters.api.failures import AWAY, ApiError
from tidelock.adapters.api.fleet import Fleet, shown_feeds

TURN_SECONDS: Final = 1.0
COMMENT_SECONDS: Final = 15.0
WRITE_SECONDS: Final = 30.0
MOST_LISTENERS: Final = 32


class Events:
    """The streams of one server.  What is sent is made once a second for all of them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._closing = asyncio.Event()
        self._listeners = 0
        self._made = 0.0
        self._data = self._known = b""

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Sends events until the listener or the server ends.  Raises ApiError where there are too many."""
        if self._listeners >= MOST_LISTENERS:
            raise ApiError(AWAY, f"{MOST_LISTENERS} pages listen already: close one of them")
        self._listeners += 1
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
            await response.prepare(request)
            await self._send(response)
        except (ConnectionError, TimeoutError):
            pass  # the listener is gone, or reads no more
        finally:
            self._listeners -= 1
        return response

    def close(self) -> None:
        """Ends all streams."""
        self._closing.set()

    async def _send(self, response: web.StreamResponse) -> None:
        sent, said = b"", time.monotonic()
        while not self._closing.is_set():
            text = self._latest()
            if text != sent:
                sent, said = text, time.monotonic()
                await _write(response, b"event: feeds\ndata: " + text + b"\n\n")
            elif time.monotonic() - said >= COMMENT_SECONDS:
                said = time.monotonic()
                await _write(response, b": still here\n\n")
            await self._turn()

    async def _turn(self) -> None:
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._closing.wait()
        except TimeoutError:
            pass

    def _latest(self) -> bytes:
        """Returns the feeds as JSON, the same text as long as nothing but the waits of `retry_in` has changed."""
        if not self._data or time.monotonic() - self._made >= TURN_SECONDS / 2:
            self._made = time.monotonic()
            feeds = shown_feeds(self._fleet)
            timeless = msgspec.json.encode([_timeless(one) for one in feeds.feeds])
            if timeless != self._known or not self._data:
                self._known, self._data = timeless, msgspec.json.encode(feeds)
        return self._data


def _timeless(one: msgspec.Struct) -> msgspec.Struct:
    waits = getattr(one, "retry_in", None) is not None
    return msgspec.structs.replace(one, retry_in=0.0) if waits else one


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_SECONDS):
        await response.write(data)
