"""Tells the service manager that has started a process: that it is ready, alive, about to end.

The protocol is that of `sd_notify(3)`: a datagram with lines `NAME=value`, to the socket that `NOTIFY_SOCKET` names.
Without that variable nobody is told.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import MutableMapping
from typing import Final

BEATS: Final = 4
"""How often a sign of life is given in the time after which the manager takes the process for dead."""


class ServiceManager:
    """The manager of this process.  `watchdog_seconds`: how long it waits for a sign of life; None: it asks for none.

    Make it before any process is started: it takes the variables away, and a child is not the service.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        self._address = _address(environment.pop("NOTIFY_SOCKET", ""))
        period, process = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        ours = self._address and process in ("", str(os.getpid()))
        self.watchdog_seconds = int(period) / 1e6 if ours and period.isdigit() and int(period) else None
        self._ready = self._stopping = False
        self._alive = 0.0

    @property
    def beat_seconds(self) -> float | None:
        """The time between two signs of life; None: none is asked for."""
        return None if self.watchdog_seconds is None else self.watchdog_seconds / BEATS

    def ready(self) -> None:
        """Tells that the start is over; only the first call does."""
        if not self._ready:
            self._ready = True
            self._tell("READY=1")

    def stopping(self) -> None:
        """Tells that the end has begun; only the first call does."""
        if not self._stopping:
            self._stopping = True
            self._tell("STOPPING=1")

    def alive(self) -> None:
        """Gives a sign of life, where one is due."""
        now = time.monotonic()
        if self.beat_seconds is not None and now - self._alive >= self.beat_seconds * 0.9:
            self._alive = now
            self._tell("WATCHDOG=1")

    def _tell(self, line: str) -> None:
        """Sends a line; a manager that does not listen is no reason to end."""
        if self._address:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(line.encode(), self._address)


def _address(named: str) -> str:
    """Returns the socket's address; '' for one of a kind that is not ours to reach."""
    if named.startswith("@"):
        return f"\0{named[1:]}"
    return named if named.startswith("/") else ""
