"""One page of metrics for all feeds: what the fleet knows of each, and what its process says at its socket."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from tidelock.adapters.fleet.member import Member
from tidelock.adapters.web.exposition import Page, merged

ASK_SECONDS: Final = 2.0
_ASKERS: Final = 16


class _SocketConnection(HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ASK_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Opens the socket.  Raises OSError."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(ASK_SECONDS)
        self.sock.connect(str(self._path))


def page(members: Iterable[Member]) -> str:
    """Returns the page.  A process that does not answer has no metrics of its own."""
    there = list(members)
    with ThreadPoolExecutor(_ASKERS) as pool:
        return merged([fleet_page(there), *pool.map(_metrics, (one.socket for one in there if one.running))])


def fleet_page(members: Iterable[Member]) -> str:
    """Returns what the fleet itself knows of its feeds."""
    shown = Page({})
    each = [({"feed": one.name}, one) for one in members]
    shown.add("feed_up", "gauge", "1 where the feed has a process.", *[(name, int(one.running)) for name, one in each])
    text = "Times that its process was started."
    shown.add("feed_starts_total", "counter", text, *[(name, one.starts) for name, one in each])
    codes = [(name, one.code) for name, one in each if one.code is not None]
    if codes:
        shown.add("feed_exit_code", "gauge", "The exit code of its last process that has ended.", *codes)
    return shown.text


def asked(path: Path, of: str) -> bytes | None:
    """Returns a page of the process that serves at a socket; None where it does not answer, or has no such page."""
    connection = _SocketConnection(path)
    try:
        connection.request("GET", of)
        answer = connection.getresponse()
        return answer.read() if answer.status == 200 else None
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def _metrics(path: Path) -> str:
    return (asked(path, "/metrics") or b"").decode()
