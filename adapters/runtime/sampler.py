"""Takes samples of a run's machine, a few times a second, for the progress and for HTTP alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from tidelock.adapters.ports.capture_messages import LOG
from tidelock.adapters.runtime.apply_shell import Shell
from tidelock.adapters.runtime.progress import Hindered, Progress, RunState, Sample
from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.apply.status import ApplyStatus

SAMPLE_SECONDS = 0.25
SHOWN_SECONDS = 1.0  # a deadlock, and a lock that is had at the second try, hinder nobody


class Silent(NamedTuple):
    """Seconds for which source and target have not answered."""

    source: float
    target: float
    log: float = 0.0


class Sampler:
    """The sampler of one run.  `latest`: the newest sample."""

    def __init__(
        self,
        machine: ApplyMachine,
        shell: Shell,
        progress: Progress,
        silent: Callable[[], Silent],
        ready_seconds: float,
        with_slot: Callable[[Sample], Sample],
    ) -> None:
        """Takes what is sampled.  `silent`: how long source and target have not answered.  `ready_seconds`: how long is
        too long.  `with_slot`: adds the state of the source's slot.
        """
        self.latest = Sample()
        self._machine = machine
        self._shell = shell
        self._progress = progress
        self._silent = silent
        self._ready_seconds = ready_seconds
        self._with_slot = with_slot

    async def report(self) -> None:
        """Takes samples until it is cancelled."""
        rows, then = 0, time.monotonic()
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            now = time.monotonic()
            seen = self._machine.status()
            if seen is not None:
                self._shell.meters.saved(seen.saved, seen.position)
            sample = sample_of(seen, self._shell, 0.0)
            rate = (sample.rows_total - rows) / (now - then)
            rows, then = sample.rows_total, now
            sample = msgspec.structs.replace(sample, rows_per_second=rate)
            self.latest = self._with_slot(with_silence(sample, self._silent(), self._ready_seconds))
            self._progress.update(self.latest)


def with_silence(sample: Sample, silent: Silent, ready_seconds: float) -> Sample:
    """Returns the sample with the silences, and which side has not answered for too long."""
    named = {"source": silent.source, "target": silent.target, LOG: silent.log}
    return msgspec.structs.replace(
        sample,
        source_silent_seconds=silent.source,
        target_silent_seconds=silent.target,
        unreachable=", ".join(
            f"the {name} has not answered for {seconds:.0f} s"
            for name, seconds in named.items()
            if seconds > ready_seconds
        ),
    )


def sample_of(seen: ApplyStatus | None, shell: Shell, rate: float) -> Sample:
    """Returns a sample of the machine.  `seen`: of the shell's machine."""
    if seen is None:
        return Sample()
    return Sample(
        state=_state(seen, shell),
        rows_total=seen.rows,
        rows_per_second=rate,
        lag_seconds=max(0.0, time.time() - seen.end_us / 1e6) if seen.end_us else None,
        lanes=seen.lanes,
        lock_waits_total=seen.lock_waits,
        locks_held=seen.locks,
        failed_rows=seen.parked,
        batches_total=seen.batches,
        position=str(seen.position),
        alarm=str(shell.halt.alarm) if shell.halt else None,
        retries_total=seen.retries,
        replaced_total=seen.replaced,
        conflicts=tuple((*kind, count) for kind, count in sorted(seen.conflicts.items())),
        restarts=shell.restarts,
        copies=shell.copies.figures(),
        prepared=shell.unanswered.xid,
        prepared_seconds=shell.unanswered.seconds,
        hindrances=_hindrances(seen),
        held=shell.held or shell.throttled,
    )


def _hindrances(seen: ApplyStatus) -> tuple[Hindered, ...]:
    found = seen.hindrances
    seconds = {at: time.monotonic() - one.since / 1e6 for at, one in found.items()}
    return tuple(Hindered(at, seconds[at], one.message) for at, one in found.items() if seconds[at] >= SHOWN_SECONDS)


def _state(seen: ApplyStatus, shell: Shell) -> RunState:
    if shell.halt is not None:
        return "halted"
    if shell.caught_up:
        return "caught up"
    if shell.stopping:
        return "draining"
    if seen.paused:
        if not shell.wished:
            return "held" if shell.held else "paused"
        return "held" if shell.held or shell.throttled else "running"  # between two stretches of a bounded rate
    return "running"
