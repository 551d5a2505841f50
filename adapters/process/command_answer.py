"""The answer of a `tidelock` command: runs it to its end in a process of its own, within bounds of time and memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidelock.adapters.process.command_process import command_line, die_with_parent, environment

END_SECONDS: Final = 15.0
_ERROR_BYTES: Final = 64 << 10
_PIECE_BYTES: Final = 64 << 10


class CommandAnswer(NamedTuple):
    """The output of a command, and its exit code.  `out`: None where it was more than was asked for.  `error`: the last
    part of what it wrote on stderr.
    """

    code: int
    out: bytes | None
    error: str


Run: TypeAlias = Callable[[Sequence[str], float, int], Awaitable[CommandAnswer]]
"""Runs a command as `command_answer` does."""


async def command_answer(arguments: Sequence[str], seconds: float, most_bytes: int) -> CommandAnswer:
    """Runs a command.  It is ended where this is cancelled, or takes longer.  Raises TimeoutError, OSError.

    The thread that calls this must live as long as the command: the kernel ends the process with it.
    """
    process = await asyncio.create_subprocess_exec(
        *command_line(arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
        preexec_fn=die_with_parent,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(seconds):
            out, error = await asyncio.gather(_first(process.stdout, most_bytes), _last(process.stderr))
            return CommandAnswer(await process.wait(), out, error.decode(errors="replace"))
    finally:
        await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Ends the process in order, and at once where that takes long."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _first(stream: asyncio.StreamReader, most: int) -> bytes | None:
    """Returns all that comes; None where it is more than `most` bytes."""
    found = bytearray()
    while piece := await stream.read(_PIECE_BYTES):
        if len(found) <= most:
            found += piece
    return bytes(found) if len(found) <= most else None


async def _last(stream: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while piece := await stream.read(_PIECE_BYTES):
        found += piece
        del found[:-_ERROR_BYTES]
    return bytes(found)
