"""MySQL packets from a socket, in large blocks.

PyMySQL logs in; after that its packet layer (a read call and an object a packet) would cost as much as all the
decoding.  `PacketStream` takes the socket over and fills a large buffer; a packet is (buffer, start, end), without a
copy if it is whole there.  A packet is 3 bytes of length, a sequence number, the payload; one of 16 MiB - 1 goes on in
the next.
"""

from __future__ import annotations

import select
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import pymysql

Packet: TypeAlias = tuple[bytes, int, int]

_BLOCK: Final = 1 << 18
_SMALL: Final = 1 << 14
"""A block with no more than this behind its first packet is copied: a buffer more would cost as much."""
LONGEST: Final = 0xFFFFFF


_DUMP: Final = 0x12


def command(connection: pymysql.Connection[Any], number: int, body: bytes) -> None:
    """Sends a command whose answer PyMySQL shall not read."""
    packet = bytes([number]) + body
    connection._write_bytes(len(packet).to_bytes(3, "little") + b"\0" + packet)  # type: ignore[attr-defined]


def dump(connection: pymysql.Connection[Any], body: bytes) -> None:
    """COM_BINLOG_DUMP: offset (4 bytes), flags (2), server id (4), file."""
    command(connection, _DUMP, body)


class Silence(Exception):
    """Error that nothing arrived for as long as was allowed."""


class PacketStream:
    """`buffer` holds what has arrived, of which everything before `at` is taken: its reader may take whole packets of
    usual length by itself and move `at`.  `silence_seconds`: how long the server may send nothing."""

    def __init__(self, connection: pymysql.Connection[Any], silence_seconds: float) -> None:
        self.buffer, self.at = b"", 0
        self._ahead: tuple[bytes, int] | None = None  # the block that goes on behind `buffer`, and where
        self._socket = connection._sock  # type: ignore[attr-defined]
        self._socket.setblocking(False)
        self._silence = silence_seconds
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def hand(self, take: Callable[[bytes, int], int]) -> None:
        """Hand what has arrived to `take`, with the place where it begins; it returns where it stopped."""
        self.at = take(self.buffer, self.at)

    def packet(self) -> Packet | None:
        """The next packet, of any length; None if not all of it has arrived.  Raises OSError, EOFError, Silence.

        A packet that has begun and is longer than a block is waited for.
        """
        missing = self._missing()
        if missing > 0:
            block = self._receive()
            if block is None:
                return None
            self._extend(block, missing)
            if self._missing() > 0:
                return None
        start = self.at + 4
        length = int.from_bytes(self.buffer[self.at : start - 1], "little")
        self.at = start + length
        if length < LONGEST:
            return self.buffer, start, self.at
        return self._joined(self.buffer[start : self.at])

    def awaited(self) -> Iterator[Packet]:
        """Packets for ever.  Raises as `packet` and `wait` do."""
        while True:
            if (packet := self.packet()) is not None:
                yield packet
            else:
                self.wait()

    def wait(self) -> None:
        """Returns when more has arrived.  Raises Silence."""
        self._extend(self._awaited(), self._missing())

    def _missing(self) -> int:
        """Bytes until the next packet is whole; at least its header's."""
        if self._ahead is not None and self.at == len(self.buffer):
            (self.buffer, self.at), self._ahead = self._ahead, None
        have = len(self.buffer) - self.at
        if have < 4:
            return 4 - have
        return 4 + int.from_bytes(self.buffer[self.at : self.at + 3], "little") - have

    def _joined(self, first: bytes) -> Packet:
        """A payload that goes on in further packets, up to one that is shorter than the longest."""
        parts = [first]
        while len(parts[-1]) == LONGEST:
            while (missing := self._missing()) > 0:
                self._extend(self._awaited(), missing)
            start = self.at + 4
            self.at = start + int.from_bytes(self.buffer[self.at : self.at + 3], "little")
            parts.append(self.buffer[start : self.at])
        whole = b"".join(parts)
        return whole, 0, len(whole)

    def _extend(self, block: bytes, missing: int) -> None:
        """Puts `block` behind what is left.  Only the packet that is in both is copied: the rest of a large block
        stays where it arrived."""
        left = self.buffer[self.at :]
        if not left:
            self.buffer, self.at = block, 0
            return
        missing = max(missing, 4 + int.from_bytes((left + block[:3])[:3], "little") - len(left))
        if missing + _SMALL < len(block):
            self.buffer, self.at, self._ahead = left + block[:missing], 0, (block, missing)
            return
        parts = [left, block]
        missing -= len(block)
        while missing >= _BLOCK:  # no copy of a long packet for each of its blocks
            block = self._awaited()
            parts.append(block)
            missing -= len(block)
        self.buffer, self.at = b"".join(parts), 0

    def _receive(self) -> bytes | None:
        """Return what has arrived, or None if nothing has."""
        try:
            block: bytes = self._socket.recv(_BLOCK)
        except (BlockingIOError, ssl.SSLWantReadError, InterruptedError):
            return None
        if not block:
            raise EOFError("the server closed the connection")
        return block

    def _awaited(self) -> bytes:
        deadline = time.monotonic() + self._silence
        while (block := self._receive()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Silence
            self._poll.poll(left * 1000)
        return block
