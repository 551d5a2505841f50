"""Tunes memory of processes that move rows: when Python's collector runs, and where large buffers go.

Rows in flight are young, many and free of cycles: at the default thresholds the collector would walk them all again and
again.  So it runs rarely.  A machine that is over is a circle of references and may hold all rows that were in flight,
so it is dropped explicitly.

Buffers of megabytes come and go with chunks of the log and texts of batches. glibc learns from the first that is freed
to keep such buffers in its heap, where small objects between them hold the room for good.  With a fixed threshold it
gives each back to the system at once (mallopt(3), M_MMAP_THRESHOLD).

An error whose traceback holds a frame that holds the error is a circle too, and the drivers and asyncio make one of
every connection that fails.  All that its frames hold waits for the collector: with a try every second, each with the
text of its batch, that is much.  So such a circle is cut where a connection is opened.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import traceback
from typing import Final

LARGE_BYTES: Final = 1 << 20
_FEW_OBJECTS: Final = 10_000
_M_MMAP_THRESHOLD: Final = -3


def calm() -> None:
    """Makes the collector skip what is loaded by now and run rarely on the rest; makes freed large buffers go back to
    the system.
    """
    gc.freeze()
    gc.set_threshold(500_000, 20, 100)
    with contextlib.suppress(AttributeError, OSError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)


def tidy() -> None:
    """Makes the collector skip what is loaded by now and run often on the rest: for a process that lives long and keeps
    little.  Each answer that an HTTP server gives leaves some cycles of 10 kB."""
    gc.freeze()
    gc.set_threshold(_FEW_OBJECTS, 10, 10)


def forget() -> None:
    """Frees now what nobody refers to from outside any more."""
    gc.collect()


def cut(error: BaseException) -> None:
    """Clears the finished frames that `error` and its causes came through."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            waiting += [one.__cause__, one.__context__]
