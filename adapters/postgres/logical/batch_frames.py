"""Batches of the log between the capture process and the engine's: bodies of BATCH frames, in msgpack."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

import msgspec

from tidelock.adapters.ports.capture_messages import FORMS, Learned
from tidelock.adapters.process.frames import head
from tidelock.engine.model.records import LogBatch, read_extension

BATCH: Final = 0x42
_ENCODER: Final = msgspec.msgpack.Encoder()


def send(batch: LogBatch, channel: socket.socket, wait: Callable[[], None]) -> None:
    """Sends the batch as one frame, over a channel that does not block.  `wait`: is called while the other side does
    not read, and returns when there is room, or to look again."""
    _send(BATCH, batch, channel, wait)


def send_learned(learned: Learned, channel: socket.socket, wait: Callable[[], None]) -> None:
    """Sends what was learned of tables as `send` does a batch."""
    _send(FORMS, learned, channel, wait)


def _send(kind: int, told: LogBatch | Learned, channel: socket.socket, wait: Callable[[], None]) -> None:
    body = _ENCODER.encode(told)
    left = memoryview(head(kind, len(body)) + body)
    while left:
        try:
            left = left[channel.send(left) :]
        except BlockingIOError:
            wait()


class FrameDecoder:
    """A `BatchDecoder` (`adapters.ports.source`)."""

    def __init__(self) -> None:
        self._batch = msgspec.msgpack.Decoder(LogBatch, ext_hook=read_extension)

    def batch(self, kind: int, body: memoryview) -> LogBatch:
        """Decode a frame's body.  `kind`: BATCH."""
        assert kind == BATCH, "frames of other kinds are not batches"
        return self._batch.decode(body)
