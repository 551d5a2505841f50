"""What processes that move rows do about memory: when Python's collector looks, and where large buffers go.

Rows in flight are young, many and free of cycles: at the default thresholds the collector would walk them all again
and again.  So it looks rarely, and a machine that is over, which is a circle of references and may hold all rows that
were in flight, is let go of by name.

Buffers of megabytes come and go with chunks of the log and texts of batches.  glibc learns from the first that is freed
to keep such ones in its heap, where small objects between them hold the room for good; told a fixed threshold, it gives
each back to the system at once (mallopt(3), M_MMAP_THRESHOLD).

An error whose traceback holds a frame that holds the error is a circle too, and the drivers and asyncio make one of
every connection that fails.  All that its frames hold waits for the collector: a try a second, each with the text of
its batch, is much before that looks.  So such a circle is cut where a connection is opened.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import traceback
from typing import Final

LARGE_BYTES: Final = 1 << 20
_M_MMAP_THRESHOLD: Final = -3


def calm() -> None:
    """What is loaded by now is not looked at again, the rest rarely; large buffers go back when they are freed."""
    gc.freeze()
    gc.set_threshold(500_000, 20, 100)
    with contextlib.suppress(AttributeError, OSError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)


def forget() -> None:
    """Let go of what nobody refers to from outside any more, now."""
    gc.collect()


def cut(error: BaseException) -> None:
    """The frames that `error` and what led to it came through let go of what they hold, those that are over."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            waiting += [one.__cause__, one.__context__]
