"""Pace of the demo's shop: it sells while its feed follows, and waits where the feed, or the copy, is far behind.

On a machine with much other work the shop would write faster than its feed applies, or for as long as the copy gets
hardly a processor beside it, and the demo would not end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

MOST_LAG_SECONDS: Final = 5.0
TURN_SECONDS: Final = 0.1


class Pace:
    """`waited`: for how many seconds the shop has."""

    def __init__(self, stop: threading.Event, say: Callable[[str], object], most: float = MOST_LAG_SECONDS) -> None:
        """`stop`: closes the shop, which then waits no more.  `say`: tells whoever looks on, each reason once.  `most`:
        seconds that the feed may be behind."""
        self.waited = 0.0
        self._stop, self._say, self._most = stop, say, most
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._said: set[str] = set()
        self._applied = time.monotonic()

    def look(self, lag: float | None, copy_due: bool = False) -> None:
        """Takes how far the feed is behind, in seconds; None: it does not say, and falls back meanwhile.  `copy_due`:
        the shop has sold what it may before all is copied."""
        now = time.monotonic()
        if lag is not None:
            self._applied = now - lag
        behind = now - self._applied
        if behind > self._most:
            self._wait("feed", f"The feed is {behind:.0f} s behind on this busy machine: the shop waits for it.")
        elif copy_due:
            self._wait("copy", "The shop is quicker than the copy of its rows: it waits until all are copied.")
        else:
            self._goes_on.set()

    def hold(self) -> float:
        """Returns once the shop may go on, or is closed: after how many seconds.  For the shop's thread."""
        begun = time.monotonic()
        while not self._goes_on.wait(TURN_SECONDS) and not self._stop.is_set():
            pass
        waited = time.monotonic() - begun
        self.waited += waited
        return waited

    def _wait(self, reason: str, words: str) -> None:
        self._goes_on.clear()
        if reason not in self._said:
            self._said.add(reason)
            self._say(words)
