"""MySQL packets from a socket, in large blocks.

PyMySQL logs in; after that its packet layer (a read call and an object a packet) would cost as much as all the
decoding.  `PacketStream` takes the socket over, fills a large buffer and yields each packet as (buffer, start, end): no
copy for packets that are whole in the buffer.  A packet is 3 bytes of length, a sequence number, the payload; one of
16 MiB - 1 goes on in the next.
"""

from __future__ import annotations

import select
import ssl
import time
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import pymysql

Packet: TypeAlias = tuple[bytes, int, int]

_BLOCK: Final = 1 << 18
_LONGEST: Final = 0xFFFFFF


_DUMP: Final = 0x12


def command(connection: pymysql.Connection[Any], number: int, body: bytes) -> None:
    """Sends a command whose answer PyMySQL shall not read."""
    packet = bytes([number]) + body
    connection._write_bytes(len(packet).to_bytes(3, "little") + b"\0" + packet)  # type: ignore[attr-defined]


def dump(connection: pymysql.Connection[Any], body: bytes) -> None:
    """COM_BINLOG_DUMP: offset (4 bytes), flags (2), server id (4), file."""
    command(connection, _DUMP, body)


class Silence(Exception):
    """Nothing arrived for as long as was allowed."""


class PacketStream:
    """`silence_seconds`: how long the server may send nothing."""

    def __init__(self, connection: pymysql.Connection[Any], silence_seconds: float) -> None:
        self._socket = connection._sock  # type: ignore[attr-defined]
        self._socket.setblocking(False)
        self._silence = silence_seconds
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def packets(self) -> Iterator[Packet | None]:
        """Packets; None whenever all that has arrived was given out.  Raises Silence, OSError, EOFError."""
        buffer, at = b"", 0
        while True:
            size = len(buffer)
            while at + 4 <= size:
                length = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
                end = at + 4 + length
                if end > size or length == _LONGEST:
                    break
                yield buffer, at + 4, end
                at = end
            if at + 4 <= size and end <= size:  # so its length is the longest
                whole, buffer, at = self._joined(buffer, at)
                yield whole, 0, len(whole)
                continue
            missing = at + 4 + length - size if at + 4 <= size else 1
            block = self._receive()
            if block is None:
                yield None
                block = self._wait()
            buffer, at = self._extended(buffer[at:] + block, missing - len(block)), 0

    def _joined(self, buffer: bytes, at: int) -> tuple[bytes, bytes, int]:
        """A payload of several packets, and the buffer and place after it."""
        parts = []
        while True:
            while len(buffer) - at < 4:
                buffer, at = self._extended(buffer[at:], 1), 0
            length = int.from_bytes(buffer[at : at + 3], "little")
            missing = at + 4 + length - len(buffer)
            if missing > 0:
                buffer, at = self._extended(buffer[at:], missing), 0
            parts.append(buffer[at + 4 : at + 4 + length])
            at += 4 + length
            if length < _LONGEST:
                return b"".join(parts), buffer, at

    def _extended(self, start: bytes, missing: int) -> bytes:
        parts = [start]
        while missing > 0:
            block = self._receive() or self._wait()
            parts.append(block)
            missing -= len(block)
        return b"".join(parts)

    def _receive(self) -> bytes | None:
        """What has arrived, or None if nothing has."""
        try:
            block: bytes = self._socket.recv(_BLOCK)
        except (BlockingIOError, ssl.SSLWantReadError, InterruptedError):
            return None
        if not block:
            raise EOFError("the server closed the connection")
        return block

    def _wait(self) -> bytes:
        """The next bytes, however long they take."""
        deadline = time.monotonic() + self._silence
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Silence
            self._poll.poll(left * 1000)
            block = self._receive()
            if block is not None:
                return block
