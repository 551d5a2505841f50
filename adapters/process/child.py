"""A child process that works for this one: started, spoken with in frames over a socket pair, stopped.

It is started before its order is known, so that its imports overlap other work; it ends when its socket closes.
What takes long to import here is imported once it has been started.
"""

from __future__ import annotations

import abc
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec

if TYPE_CHECKING:
    import asyncio

_BUFFER_BYTES = 4 << 20
_STOP_SECONDS = 5.0
Message = TypeVar("Message")


class Ended(msgspec.Struct, frozen=True):
    """The process `name` has ended by itself, with this exit code."""

    name: str
    code: int

    def __str__(self) -> str:
        return f"the {self.name} process ended by itself (exit code {self.code})"


class Started(Protocol):
    """A child process that was started, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def poll(self) -> int | None:
        """Returns its exit code; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Returns its exit code once it has ended.  Raises subprocess.TimeoutExpired."""

    def terminate(self) -> None:
        """Sends SIGTERM."""

    def kill(self) -> None:
        """Sends SIGKILL."""


def in_new_interpreter(module: str, arguments: Sequence[str], handed: socket.socket) -> Started:
    """Starts `python -m module argument …`, which inherits the socket `handed`."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        pass_fds=[handed.fileno()],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )


class Child:
    """A child `python -m module FD [argument …]`, where FD is its end of the socket pair.  `name`: for messages.

    `start`: how all of them are started in this process.
    """

    start: Callable[[str, Sequence[str], socket.socket], Started] = staticmethod(in_new_interpreter)

    def __init__(self, module: str, name: str, *arguments: str) -> None:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        self._process = self.start(module, [str(theirs.fileno()), *arguments], theirs)
        theirs.close()
        self._name = name
        self._socket = ours
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """The child has not ended."""
        return self._process.poll() is None

    @property
    def connected(self) -> bool:
        """Our end of the socket pair is open."""
        return self._writer is not None and not self._writer.is_closing()

    async def connect(self) -> None:
        """Opens our end of the socket pair."""
        import asyncio

        self._reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=_BUFFER_BYTES)

    async def send(self, message: msgspec.Struct) -> None:
        """Sends a message, and waits until it is on its way.  What a child no longer takes, `receive` tells of."""
        assert self._writer is not None, "connect first"
        if self.connected:  # uvloop's transports refuse what is written to them once they are closed
            self.post(message)
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()

    def post(self, message: msgspec.Struct) -> None:
        """Sends without waiting until it is on its way; for messages that are small and rare."""
        assert self._writer is not None, "connect first"
        body = msgspec.msgpack.encode(message)
        self._writer.write(len(body).to_bytes(4, "little") + body)

    async def receive(self) -> tuple[int, memoryview] | Ended:
        """Returns kind and body of the next frame, or that there are no more."""
        import asyncio

        assert self._reader is not None, "connect first"
        try:
            length = int.from_bytes(await self._reader.readexactly(4), "little")
            frame = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return Ended(self._name, await asyncio.to_thread(self._process.wait))
        return frame[0], memoryview(frame)[1:]

    async def stop(self) -> None:
        """Ends the process and waits until it is gone."""
        import asyncio

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


class SpeakingChild(Child, abc.ABC, Generic[Message]):
    """A child whose frames are decoded as they are read.

    `decode`: makes its message of a frame's kind and body, of all kinds but those of `asides`: such a frame is one for
    us, of which a message is made or None.  `frame_bytes`: of the last message.
    """

    decode: Callable[[int, memoryview], Message]

    def __init__(self, module: str, name: str, *arguments: str) -> None:
        super().__init__(module, name, *arguments)
        self.asides: Mapping[int, Callable[[memoryview], Message | None]] = {}
        self.frame_bytes = 0

    @abc.abstractmethod
    def ended(self, how: Ended) -> Message:
        """The message that there are no more."""

    async def next(self) -> Message:
        """Returns the next message."""
        while True:
            frame = await self.receive()
            if isinstance(frame, Ended):
                return self.ended(frame)
            kind, body = frame
            aside = self.asides.get(kind)
            message = self.decode(kind, body) if aside is None else aside(body)
            if message is not None:
                self.frame_bytes = len(body)
                return message
