"""The reading end of a PyMySQL connection that is not fooled by silence (`adapters.process.patience` says why).

PyMySQL's own read timeout ends a connection, whatever the server does; and without one a server that accepts and never
speaks is waited for without end.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from tidelock.adapters.process.second_look import SECOND_LOOK_SECONDS

WORKS: Final = "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = %s AND COMMAND <> 'Sleep'"
"""Whether a session of ours still works on a statement."""


class Patient(io.RawIOBase):
    """Reads from the connection's socket; after each silence of the socket's timeout `works` is asked, if it is set."""

    def __init__(self, of: Any) -> None:
        self._of = of
        self.works: Callable[[], bool] | None = None

    def readable(self) -> bool:
        """Say that it can be read, as a raw file does."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, as a raw file does."""
        while True:
            try:
                end: socket.socket = self._of._sock
                return end.recv_into(buffer)
            except TimeoutError:
                if self.works is None or not (self.works() or (_later() and self.works())):
                    raise TimeoutError(f"no answer for {self._of._read_timeout:g} s") from None


def _later() -> bool:
    time.sleep(SECOND_LOOK_SECONDS)
    return True
