"""Ends a Spark that waits for a database which has fallen silent, so that nothing waits for it without end.

Spark reads over JDBC, in Java.  A limit on the driver's reads (`socketTimeout`) cannot tell a dead connection from a
query that works for an hour before its first row, so it stays off.  While a session is open, each database is asked now
and then on a connection of its own, as lanes do (`adapters.process.patience`).  A server that answers, even by a
refusal, is waited for.  One that twice says nothing ends Java: a task that reads from a socket cannot be interrupted.
Where a single connection fell silent, TCP keepalive finds it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.process.second_look import SECOND_LOOK_SECONDS
from tidelock.adapters.wiring.session import session

END_SECONDS: Final = 1.0  # nobody waits for a look that is under way


class Vigil:
    """A context manager that watches.  `silent`: which database has not answered, in words, once Java was ended for it;
    else ''.
    """

    def __init__(self, places: Sequence[Endpoint], end: Callable[[], None]) -> None:
        self.silent = ""
        self._places = [place for place in places if place.scheme != "hive"]
        self._end = end
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="vigil", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(END_SECONDS)

    def _watch(self) -> None:
        seconds = min((place.read_seconds for place in self._places), default=None)
        while seconds is not None and not self._over.wait(seconds):
            for place in self._places:
                if not self._answers_in_two_looks(place) and not self._over.is_set():
                    self.silent = f"{place} has not answered, and what Spark read from it was given up"
                    self._end()
                    return

    def _answers_in_two_looks(self, place: Endpoint) -> bool:
        return answers(place) or self._over.wait(SECOND_LOOK_SECONDS) or answers(place)


def answers(place: Endpoint) -> bool:
    """Returns whether a database answers within `connect_timeout`; a refusal is an answer too."""

    async def ask() -> None:
        async with session(place):
            pass

    try:
        asyncio.run(ask())
    except TargetError as error:
        return error.passing or not error.unreachable
    return True


def end_java() -> None:
    """Ends the Java of this process's Spark at once: what is asked of it fails."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.proc.kill()
