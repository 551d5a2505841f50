"""Tells what the tasks of a process wait for, where it should have ended and has not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

CALLS_MAX = 12


def waiting() -> list[str]:
    """Returns a line for each unfinished task but our own: where it waits, outermost call first."""
    ours = asyncio.current_task()
    return sorted(f"{task.get_name()}: {_place(task)}" for task in asyncio.all_tasks() if task is not ours)


def _place(task: asyncio.Task[Any]) -> str:
    calls = [f"{Path(f.f_code.co_filename).name}:{f.f_lineno} {f.f_code.co_name}" for f in _frames(task.get_coro())]
    return " > ".join(calls[-CALLS_MAX:])


def _frames(waits: Any) -> Iterator[FrameType]:
    """Yields the frames of a coroutine, of what it awaits, and so on: a task that waits has its outermost one alone."""
    while waits is not None:
        frame = _either(waits, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            yield frame
        waits = _either(waits, "cr_await", "gi_yieldfrom", "ag_await")


def _either(what: Any, *names: str) -> Any:
    """Returns the attribute that a coroutine, a generator or an asynchronous generator has."""
    return next((found for name in names if (found := getattr(what, name, None)) is not None), None)
