"""The end of a child process (`adapters.process.child`) that speaks with its parent: its socket, and who ends it."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from collections.abc import Iterator

from tidelock.adapters.process.gc_tuning import calm


@contextlib.contextmanager
def parents_channel() -> Iterator[socket.socket]:
    """Opens the socket whose number is the first argument of this process; inside, that the parent is gone is no error.

    A terminal's signals go to the whole group, and the parent decides what they mean, so they are ignored here.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    calm()
    channel = socket.socket(fileno=int(sys.argv[1]))
    try:
        yield channel
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        channel.close()
