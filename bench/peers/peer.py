"""Protocol of a system of the comparison: it can catch up with its backlog again and again, and be checked each time.

A system is a context manager.  Inside, its servers run and its backlog is committed; what it needs besides them is
started for its turn alone, so that it takes no processor time from the others.  The time of a turn is what an operator
waits for: from the start of the replicator on empty tables until every row is visible at the target.  Each system's
module says what exactly starts and stops its clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, Self

from bench.harness.compare import compare

CATCH_UP_SECONDS = 600.0
POLL_SECONDS = 0.005


class PeerMissing(RuntimeError):
    """A system's tools are not on this machine and could not be had; the text says why and what would help."""


class PeerFailed(RuntimeError):
    """A system stopped before its backlog ended, or ended with other rows than its source; the text says how."""


class Peer(AbstractContextManager["Peer"], Protocol):
    """One system.  `changes`: row changes in its backlog."""

    changes: int

    def __enter__(self) -> Self: ...

    def catch_up(self) -> float:
        """Seconds of a turn, from empty tables.  Raises PeerFailed."""

    def verify(self) -> None:
        """Compare the target with the source row by row.  Raises PeerFailed where any differs."""


def verify(source: str, target: str, tables: Sequence[str]) -> None:
    """`source`, `target`: URLs.  `tables`: full names, the same on both sides.  Raises PeerFailed."""
    differences = compare(source, target, tables)
    if differences.total:
        raise PeerFailed(f"{differences.total} rows differ from the source's\n{differences}")


def until(done: Callable[[], bool], failed: Callable[[], str], begun: float) -> float:
    """Seconds since `begun` (of `time.perf_counter`) once `done`.

    `failed`: why it will never be done, or empty.  Raises PeerFailed, also after CATCH_UP_SECONDS.
    """
    while not done():
        if why := failed():
            raise PeerFailed(why)
        if time.perf_counter() - begun > CATCH_UP_SECONDS:
            raise PeerFailed(f"it was not done after {CATCH_UP_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)
    return time.perf_counter() - begun
