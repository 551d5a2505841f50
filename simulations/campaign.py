"""A campaign: a trial for each of many seeds, over several processes.

Workers are fresh interpreters (spawned, not forked): none inherits what another has, each has its own hash seed, and
each sees the end of its pipe when this process dies.  Seeds go out in chunks, so that progress is smooth; what comes
back are sums, which do not depend on who ran what.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Protocol, TypeAlias

import msgspec

CHUNK = 50
KEPT_FAILURES = 1_000
_DIGEST = 1 << 64



class Ran(Protocol):
    """Counts that a campaign takes of a trial."""

    @property
    def mistake(self) -> str: ...

    @property
    def faults(self) -> int: ...

    @property
    def changes(self) -> int: ...

    @property
    def coverage(self) -> Mapping[str, int]: ...

    @property
    def digest(self) -> int: ...


Attempt: TypeAlias = Callable[[int], Ran]


class Died(RuntimeError):
    """A worker ended by itself; the text names the seeds that it had."""


class Failure(msgspec.Struct, frozen=True):
    seed: int
    mistake: str


class Tally(msgspec.Struct):
    """Result of many trials.

    `failed`: how many made a mistake; `failures`: those of them with the lowest seeds, in order of their seeds.
    `fewest_changes`, `fewest_faults`: of any one run (-1: none ran).
    `digest`: the sum of the trials' digests, which is the same in any order; `seconds`: wall time.
    """

    runs: int = 0
    failed: int = 0
    failures: list[Failure] = []
    changes: int = 0
    faults: int = 0
    fewest_changes: int = -1
    fewest_faults: int = -1
    coverage: Counter[str] = msgspec.field(default_factory=Counter)
    digest: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Runs a second of wall time."""
        return self.runs / self.seconds if self.seconds else 0.0

    def count(self, seed: int, trial: Ran) -> None:
        failures = [Failure(seed, trial.mistake)] if trial.mistake else []
        self.add(
            Tally(
                1,
                len(failures),
                failures,
                trial.changes,
                trial.faults,
                trial.changes,
                trial.faults,
                Counter(trial.coverage),
                trial.digest,
            )
        )

    def add(self, other: Tally) -> None:
        self.runs += other.runs
        self.failed += other.failed
        self.failures = sorted(self.failures + other.failures, key=lambda f: f.seed)[:KEPT_FAILURES]
        self.changes += other.changes
        self.faults += other.faults
        self.fewest_changes = _least(self.fewest_changes, other.fewest_changes)
        self.fewest_faults = _least(self.fewest_faults, other.fewest_faults)
        self.coverage.update(other.coverage)
        self.digest = (self.digest + other.digest) % _DIGEST


def run(
    attempt: Attempt,
    first: int,
    seeds: int,
    *,
    jobs: int = 1,
    told: Callable[[Tally], None] = lambda _tally: None,
    first_failure: bool = False,
    chunk: int = CHUNK,
) -> Tally:
    """`attempt` on `seeds` seeds from `first` on; with more than one job it must be something that can be pickled.

    `told` hears after each chunk.  `first_failure`: hand out no more seeds once one has failed.  Raises Died.
    However this ends, no worker is left.
    """
    begun = time.perf_counter()
    tally = Tally()
    ranges = [range(at, min(at + chunk, first + seeds)) for at in range(first, first + seeds, chunk)]
    parts = _alone(attempt, ranges) if jobs == 1 or len(ranges) == 1 else _shared(attempt, ranges, jobs)
    with contextlib.closing(parts):
        for part in parts:
            tally.add(part)
            tally.seconds = time.perf_counter() - begun
            told(tally)
            if first_failure and tally.failed:
                break
    return tally


def _least(one: int, other: int) -> int:
    return max(one, other) if min(one, other) < 0 else min(one, other)


def _alone(attempt: Attempt, ranges: Sequence[range]) -> Generator[Tally, None, None]:
    return (_tallied(attempt, seeds) for seeds in ranges)


def _tallied(attempt: Attempt, seeds: range) -> Tally:
    """Worlds are full of cycles: one collection for all of them is cheaper than one every few steps."""
    tally = Tally()
    gc.disable()
    for seed in seeds:
        tally.count(seed, attempt(seed))
    gc.enable()
    gc.collect()
    return tally


# ---------------------------------------------------------------------- several processes


class _Worker:
    """A process and the chunk it has."""

    def __init__(self, attempt: Attempt) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(attempt, theirs), daemon=True)
        self._seeds = range(0)
        with _unstoppable():
            self._process.start()
        theirs.close()

    def give(self, seeds: range) -> None:
        """Raises Died."""
        self._seeds = seeds
        with self._noticing_death():
            self.pipe.send(seeds)

    def take(self) -> Tally:
        """Returns what the worker made of its chunk.  Raises Died."""
        with self._noticing_death():
            tally: Tally = self.pipe.recv()
        return tally

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()

    @contextlib.contextmanager
    def _noticing_death(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError):
            self._process.join()
            seeds, code = self._seeds, self._process.exitcode
            raise Died(f"the process that ran seeds {seeds[0]} to {seeds[-1]} ended with code {code}") from None


def _shared(attempt: Attempt, ranges: Sequence[range], jobs: int) -> Generator[Tally, None, None]:
    waiting = iter(ranges)
    workers: list[_Worker] = []
    try:
        busy: dict[Connection, _Worker] = {}
        for _, seeds in zip(range(jobs), waiting, strict=False):
            workers.append(_Worker(attempt))
            workers[-1].give(seeds)
            busy[workers[-1].pipe] = workers[-1]
        while busy:
            ready = wait(list(busy))
            for pipe in [pipe for pipe in busy if pipe in ready]:
                tally = busy[pipe].take()
                if (more := next(waiting, None)) is not None:
                    busy[pipe].give(more)
                else:
                    del busy[pipe]
                yield tally
    finally:
        for worker in workers:
            worker.end()


def _work(attempt: Attempt, pipe: Connection) -> None:
    """The process of a worker: chunks in, tallies out, until the pipe ends."""
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send(_tallied(attempt, pipe.recv()))


@contextlib.contextmanager
def _unstoppable() -> Iterator[None]:
    """A process started meanwhile never hears Ctrl-C or SIGTERM: its parent answers those.  Here they come late."""
    resource_tracker.ensure_running()  # starting it would let them through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
