"""The capture process as the engine's process sees it: started, told where to read from, read, stopped."""

from __future__ import annotations

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.capture_messages import CaptureOrder, Failed, Unanswered
from tidelock.adapters.wiring.log_child import LogChild
from tidelock.adapters.wiring.sources import capture_module, source_of
from tidelock.engine.model.records import LogBatch


class CaptureProcess:
    """One life of the process, which reads the log of `source`.  It is started before its order is known, so that its
    imports overlap other work."""

    def __init__(self, source: Endpoint) -> None:
        self._child = LogChild(capture_module(source), "capture")
        self._decoder = source_of(source).batch_decoder()  # loaded while the other process loads
        self.frame_bytes = 0  # of the last batch

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def unanswered(self) -> Unanswered:
        """The prepared transaction that the process reported last."""
        return self._child.unanswered

    async def begin(self, order: CaptureOrder) -> None:
        """Sends the order."""
        await self._child.connect()
        await self._child.send(order)

    async def next(self) -> LogBatch | Failed:
        """Returns the next batch, or why there are no more."""
        frame = await self._child.message()
        if isinstance(frame, Failed):
            return frame
        kind, body = frame
        self.frame_bytes = len(body)
        return self._decoder.batch(kind, body)

    async def stop(self) -> None:
        """Ends the process and waits until it is gone."""
        await self._child.stop()
