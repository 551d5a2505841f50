"""Batches of the log between the capture process and the engine's: bodies of BATCH and IMAGES frames.

BATCH is the whole batch in msgpack.  Where all its rows are row images it goes as IMAGES instead: the length of the
next part (4 bytes, little-endian), a batch without its rows and the columns of the tables that are new in it, then the
images as the source sent them (`images.pack`), which stay so until they are wanted (`records.PackedRows`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Final, cast

import msgspec

from tidelock.adapters.mysql.binlog.codecs import WireColumn
from tidelock.adapters.mysql.binlog.row_layout import Columns, layout
from tidelock.adapters.process.frames import head
from tidelock.adapters.row_image import images
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Kind, RowChange, read_extension

BATCH: Final = 0x42
IMAGES: Final = 0x49


class _Rowless(msgspec.Struct, array_like=True):
    batch: LogBatch
    columns: dict[int, tuple[tuple[WireColumn, Kind | None], ...]]


_BATCH: Final = msgspec.msgpack.Decoder(LogBatch, ext_hook=read_extension)
_ROWLESS: Final = msgspec.msgpack.Decoder(_Rowless, ext_hook=read_extension)


class FrameEncoder:
    """`columns`: those of tables whose rows are images, by shape number, as the reader knows them by now."""

    def __init__(self, columns: Callable[[], Mapping[int, Columns]]) -> None:
        self._columns = columns
        self._told = 0  # how many of them, in the order in which the reader met them
        self._encode = msgspec.msgpack.Encoder(enc_hook=tuple).encode

    def frame(self, batch: LogBatch) -> tuple[int, bytes]:
        """The frame's kind and body."""
        kind, parts = self._parts(batch)
        return kind, b"".join(parts)

    def send(self, batch: LogBatch, channel: socket.socket) -> None:
        """Sends the batch as one frame; blocks while the other side does not read."""
        kind, parts = self._parts(batch)
        channel.sendall(b"".join((head(kind, sum(map(len, parts))), *parts)))

    def _parts(self, batch: LogBatch) -> tuple[int, tuple[bytes, ...]]:
        packed = images.pack(batch.rows) if batch.rows else None
        if packed is None:
            return BATCH, (self._encode(batch),)
        columns = self._columns()
        new = {}
        if len(columns) > self._told:
            new = {number: tuple(columns[number]) for number in list(columns)[self._told :]}
            self._told = len(columns)
        rowless = self._encode(_Rowless(msgspec.structs.replace(batch, rows=()), new))
        return IMAGES, (len(rowless).to_bytes(4, "little"), rowless, packed)


class FrameDecoder:
    """Decodes the frames of one capture process: shape numbers mean what it said."""

    def __init__(self) -> None:
        self._layouts: dict[int, images.Layout] = {}

    def batch(self, kind: int, body: memoryview) -> LogBatch:
        """Decode a frame's body.  `kind`: BATCH or IMAGES."""
        if kind == BATCH:
            return _BATCH.decode(body)
        end = 4 + int.from_bytes(body[:4], "little")
        rowless = _ROWLESS.decode(body[4:end])
        for number, columns in rowless.columns.items():
            made = layout(number, columns)
            assert made is not None, "both processes have the same codes"
            self._layouts[number] = made
        rowless.batch.rows = cast(tuple[RowChange, ...], images.PackedRows(bytes(body[end:]), self._layouts))
        return rowless.batch
