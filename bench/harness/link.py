"""A TCP link between a feed and a server that can be parted: nothing goes through, and nobody is told.

What was sent meanwhile goes through once the link is whole again, as with a network that comes back.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

PART_BYTES = 64 << 10


class Link:
    """A link to `host:port`, which listens at `address`."""

    def __init__(self, host: str, port: int) -> None:
        self._far = (host, port)
        self._whole = threading.Event()
        self._whole.set()
        self._ends: list[socket.socket] = []
        self._door = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._door.getsockname()[1]}"
        threading.Thread(target=self._serve, name="link", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._whole.set()
        for end in (self._door, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def part(self) -> None:
        """Lets nothing through any more."""
        self._whole.clear()

    def mend(self) -> None:
        """Lets all through again, also what has come meanwhile."""
        self._whole.set()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._door.accept()
                threading.Thread(target=self._tie, args=(near,), name="link", daemon=True).start()

    def _tie(self, near: socket.socket) -> None:
        self._whole.wait()
        try:
            far = socket.create_connection(self._far)
        except OSError:
            near.close()
            return
        self._ends += [near, far]
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=self._carry, args=(one, other), name="link", daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := one.recv(PART_BYTES):
                self._whole.wait()
                other.sendall(part)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)
