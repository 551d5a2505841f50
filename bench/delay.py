"""A wire with a delay: a TCP proxy that hands every byte on a fixed time after it came, in each direction.

A database in another city is some 10 ms away, and what that costs is waiting, not rate: bytes are kept for their time,
and then sent as fast as the other side takes them.  The proxy is a process of its own, so that it does not share an
interpreter with what is measured.  (Linux would do this with netem, where the kernel has it and the user is root.)

    python -m bench.delay HOST PORT MILLISECONDS      # prints the port it listens at
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
import time
from types import TracebackType
from typing import Final, Self

import uvloop

from bench.harness.servers.guard import guard

LOOPBACK: Final = "127.0.0.1"
PIECE_BYTES: Final = 1 << 18
PIECES_ON_THE_WAY: Final = 4096
STOP_SECONDS: Final = 5.0


class Delay:
    """Context manager: `port` on loopback leads to `host:port`, `milliseconds` away in each direction."""

    def __init__(self, host: str, port: int, milliseconds: float) -> None:
        self._arguments = (host, str(port), str(milliseconds))
        self.port = 0

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "bench.delay", *self._arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        )
        guard.process(self._process.pid, signal.SIGKILL)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.__exit__(None, None, None)
            raise RuntimeError(f"the delaying proxy did not start (exit code {self._process.returncode})")
        self.port = int(line)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        guard.ended(self._process.pid)
        assert self._process.stdout is not None
        self._process.stdout.close()


async def serve(host: str, port: int, seconds: float) -> None:
    """Accept until cancelled; the first line of output is the port."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(host, port, limit=PIECE_BYTES)
        except OSError:
            writer.close()
            return
        for one in (writer, far_writer):
            one.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.gather(_carry(reader, far_writer, seconds), _carry(far_reader, writer, seconds))
        for one in (writer, far_writer):
            one.close()

    server = await asyncio.start_server(connected, LOOPBACK, 0, limit=PIECE_BYTES)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """One direction: pieces in order, each due `seconds` after it came; an end is delayed like any byte.

    By the system's clock: uvloop's own has whole milliseconds and stands still while callbacks run, and its timers may
    ring as much too early.
    """
    on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(PIECES_ON_THE_WAY)

    async def collect() -> None:
        piece = b"?"
        while piece:
            try:
                piece = await reader.read(PIECE_BYTES)
            except OSError:
                piece = b""
            await on_the_way.put((time.monotonic() + seconds, piece))

    collecting = asyncio.create_task(collect())
    with contextlib.suppress(OSError):
        while True:
            due, piece = await on_the_way.get()
            while (wait := due - time.monotonic()) > 0:  # noqa: ASYNC110 (a timer that rang too early)
                await asyncio.sleep(wait)
            if not piece:
                writer.write_eof()  # the other direction may still have something to say
                break
            writer.write(piece)
            await writer.drain()
    collecting.cancel()


def main() -> None:
    host, port, milliseconds = sys.argv[1:]
    uvloop.run(serve(host, int(port), float(milliseconds) / 1000))


if __name__ == "__main__":
    main()
