"""Treats SIGTERM and SIGHUP as Ctrl-C, for commands that start processes of their own and must end them too."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from tidelock.adapters.process.signals import ending


@contextlib.contextmanager
def terminated() -> Iterator[None]:
    """Raises KeyboardInterrupt for each of these signals inside the block."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in ending() if number != signal.SIGINT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
