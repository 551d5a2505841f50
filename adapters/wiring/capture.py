"""The capture process as the engine's process sees it: started, told where to read from, read, stopped."""

from __future__ import annotations

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.capture_messages import Failed
from tidelock.adapters.wiring.log_child import LogChild
from tidelock.adapters.wiring.sources import capture_module, source_of
from tidelock.engine.model.records import LogBatch


class CaptureProcess(LogChild):
    """One life of the process, which reads the log of `source`.  It is started before its order is known, so that its
    imports overlap other work."""

    def __init__(self, source: Endpoint) -> None:
        super().__init__(capture_module(source), "capture")
        self._decoder = source_of(source).batch_decoder()  # loaded while the other process loads
        self.frame_bytes = 0  # of the last batch

    async def next(self) -> LogBatch | Failed:
        """Returns the next batch, or why there are no more."""
        frame = await self.message()
        if isinstance(frame, Failed):
            return frame
        kind, body = frame
        self.frame_bytes = len(body)
        return self._decoder.batch(kind, body)
