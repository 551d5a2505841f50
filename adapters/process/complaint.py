"""A complaint about something that is tried again and again: said once, and again only when there is news.

While a server is away each try fails in the same words a second apart; an operator needs the first of them, and now and
then a sign that it goes on.  Numbers in the words (ports, processes, places) make no news.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Final

AGAIN_SECONDS: Final = 60.0
_NUMBERS: Final = re.compile(r"\d+")


class Complaint:
    """One thing that may fail again and again.  `clock` tells seconds."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._said = ""
        self._began = self._again_at = 0.0

    def tell(self, words: str) -> None:
        """Logs `words` unless they were logged in the last minute."""
        now, bare = self._clock(), _NUMBERS.sub("#", words)
        if bare == self._said and now < self._again_at:
            return
        if not self._said:
            self._began = now
        since = f" (for {now - self._began:.0f} s)" if bare == self._said else ""
        self._said, self._again_at = bare, now + AGAIN_SECONDS
        self._log.warning("%s%s", words, since)

    def over(self) -> None:
        """Notes that it works: the next failure is news."""
        self._said = ""
