"""Feeds under a supervisor that starts each anew, as systemd does with `Restart=always`."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

from bench.harness.network import Direction

RESTART_SECONDS: Final = 1.0
POLL_SECONDS: Final = 0.1
SAID_LINES: Final = 3


@dataclasses.dataclass(frozen=True)
class End:
    """`at`: seconds since the start.  `said`: the last lines of its log."""

    at: float
    feed: str
    said: str


class Kept:
    """Context manager: inside all feeds are kept running.  `unasked`: ends that nobody here brought about."""

    def __init__(self, feeds: Iterable[Direction]) -> None:
        self.unasked: list[End] = []
        self.starts = 0
        self._feeds = list(feeds)
        self._due: dict[str, float] = {}
        self._begun = time.monotonic()
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    def __enter__(self) -> Self:
        with self._lock:
            self._due = {feed.name: 0.0 for feed in self._feeds}
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        for feed in self._feeds:
            feed.kill()

    def _supervise(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            with self._lock:
                for feed in self._feeds:
                    self._look(feed)

    def _look(self, feed: Direction) -> None:
        process, now = feed.process, time.monotonic()
        if process is not None and not process.running:
            said = " | ".join(feed.said().rstrip().splitlines()[-SAID_LINES:])
            self.unasked.append(End(round(now - self._begun, 1), feed.name, said))
            feed.process, self._due[feed.name] = None, now + RESTART_SECONDS
        if feed.process is None and now >= self._due[feed.name]:
            feed.run()
            self.starts += 1

    def kill(self, feed: Direction) -> None:
        """SIGKILL to the feed and its children."""
        with self._lock:
            feed.kill()
            feed.process, self._due[feed.name] = None, time.monotonic() + RESTART_SECONDS

    def stop(self) -> None:
        """Ends all in order; they stay down.  Raises TidelockFailed."""
        self._ended.set()
        self._thread.join()
        for feed in self._feeds:
            feed.stop()
