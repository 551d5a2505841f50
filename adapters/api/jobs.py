"""Jobs: commands that take longer than an answer may.  The last ones are kept with their reports.

Memory is bounded: by how many run, how many are kept, and how long a report may be.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tidelock.adapters.api.answers import Job
from tidelock.adapters.api.commands import refusal, reported
from tidelock.adapters.api.failures import NOT_NOW, UNKNOWN, ApiError
from tidelock.adapters.process.command_answer import CommandAnswer, Run

JOB_SECONDS: Final = 7 * 86_400.0
AT_ONCE: Final = 8
KEPT: Final = 40
MOST_BYTES: Final = 1 << 20


class Jobs:
    """The jobs of one `serve`.  `folder`: of its own, for the reports that verify writes.  `run`: runs a command."""

    def __init__(self, folder: Path, tell: Callable[[str], None], run: Run) -> None:
        """`tell`: shows a line where `serve` shows its own."""
        self._folder, self._tell, self._run = folder, tell, run
        self._numbers = itertools.count(1)
        self._jobs: dict[int, Job] = {}
        self._tasks: dict[int, asyncio.Task[Job]] = {}

    def begin(self, feed: str, command: str, arguments: Sequence[str], by: str) -> int:
        """Begins a job and returns its number.  Raises ApiError where it cannot begin now."""
        running = [self._jobs[number] for number in self._tasks]
        if any(one.feed == feed and one.command == command for one in running):
            raise ApiError(NOT_NOW, f"A job of `{command}` runs for {feed} already")
        if len(running) >= AT_ONCE:
            raise ApiError(NOT_NOW, f"{len(running)} jobs run already: wait until one of them has ended")
        self._forget()
        number = next(self._numbers)
        job = Job(id=number, feed=feed, command=command, state="runs", by=by, began=time.time())
        written = [f"--report={self._report(number)}"] if command == "verify" else []
        self._jobs[number] = job
        self._tasks[number] = task = asyncio.create_task(self._carried_out(job, [*arguments, *written]))
        task.add_done_callback(lambda done: self._over(number, done))
        return number

    def all(self) -> list[Job]:
        """Returns all jobs, the newest first, without reports."""
        return [msgspec.structs.replace(one, report=None) for one in reversed(self._jobs.values())]

    def job(self, number: int) -> Job:
        """Returns one job.  Raises ApiError."""
        found = self._jobs.get(number)
        if found is None:
            raise ApiError(UNKNOWN, f"There is no job {number}: the last {KEPT} that have ended are kept")
        return found

    def differences(self, feed: str, number: int) -> Path:
        """Returns the file of what a job of verify found, of the feed's newest one where `number` is 0.

        Raises ApiError.
        """
        of_feed = [one for one in self._jobs.values() if one.feed == feed and one.command == "verify"]
        done = [one.id for one in of_feed if one.state == "done" and self._report(one.id).exists()]
        if number and number not in done:
            raise ApiError(NOT_NOW, f"The job {number} is no job of `verify` that is done and was for {feed}")
        if not done:
            raise ApiError(NOT_NOW, f"No job of `verify` is done for {feed}: begin one first")
        return self._report(number or done[-1])

    async def end(self, number: int) -> Job:
        """Ends a job's command, and returns what became of it.  Raises ApiError."""
        self.job(number)
        if (task := self._tasks.get(number)) is not None:
            task.cancel()
        return await self.over(number)

    async def over(self, number: int) -> Job:
        """Returns a job once it has ended.  Raises ApiError."""
        if (task := self._tasks.get(number)) is not None:
            await asyncio.wait([task])
        return self.job(number)

    async def _carried_out(self, job: Job, arguments: Sequence[str]) -> Job:
        try:
            return self._judged(job, await self._run(arguments, JOB_SECONDS, MOST_BYTES))
        except TimeoutError:
            return _failed(job, f"It has not ended within {JOB_SECONDS / 86_400:.0f} days, and was ended")
        except OSError as error:
            return _failed(job, f"No process can be started: {error.strerror or error}")

    def _over(self, number: int, task: asyncio.Task[Job]) -> None:
        del self._tasks[number]
        ended = _failed(self._jobs[number], "It was ended before it was done") if task.cancelled() else task.result()
        self._jobs[number] = msgspec.structs.replace(ended, ended=time.time())

    def _judged(self, job: Job, answer: CommandAnswer) -> Job:
        job = msgspec.structs.replace(job, exit_code=answer.code)
        if (report := reported(answer)) is not None:
            return msgspec.structs.replace(job, state="done", report=msgspec.Raw(report))
        if answer.out is None:
            return _failed(job, f"Its report is longer than {MOST_BYTES:,} bytes: run the command itself to see it")
        if error := refusal(answer):
            return _failed(job, error)
        self._tell(f"job {job.id}, `tidelock {job.command}`, exit code {answer.code}: {answer.error.strip()}")
        return _failed(job, f"It ended with exit code {answer.code}: what it said is in the output of `serve`")

    def _forget(self) -> None:
        """Forgets the oldest that have ended, with what they have written."""
        over = [number for number in self._jobs if number not in self._tasks]
        for number in over[: max(len(over) - KEPT, 0)]:
            del self._jobs[number]
            self._report(number).unlink(missing_ok=True)

    def _report(self, number: int) -> Path:
        return self._folder / f"verify-{number}.json"


def _failed(job: Job, error: str) -> Job:
    return msgspec.structs.replace(job, state="failed", error=error)
