"""The capture process as the engine's process sees it: started, told where to read from, read, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys

import msgspec

from adapters.frames import BATCH, Failed, Order
from engine.records import LogBatch

_BUFFER_BYTES = 4 << 20
_STOP_SECONDS = 5.0


class CaptureProcess:
    """One life of the process.  It is started before its order is known, so that its imports overlap other work."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "adapters.mysql.capture_process", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        theirs.close()
        self._socket = ours
        self._decoder = msgspec.msgpack.Decoder(LogBatch)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    async def begin(self, order: Order) -> None:
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=_BUFFER_BYTES)
        body = msgspec.msgpack.encode(order)
        self._writer.write(len(body).to_bytes(4, "little") + body)
        await self._writer.drain()

    async def next(self) -> LogBatch | Failed:
        """The next batch, or why there are no more."""
        assert self._reader is not None, "begin first"
        try:
            length = int.from_bytes(await self._reader.readexactly(4), "little")
            frame = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await asyncio.to_thread(self._process.wait)
            return Failed(
                "CaptureProcessEnded",
                f"the capture process ended by itself (exit code {code})",
                "It is started again; if that repeats, its last words are on stderr",
                retryable=True,
            )
        body = memoryview(frame)[1:]
        if frame[0] == BATCH:
            return self._decoder.decode(body)
        return msgspec.msgpack.decode(body, type=Failed)

    async def stop(self) -> None:
        """End it and wait until it is gone."""
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(ConnectionError):
                await self._writer.wait_closed()
        else:
            self._socket.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                await asyncio.to_thread(self._process.wait, _STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                await asyncio.to_thread(self._process.wait)
