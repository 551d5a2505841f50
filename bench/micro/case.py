"""A microbenchmark: a piece of work on rows that are ready in memory, done again and again.

CPU time of the working thread is what counts: a stage that waits for nothing then costs the same on a busy machine.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec


class Case(msgspec.Struct, frozen=True):
    """`prepare()` makes what one call of `work` takes and is not timed.

    `rows`: handled by one call.  `octets`: in what the stage reads or writes (log, record, statement), by one call; 0:
    the stage only moves references.
    """

    rows: int
    work: Callable[[Any], object]
    prepare: Callable[[], Any] = lambda: None
    octets: int = 0


Factory: TypeAlias = Callable[[], Case]


def cpu_seconds(case: Case, calls: int) -> float:
    """CPU time of `calls` calls, each on input of its own."""
    total = 0.0
    for _ in range(calls):
        given = case.prepare()
        begun = time.thread_time()
        case.work(given)
        total += time.thread_time() - begun
    return total


def held(case: Case) -> int:
    """The most memory that one call holds above what it was given, in bytes."""
    given = case.prepare()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        case.work(given)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
