"""Lets TCP itself watch the other end of a connection."""

from __future__ import annotations

import socket
from typing import Final

# A peer that has vanished is noticed after a minute, not after the two hours of TCP's default.
KEEPALIVE_SECONDS: Final = 30
UNACKNOWLEDGED_MS: Final = 60_000


def watch_peer(peer: socket.socket) -> None:
    """Makes the kernel notice within a minute that the other end of this connection has vanished."""
    if peer.family == socket.AF_UNIX:
        return
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS),
        (socket.TCP_KEEPINTVL, KEEPALIVE_SECONDS // 3),
        (socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS),
    ):
        peer.setsockopt(socket.IPPROTO_TCP, option, value)
