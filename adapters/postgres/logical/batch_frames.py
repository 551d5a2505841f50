"""Batches of the log between the capture process and the engine's: bodies of BATCH frames, in msgpack."""

from __future__ import annotations

from typing import Final

import msgspec

from tidelock.adapters.ports.capture_messages import FORMS, Learned
from tidelock.adapters.process.frames import head
from tidelock.engine.model.records import LogBatch, read_extension

BATCH: Final = 0x42
_ENCODER: Final = msgspec.msgpack.Encoder()


def frame(batch: LogBatch) -> bytes:
    """The batch as one frame."""
    body = _ENCODER.encode(batch)
    return head(BATCH, len(body)) + body


def learned_frame(learned: Learned) -> bytes:
    """What was learned of tables, as one frame."""
    body = _ENCODER.encode(learned)
    return head(FORMS, len(body)) + body


class FrameDecoder:
    """A `BatchDecoder` (`adapters.ports.source`)."""

    def __init__(self) -> None:
        self._batch = msgspec.msgpack.Decoder(LogBatch, ext_hook=read_extension)

    def batch(self, kind: int, body: memoryview) -> LogBatch:
        """Decode a frame's body.  `kind`: BATCH."""
        assert kind == BATCH, "frames of other kinds are not batches"
        return self._batch.decode(body)
