"""Length-prefixed frames between the capture process and the engine's process, over one socket pair.

A frame: 4 bytes little-endian length of the rest, 1 byte of kind, a msgpack body.  Back-pressure is the socket itself:
when the reader does not read, the writer blocks, and so does the source behind it; nothing is queued without a bound.
"""

from __future__ import annotations

import socket
import time
from typing import Final

import msgspec

from tidelock.adapters.config.url import Endpoint
from tidelock.engine.capture.mapping import Rule
from tidelock.engine.model.records import Position

BATCH: Final = 0x42
IMAGES: Final = 0x49
FAILED: Final = 0x46
UNANSWERED: Final = 0x55
LIMIT_BYTES: Final = 1 << 30


class Order(msgspec.Struct, frozen=True):
    """What the capture process is asked to do.  Holds a password: it travels over the socket pair only.

    A batch holds about `chunk_rows` rows, fewer where they are `chunk_bytes` in the source's log.  `images`: its rows
    may be row images, in frames of kind IMAGES (`adapters.mysql.binlog.batch_frames`).  A transaction that stays
    prepared for longer than `patience_seconds` is told in a frame of kind UNANSWERED, and when it is decided too.
    `further`: places that the log must hold besides `start` (`engine.protocol.effects.RequestResend`).
    """

    source: Endpoint
    server_id: int
    rules: tuple[Rule, ...]
    own: str
    node: str
    start: Position
    chunk_rows: int = 500
    chunk_bytes: int = 4 << 20
    heartbeat_seconds: float = 1.0
    images: bool = False
    patience_seconds: float = 600.0
    further: tuple[Position, ...] = ()


class Unanswered(msgspec.Struct, frozen=True):
    """A transaction that the source has prepared and not decided: `since` when, by its clock, in seconds since the
    epoch; 0: there is none any more."""

    xid: str = ""
    since: int = 0

    @property
    def seconds(self) -> float:
        """Seconds since then, by our clock."""
        return max(0.0, time.time() - self.since) if self.xid else 0.0

    def __str__(self) -> str:
        return prepared_for(self.xid, self.seconds)


def prepared_for(xid: str, seconds: float) -> str:
    """In words."""
    return f"XA {xid} is prepared at the source for {seconds / 60:.0f} min: commit it or roll it back"


class Failed(msgspec.Struct, frozen=True):
    """Why the capture process ended: `kind` is the error's class, `message` and `hint` are for the operator."""

    kind: str
    message: str
    hint: str
    retryable: bool


def send(channel: socket.socket, kind: int, body: bytes) -> None:
    channel.sendall((len(body) + 1).to_bytes(4, "little") + bytes((kind,)) + body)


def receive(channel: socket.socket) -> bytes:
    """One frame's body, kind included.  Raises EOFError when the other side is gone."""
    return _exactly(channel, int.from_bytes(_exactly(channel, 4), "little"))


def _exactly(channel: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = channel.recv(min(count, 1 << 20))
        if not part:
            raise EOFError("the other process is gone")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
