"""Batches of the log between the capture process and the engine's: bodies of BATCH and IMAGES frames.

BATCH is the whole batch in msgpack.  Where all its rows are row images it goes as IMAGES instead: the length of the
next part (4 bytes, little-endian), the batch without its rows, then the images (`images.pack`), which stay so until
they are wanted (`records.PackedRows`).  Their layouts are made of the shapes that batches announce (`row_layout`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final, cast

import msgspec

from tidelock.adapters.ports.capture_messages import FORMS, Learned
from tidelock.adapters.postgres.logical.row_layout import layout
from tidelock.adapters.process.frames import head
from tidelock.adapters.row_image import images
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import RowChange, read_extension

BATCH: Final = 0x42
IMAGES: Final = 0x49
_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=tuple)
_BATCH: Final = msgspec.msgpack.Decoder(LogBatch, ext_hook=read_extension)


def send(batch: LogBatch, channel: socket.socket, wait: Callable[[], None]) -> None:
    """Sends the batch as one frame, over a channel that does not block.  `wait`: is called while the other side does
    not read, and returns when there is room, or to look again."""
    packed = images.pack(batch.rows) if batch.rows else None
    if packed is None:
        _send(BATCH, (_ENCODER.encode(batch),), channel, wait)
        return
    rowless = _ENCODER.encode(msgspec.structs.replace(batch, rows=()))
    _send(IMAGES, (len(rowless).to_bytes(4, "little"), rowless, packed), channel, wait)


def send_learned(learned: Learned, channel: socket.socket, wait: Callable[[], None]) -> None:
    """Sends what was learned of tables as `send` does a batch."""
    _send(FORMS, (_ENCODER.encode(learned),), channel, wait)


def _send(kind: int, parts: tuple[bytes, ...], channel: socket.socket, wait: Callable[[], None]) -> None:
    left = memoryview(b"".join((head(kind, sum(map(len, parts))), *parts)))
    while left:
        try:
            left = left[channel.send(left) :]
        except BlockingIOError:
            wait()


class FrameDecoder:
    """A `BatchDecoder` (`adapters.ports.source`), of the frames of one capture process: shape numbers mean what it
    said."""

    def __init__(self) -> None:
        self._layouts: dict[int, images.Layout] = {}

    def batch(self, kind: int, body: memoryview) -> LogBatch:
        """Decode a frame's body.  `kind`: BATCH or IMAGES."""
        if kind == BATCH:
            return self._noted(_BATCH.decode(body))
        assert kind == IMAGES, "frames of other kinds are not batches"
        end = 4 + int.from_bytes(body[:4], "little")
        batch = self._noted(_BATCH.decode(body[4:end]))
        batch.rows = cast(tuple[RowChange, ...], images.PackedRows(bytes(body[end:]), self._layouts))
        return batch

    def _noted(self, batch: LogBatch) -> LogBatch:
        for number, shape in batch.shapes.items():
            if (made := layout(number, shape.columns)) is not None:
                self._layouts[number] = made
        return batch
