"""The capture process as the engine's process sees it: started, told where to read from, read, stopped."""

from __future__ import annotations

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.capture_messages import STATEMENTS, Stored
from tidelock.adapters.wiring.log_child import LogChild
from tidelock.adapters.wiring.sources import capture_module, keeps_for_us, source_of
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position


class CaptureProcess(LogChild[LogBatch]):
    """One life of the process, which reads the log of `source`: its messages are batches.  It is started before its
    order is known, so that its imports overlap other work.  `statements`: the log is likely to begin with some."""

    def __init__(self, source: Endpoint, *, statements: bool = False) -> None:
        super().__init__(capture_module(source), "capture", *([STATEMENTS] if statements else []))
        self.decode = source_of(source).batch_decoder().batch  # loaded while the other process loads
        self._listens = keeps_for_us(source)

    def tell_stored(self, position: Position) -> None:
        """Tells it that the target has stored this checkpoint, where that is of use, and it is still there."""
        if self._listens and self.connected:
            self.post(Stored(position))
