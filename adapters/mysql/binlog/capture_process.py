"""The capture process of a MySQL or MariaDB source: the log of a feed, read and sent on, in a process of its own.

Started as `python -m tidelock.adapters.mysql.binlog.capture_process FD` (`adapters.source.capture_start`).
"""

from __future__ import annotations

import socket
import sys
from importlib import import_module

from tidelock.adapters.process import light_start  # noqa: F401  # isort: skip

import msgspec

from tidelock.adapters.mysql.binlog.batch_frames import FrameEncoder
from tidelock.adapters.mysql.binlog.captured_log import CapturedLog
from tidelock.adapters.mysql.binlog.probe import prove_receipts
from tidelock.adapters.ports.capture_messages import (
    FAILED,
    FORMS,
    STATEMENTS,
    UNANSWERED,
    CaptureOrder,
    Failed,
    Unanswered,
)
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.process.frames import send
from tidelock.adapters.source.capture_start import run


def capture(order: CaptureOrder, channel: socket.socket) -> None:
    """Read on until the log fails us; the last frame says why.  Raises OSError when the other side is gone."""
    log, told = CapturedLog(order), Unanswered()
    encoder = FrameEncoder(lambda: log.image_columns)
    try:
        if order.sites is not None:
            prove_receipts(order)
        for batch in log.batches():
            if learned := log.take_learned():
                send(channel, FORMS, msgspec.msgpack.encode(learned))
            encoder.send(batch, channel)
            if (now := log.unanswered) != told:
                told = now
                send(channel, UNANSWERED, msgspec.msgpack.encode(told))
    except SourceError as error:
        send(channel, FAILED, msgspec.msgpack.encode(Failed.of(error)))


def load_statements() -> None:
    """Imports what reads statements, before there is an order."""
    import_module("tidelock.adapters.ddl.dropped_database")
    import_module("tidelock.adapters.ddl.shadow_forms")


if __name__ == "__main__":
    if STATEMENTS in sys.argv:
        load_statements()
    run(capture)
