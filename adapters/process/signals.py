"""The signals that ask a long-running command to end: SIGTERM, Ctrl-C, and SIGHUP of a terminal that is closed.

A command that is started with SIGHUP ignored (`nohup`) goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator


def ending() -> list[signal.Signals]:
    """Returns the signals that end this process."""
    wanted = [signal.SIGTERM, signal.SIGINT]
    return wanted if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [*wanted, signal.SIGHUP]


@contextlib.contextmanager
def heard(stop: Callable[[], object]) -> Iterator[None]:
    """Calls `stop` in the running loop for each of these signals inside the block."""
    loop = asyncio.get_running_loop()
    numbers = ending()
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
