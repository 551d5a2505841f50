"""Runs the product's commands about a feed for requests, a few at once; equal questions share one run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from tidelock.adapters.api.answers import Done
from tidelock.adapters.api.failures import AWAY, NOT_NOW, ApiError
from tidelock.adapters.process.command_answer import CommandAnswer, Run

READ_SECONDS: Final = 60.0
ACT_SECONDS: Final = 300.0
MOST_BYTES: Final = 8 << 20
AT_ONCE: Final = 4
MOST_WAITING: Final = 32
_REFUSED: Final = 1


class Commands:
    """The commands of all requests.  `tell`: shows a line where `serve` shows its own."""

    def __init__(self, tell: Callable[[str], None], run: Run) -> None:
        self._tell, self._run = tell, run
        self._free = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._asked: dict[tuple[str, ...], asyncio.Task[Done]] = {}
        self._tasks: set[asyncio.Task[Done]] = set()

    async def read(self, command: str, path: Path, options: Sequence[str], row: str = "") -> Any:
        """Returns the JSON of a command that changes nothing.  Raises ApiError."""
        arguments = tuple(line(command, path, options, row))
        task = self._asked.get(arguments)
        if task is None:
            task = self._asked[arguments] = self._begun(arguments, READ_SECONDS)
            task.add_done_callback(lambda _: self._asked.pop(arguments, None))
        return (await asyncio.shield(task)).report

    async def act(self, command: str, path: Path, options: Sequence[str]) -> Done:
        """Carries a command out, also where who asked is gone meanwhile.  Raises ApiError."""
        return await asyncio.shield(self._begun(line(command, path, options), ACT_SECONDS))

    def _begun(self, arguments: Sequence[str], seconds: float) -> asyncio.Task[Done]:
        task = asyncio.create_task(self._done(arguments, seconds))
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[Done]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # which whoever asked has got, unless they are gone

    async def _done(self, arguments: Sequence[str], seconds: float) -> Done:
        if self._waiting >= MOST_WAITING:
            raise ApiError(AWAY, f"{MOST_WAITING} commands wait already: ask again later")
        self._waiting += 1
        try:
            async with self._free:
                answer = await self._run(arguments, seconds, MOST_BYTES)
        except TimeoutError:
            words = f"`tidelock {_words(arguments)}` has not ended within {seconds:.0f} s and was ended"
            raise ApiError(AWAY, f"{words}: look whether the feed's servers answer") from None
        except OSError as error:
            raise ApiError(AWAY, f"No process can be started: {error.strerror or error}") from None
        finally:
            self._waiting -= 1
        return self._judged(arguments, answer)

    def _judged(self, arguments: Sequence[str], answer: CommandAnswer) -> Done:
        report = reported(answer)
        if report is not None:
            return Done(answer.code, msgspec.Raw(report))
        words = _words(arguments)
        if answer.out is None:
            raise ApiError(NOT_NOW, f"`tidelock {words}` tells more than {MOST_BYTES:,} bytes: ask for less of it")
        error = refusal(answer)
        if not error:
            self._tell(f"`tidelock {words}` ended with exit code {answer.code}: {answer.error.strip()}")
            error = f"`tidelock {words}` ended with exit code {answer.code}: what it said is in the output of `serve`"
        raise ApiError(AWAY if answer.code == _REFUSED or answer.code < 0 else NOT_NOW, error)


def line(command: str, path: Path, options: Sequence[str], row: str = "") -> list[str]:
    """Returns the command line; what stands behind `--` in `options` comes last."""
    return [*command.split(), str(path), "--json", *options, *(["--", row] if row else [])]


def reported(answer: CommandAnswer) -> bytes | None:
    """Returns the JSON that a command has printed; None where it has printed none."""
    if not answer.out:
        return None
    try:
        msgspec.json.decode(answer.out)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return answer.out


def refusal(answer: CommandAnswer) -> str:
    """Returns what a command said of why it was not carried out; '' where it has said nothing that is for people."""
    for text in reversed(answer.error.splitlines()):
        try:
            told = msgspec.json.decode(text)
        except msgspec.MsgspecError:
            continue
        if isinstance(told, dict) and isinstance(told.get("error"), str):
            return str(told["error"])
    return ""


def _words(arguments: Sequence[str]) -> str:
    """Returns the command's own words, without its file and options."""
    return " ".join(arguments[: next(n for n, one in enumerate(arguments) if one.startswith("/"))])
