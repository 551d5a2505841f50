"""The capture process of a PostgreSQL source: the log of a feed, read and sent on, in a process of its own.

Started as `python -m tidelock.adapters.postgres.logical.capture_process FD` (`adapters.source.capture_start`).  After
its order the other side sends each checkpoint that the target has stored (`Stored`), which is what the server is told.

The other side may not read for long, because the target is slow.  Then the server goes on hearing of us: nothing here
blocks in a write.
"""

from __future__ import annotations

import select
import socket

from tidelock.adapters.process import light_start  # noqa: F401  # isort: skip

import msgspec

from tidelock.adapters.ports.capture_messages import FAILED, CaptureOrder, Failed, Stored
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.postgres.logical import batch_frames
from tidelock.adapters.postgres.logical.captured_log import CapturedLog
from tidelock.adapters.process.frames import send
from tidelock.adapters.source.capture_start import run

_PIECE = 1 << 20
_STORED = msgspec.msgpack.Decoder(Stored)


def capture(order: CaptureOrder, channel: socket.socket) -> None:
    """Read on until the log fails us; the last frame says why.  Raises OSError, EOFError when the other side is
    gone."""
    log = CapturedLog(order)
    parent = Parent(channel, log)
    try:
        for batch in log.batches(parent):
            parent.tend()
            if learned := log.take_learned():
                batch_frames.send_learned(learned, channel, parent.wait)
            batch_frames.send(batch, channel, parent.wait)
    except SourceError as error:
        channel.setblocking(True)
        send(channel, FAILED, msgspec.msgpack.encode(Failed.of(error)))


class Parent:
    """The process that started this one: takes frames, and sends what it has stored.

    An `Errand` of the reader: what it sends is taken while the log says nothing, too.
    """

    def __init__(self, channel: socket.socket, log: CapturedLog) -> None:
        channel.setblocking(False)
        self._channel = channel
        self._log = log
        self._arrived = bytearray()

    def fileno(self) -> int:
        return self._channel.fileno()

    def run(self) -> None:
        """Takes what has been sent.  Raises EOFError, OSError when the other side is gone, and SourceError."""
        try:
            part = self._channel.recv(_PIECE)
        except BlockingIOError:
            return
        if not part:
            raise EOFError("the other process is gone")
        self._arrived += part
        while len(self._arrived) >= 4:
            end = 4 + int.from_bytes(self._arrived[:4], "little")
            if len(self._arrived) < end:
                return
            stored = _STORED.decode(self._arrived[4:end])
            del self._arrived[:end]
            self._log.note_stored(stored.position)

    def tend(self) -> None:
        """Takes what has been sent, and tends the log.  Raises as `run` does."""
        self.run()
        self._log.tend()

    def wait(self) -> None:
        """Waits until it reads on, or for as long as the log can be left alone, and tends that.  Raises as `run`
        does."""
        readable, _, _ = select.select([self], [self], [], self._log.seconds_left)
        if readable:
            self.run()
        self._log.tend()


if __name__ == "__main__":
    run(capture)
