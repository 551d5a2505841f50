"""The start and the end of a capture process, whichever source it reads.

Decoding and applying would fight for one interpreter lock; in two processes they overlap.  It waits on its socket for
the `CaptureOrder`, so that its start-up overlaps the takeover.  It ends when the log fails it, or when the other side
closes the socket.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

import msgspec

from tidelock.adapters.ports.capture_messages import CaptureOrder
from tidelock.adapters.process.frames import receive
from tidelock.adapters.process.told_by_parent import parents_channel

_ORDER: Final = msgspec.msgpack.Decoder(CaptureOrder)


def run(capture: Callable[[CaptureOrder, socket.socket], None]) -> None:
    """Runs a capture process.  `capture`: reads on until the log fails it, and tells the socket why."""
    with parents_channel() as channel:
        capture(_ORDER.decode(receive(channel)), channel)
