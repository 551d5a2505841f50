"""Length-prefixed frames between a process of ours and the one that started it, over one socket pair.

A frame: 4 bytes little-endian length of the rest, 1 byte of kind, a msgpack body.  Back-pressure is the socket itself:
when the reader does not read, the writer blocks, and so does the source behind it; nothing is queued without a bound.
"""

from __future__ import annotations

import socket


def head(kind: int, size: int) -> bytes:
    """Returns what stands before a body of `size` bytes."""
    return (size + 1).to_bytes(4, "little") + bytes((kind,))


def send(channel: socket.socket, kind: int, body: bytes) -> None:
    """Sends one frame; blocks while the other side does not read."""
    channel.sendall(head(kind, len(body)) + body)


def receive(channel: socket.socket) -> bytes:
    """Returns one frame's body, kind included.  Raises EOFError when the other side is gone."""
    return _exactly(channel, int.from_bytes(_exactly(channel, 4), "little"))


def _exactly(channel: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = channel.recv(min(count, 1 << 20))
        if not part:
            raise EOFError("the other process is gone")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
