"""A wire that can go silent: a TCP proxy that accepts, keeps every connection open, and forwards nothing for a while.

So a lost route, a stalled firewall or a frozen server look: no connection is refused or ended, and nothing comes.  What
was sent meanwhile is delivered when the wire speaks again, also what a client sent that has given up since: its
transaction may commit then.  Silence in one way alone holds back the answers of a server that does hear.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
import threading
from types import TracebackType
from typing import Final, Self

LOOPBACK: Final = "127.0.0.1"
PIECE_BYTES: Final = 1 << 18


class Way(enum.Enum):
    THERE = "to the server"
    BACK = "from the server"


class Wire:
    """Context manager: `port` on loopback leads to `far`, another port there."""

    def __init__(self, far: int) -> None:
        self._far = far
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"wire to {far}", daemon=True)
        self._speaks = {way: asyncio.Event() for way in Way}
        self._carrying: set[asyncio.Task[None] | None] = set()  # asyncio itself forgets who only waits
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self.speak()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def silence(self, *ways: Way) -> None:
        """From now on nothing passes in `ways`, or in both."""
        for way in ways or Way:
            self._loop.call_soon_threadsafe(self._speaks[way].clear)

    def speak(self) -> None:
        """Let go on what was held back, and all that follows."""
        for way in Way:
            self._loop.call_soon_threadsafe(self._speaks[way].set)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._connected, LOOPBACK, 0, limit=PIECE_BYTES)
        return int(self._server.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        self._server.close()
        carrying = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in carrying:
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The server hears of a connection when the wire speaks; the client has it at once."""
        ends = [writer]
        self._carrying.add(asyncio.current_task())
        try:
            await self._speaks[Way.THERE].wait()
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._far, limit=PIECE_BYTES)
            ends.append(far_writer)
            for end in ends:
                end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(reader, far_writer, self._speaks[Way.THERE]))
                both.create_task(self._carry(far_reader, writer, self._speaks[Way.BACK]))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # an end was reset, or the wire goes: so does the other
        finally:
            self._carrying.discard(asyncio.current_task())
            for end in ends:
                with contextlib.suppress(OSError, RuntimeError):
                    end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, speaks: asyncio.Event) -> None:
        while piece := await reader.read(PIECE_BYTES):
            await speaks.wait()
            writer.write(piece)
            await writer.drain()
        await speaks.wait()  # an end is news like any other
        if writer.can_write_eof():
            writer.write_eof()
