"""The feed's checkpoint at the target, looked at again and again in a thread of its own: it must never go back.

One thing may take it back: a target that is killed loses commits that it acknowledged without waiting for its disk
(`synchronous_commit = off`, which the feed chooses), and the rows with them.  So after a kill the look begins anew.
"""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType
from typing import Final, Self

import asyncpg
import msgspec
import pymysql

from bench.harness.servers import Server
from bench.harness.session import Session, connect
from tidelock.engine.model.records import Position

EVERY_SECONDS: Final = 0.25
GONE: Final = (OSError, pymysql.Error, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError)
"""What a session with a server raises that is ending, gone or just coming back."""


def leave(session: Session | None) -> None:
    """Close it, also where the server is gone."""
    with contextlib.suppress(*GONE):
        if session is not None:
            session.close()


class Checkpoints:
    """Context manager.  `seen`: how many different ones; `backward`: (before, after) of each that went back."""

    def __init__(self, target: Server, feed: str) -> None:
        self.seen = 0
        self.backward: list[tuple[str, str]] = []
        self._target = target
        cast = "position::text" if target.scheme == "postgresql" else "CAST(position AS CHAR)"
        self._query = f"SELECT {cast} FROM tidelock.tidelock_checkpoint WHERE feed = '{feed}'"
        self._last: Position | None = None
        self._session: Session | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def forget(self) -> None:
        """The target was killed."""
        with self._lock:
            self._last = None

    def _run(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            with self._lock:
                self._look()
        leave(self._session)

    def _look(self) -> None:
        try:
            self._session = self._session or connect(self._target)
            rows = self._session.rows(self._query)
        except GONE:
            leave(self._session)
            self._session = None
            return
        for (text,) in rows:
            now = msgspec.json.decode(text, type=Position)
            if self._last is not None and now.order < self._last.order:
                self.backward.append((str(self._last), str(now)))
            self.seen += self._last is None or now.order != self._last.order
            self._last = now
