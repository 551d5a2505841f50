"""The capture process as the engine's process sees it: started, told where to read from, read, stopped."""

from __future__ import annotations

import msgspec

from tidelock.adapters.mysql.binlog.batch_frames import Decoder
from tidelock.adapters.process.child import Child
from tidelock.adapters.process.frames import FAILED, Failed, Order, Unanswered
from tidelock.engine.model.records import LogBatch


class CaptureProcess:
    """One life of the process.  It is started before its order is known, so that its imports overlap other work."""

    def __init__(self) -> None:
        self._child = Child("tidelock.adapters.mysql.binlog.capture_process", "capture")
        self._decoder = Decoder()
        self.frame_bytes = 0  # of the last batch

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def unanswered(self) -> Unanswered:
        """As it told last."""
        return self._child.unanswered

    async def begin(self, order: Order) -> None:
        await self._child.connect()
        await self._child.send(order)

    async def next(self) -> LogBatch | Failed:
        """The next batch, or why there are no more."""
        frame = await self._child.message()
        if isinstance(frame, Failed):
            return frame
        kind, body = frame
        self.frame_bytes = len(body)
        return msgspec.msgpack.decode(body, type=Failed) if kind == FAILED else self._decoder.batch(kind, body)

    async def stop(self) -> None:
        """End it and wait until it is gone."""
        await self._child.stop()
