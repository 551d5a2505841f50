"""`tidelock pair run`: all feeds of a pair, each in its own process, under this one.

A feed that halts ends alone: the others go on, unless their permits close.  One that a signal has killed is started
again.  What ends this process in order ends all feeds in order.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FrameType
from typing import Final

from tidelock.adapters.config.pair import Pair, PairFeed
from tidelock.adapters.pair.runner import Runner
from tidelock.adapters.process.command_process import Tell
from tidelock.adapters.process.gc_tuning import tidy
from tidelock.adapters.process.signals import ending

FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 15.0


def run(pair: Pair, feeds: Sequence[PairFeed], tell: Tell, options: Sequence[str] = ()) -> int:
    """Runs feeds until all have ended; returns the worst exit code.  `options`: of each `tidelock run`."""
    supervisor = _Supervisor(pair, feeds, tell, options)
    tidy()
    with _heard(supervisor.stop):
        return worst(supervisor.watch())


def worst(codes: Sequence[int]) -> int:
    """Returns the exit code that says most: 4 before 1 before 0.  One that a signal ended counts as 1."""
    return max((1 if code < 0 else code for code in codes), default=0)


class _Supervisor:
    def __init__(self, pair: Pair, feeds: Sequence[PairFeed], tell: Tell, options: Sequence[str]) -> None:
        self._tell = tell
        self._ends: queue.SimpleQueue[tuple[str, int] | None] = queue.SimpleQueue()
        self._runners = {
            one.name: Runner(pair, one, tell, options, partial(self._ended, one.name)) for one in feeds
        }
        self._due: dict[str, float] = {}  # feeds that were killed, and when they are started again
        self._delays: dict[str, float] = {}
        self._codes: dict[str, int] = {}
        self._stopping = False

    def _ended(self, name: str, code: int) -> None:
        self._ends.put((name, code))

    def stop(self) -> None:
        """Ends all feeds in order."""
        self._stopping = True
        for runner in self._runners.values():
            runner.stop()
        self._ends.put(None)

    def watch(self) -> list[int]:
        """Starts the feeds, and returns their exit codes once they have ended for good."""
        for runner in self._runners.values():
            runner.start()
        while len(self._codes) < len(self._runners):
            for name in [name for name, due in self._due.items() if due <= time.monotonic() or self._stopping]:
                self._begin_again(name)
            with contextlib.suppress(queue.Empty):
                if (end := self._ends.get(timeout=self._patience())) is not None:
                    self._judge(*end)
        return list(self._codes.values())

    def _patience(self) -> float | None:
        return max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None

    def _begin_again(self, name: str) -> None:
        del self._due[name]
        if self._stopping:
            self._codes[name] = 0
        else:
            self._runners[name].start()

    def _judge(self, name: str, code: int) -> None:
        if code < 0 and not self._stopping:
            delay = self._delays.get(name, FIRST_WAIT_SECONDS)
            self._delays[name] = min(2 * delay, LONGEST_WAIT_SECONDS)
            self._due[name] = time.monotonic() + delay
            self._tell(name, f"killed by signal {-code}: started again in {delay:.0f} s")
            return
        self._codes[name] = code
        if not self._stopping and len(self._codes) < len(self._runners):
            self._tell(name, f"ended with exit code {code}; the other feeds go on")


@contextlib.contextmanager
def _heard(stop: Callable[[], None]) -> Iterator[None]:
    """Calls `stop` for each signal that asks a command to end, inside the block."""

    def told(number: int, frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, told) for number in ending()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
