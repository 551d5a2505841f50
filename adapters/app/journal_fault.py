"""The fault of a disk that does not take a run's journal."""

from __future__ import annotations

from collections.abc import Callable

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.runtime.apply_shell import Shell
from tidelock.adapters.runtime.progress import Progress


class JournalFault:
    """Lets the feed go on without its journal, or stops it, as the YAML says.  `stopped`: it did."""

    def __init__(self, feed: Feed, shell: Callable[[], Shell | None], progress: Progress) -> None:
        self.stopped = False
        self._feed = feed
        self._shell = shell
        self._progress = progress

    def __call__(self, problem: str) -> None:
        self.stopped = self._feed.journal_fault == "stop"
        then = "the feed stops" if self.stopped else "the feed goes on without it"
        self._progress.message(f"{problem}; {then} (`journal_fault`). What it holds so far can be replayed")
        if self.stopped and (shell := self._shell()) is not None:
            shell.stop()
