"""A look that is taken again and again, in a thread of its own, for as long as the context lasts."""

from __future__ import annotations

import abc
import threading
from types import TracebackType
from typing import Self


class Polling(abc.ABC):
    """Context manager: calls `look` every `seconds`, and `leave` at the end, both in its thread."""

    def __init__(self, name: str, seconds: float) -> None:
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    @abc.abstractmethod
    def look(self) -> None:
        """Takes one look."""

    def leave(self) -> None:  # noqa: B027
        """Lets go of what the looks needed; nothing by itself."""

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            self.look()
        self.leave()
