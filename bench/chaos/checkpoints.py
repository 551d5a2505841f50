"""The feed's checkpoint at the target, looked at again and again in a thread of its own: it must never go back.

One thing may take it back: a target that is killed loses commits that it acknowledged without waiting for its disk
(`synchronous_commit = off`, which the feed chooses), and the rows with them.  So after a kill the look begins anew.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Final

import asyncpg
import msgspec
import pymysql

from bench.harness.polling import Polling
from bench.harness.servers import Server
from bench.harness.session import Session, connect
from tidelock.engine.model.records import Position

EVERY_SECONDS: Final = 0.25
GONE: Final = (OSError, pymysql.Error, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError)
"""Errors that a session raises with a server that is ending, gone or just coming back."""
_POSITION: Final = msgspec.json.Decoder(Position)


def leave(session: Session | None) -> None:
    """Close it, also where the server is gone."""
    with contextlib.suppress(*GONE):
        if session is not None:
            session.close()


class Checkpoints(Polling):
    """Context manager.  `seen`: how many different ones; `backward`: (before, after) of each that went back."""

    def __init__(self, target: Server, feed: str) -> None:
        super().__init__("checkpoints", EVERY_SECONDS)
        self.seen = 0
        self.backward: list[tuple[str, str]] = []
        self._target = target
        cast = "position::text" if target.scheme == "postgresql" else "CAST(position AS CHAR)"
        self._query = f"SELECT {cast} FROM tidelock.tidelock_checkpoint WHERE feed = '{feed}'"
        self._last: Position | None = None
        self._session: Session | None = None
        self._lock = threading.Lock()

    def forget(self) -> None:
        """The target was killed."""
        with self._lock:
            self._last = None

    def look(self) -> None:
        """Reads the checkpoint, and compares it with the last."""
        with self._lock:
            self._look()

    def leave(self) -> None:
        """Closes the session."""
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
            now = _POSITION.decode(text)
            if self._last is not None and now.order < self._last.order:
                self.backward.append((str(self._last), str(now)))
            self.seen += self._last is None or now.order != self._last.order
            self._last = now
