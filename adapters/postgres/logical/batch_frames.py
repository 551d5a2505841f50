"""Batches of the log between the capture process and the engine's: bodies of BATCH frames, in msgpack."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

import msgspec

from tidelock.adapters.process.frames import head
from tidelock.engine.model.records import LogBatch, read_extension

BATCH: Final = 0x42
_ENCODER: Final = msgspec.msgpack.Encoder()


def send(batch: LogBatch, channel: socket.socket, wait: Callable[[], None]) -> None:
    """Sends the batch as one frame, over a channel that does not block.  `wait`: is called while the other side does
    not read, and returns when there is room, or to look again."""
    body = _ENCODER.encode(batch)
    left = memoryview(head(BATCH, len(body)) + body)
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
