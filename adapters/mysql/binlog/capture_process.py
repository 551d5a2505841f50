"""The capture process: the log of a feed, read and sent on, in a process of its own.

Decoding and applying would fight for one interpreter lock; in two processes they overlap.  Started as `python -m
tidelock.adapters.mysql.binlog.capture_process FD`, it waits on the socket FD for its `CaptureOrder`, so that its
start-up overlaps the takeover.  It ends when the log fails it, or when the other side closes the socket.
"""

from __future__ import annotations

import signal
import socket
import sys

from tidelock.adapters.process import light_start  # noqa: F401  # isort: skip

import msgspec

from tidelock.adapters.mysql.binlog.batch_frames import FrameEncoder
from tidelock.adapters.mysql.binlog.captured_log import CapturedLog
from tidelock.adapters.ports.capture_messages import FAILED, UNANSWERED, CaptureOrder, Failed, Unanswered
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.process.frames import receive, send
from tidelock.adapters.process.gc_tuning import calm


def main() -> None:
    """Run the capture process."""
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal's go to the whole group; our parent decides
        signal.signal(number, signal.SIG_IGN)
    calm()
    channel = socket.socket(fileno=int(sys.argv[1]))
    try:
        capture(msgspec.msgpack.decode(receive(channel), type=CaptureOrder), channel)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        channel.close()


def capture(order: CaptureOrder, channel: socket.socket) -> None:
    """Read on until the log fails us; the last frame says why.  Raises OSError when the other side is gone."""
    log, told = CapturedLog(order), Unanswered()
    encoder = FrameEncoder(lambda: log.image_columns)
    try:
        for batch in log.batches():
            encoder.send(batch, channel)
            if (now := log.unanswered) != told:
                told = now
                send(channel, UNANSWERED, msgspec.msgpack.encode(told))
    except SourceError as error:
        send(channel, FAILED, msgspec.msgpack.encode(Failed.of(error)))


if __name__ == "__main__":
    main()
