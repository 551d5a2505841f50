"""Checks whether the address that `http` names can be had here."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Final

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ports.finding import Finding, error, warning

ASK_SECONDS: Final = 2.0
_TAKEN: Final = (errno.EADDRINUSE, errno.EACCES)


async def check_http(feed: Feed) -> list[Finding]:
    """Lists what keeps a run from serving there.  A run of this very feed that serves there is no trouble."""
    return [*await asyncio.to_thread(_check, feed), *await asyncio.to_thread(_check_tls, feed)]


def _check_tls(feed: Feed) -> list[Finding]:
    if feed.http_tls is None:
        return []
    from tidelock.adapters.web.tls import ServerTls, TlsError

    try:
        ServerTls(feed.http_tls)
    except TlsError as problem:
        return [error("http-tls", f"http_tls: {problem}", problem.hint)]
    return []


def _check(feed: Feed) -> list[Finding]:
    address = feed.http_address
    if address is None:
        return []
    try:
        _tried(*address)
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE and _serves(feed):
            return []
        hint = "Choose another address for `http` in the feed, or leave it out"
        if problem.errno in _TAKEN:
            shown = f" (`ss -ltnp 'sport = :{address[1]}'` shows who has it)"
            return [error("http-taken", f"http: {feed.http} cannot be had: {problem.strerror}{shown}", hint)]
        said = f"http: this machine has no address {address[0]}: {problem.strerror or problem}"
        return [warning("http-elsewhere", said, f"{hint}; or does the feed run on another machine?")]
    return []


def _tried(host: str, port: int) -> None:
    """Listens, and stops at once.  Raises OSError."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, number, _, place = found[0]
    with socket.socket(family, kind, number) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(1)


def _serves(feed: Feed) -> bool:
    from tidelock.adapters.web.own_pages import own_page

    try:
        return f'{{feed="{feed.name}"' in own_page(feed, "/metrics", ASK_SECONDS)[1].decode(errors="replace")
    except OSError:
        return False
