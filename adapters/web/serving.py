"""The feed's one HTTP server: `/metrics`, `/livez`, `/readyz`, `/status`, told by the latest `Sample`, and `/lanes`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.http_tls import HttpTls
from tidelock.adapters.runtime.meters import Meters
from tidelock.adapters.runtime.progress import Sample
from tidelock.adapters.web.lanes import Machines

if TYPE_CHECKING:
    from tidelock.adapters.web.tls import ServerTls


def ready_tls(files: HttpTls | None, tell: Callable[[str], None] | None = None) -> ServerTls | None:
    """Returns the TLS to serve with; None without files.  `tell`: as in `ServerTls`.  Raises TlsError."""
    if files is None:
        return None
    from tidelock.adapters.web.tls import ServerTls

    return ServerTls(files) if tell is None else ServerTls(files, tell)


def served_at(feed: Feed, socket: str) -> list[tuple[str, int] | str]:
    """Returns where a run serves: at the feed's `http`, and at a Unix socket where it was given one."""
    return [*([feed.http_address] if feed.http_address is not None else []), *([socket] if socket else [])]


@asynccontextmanager
async def serve(
    address: tuple[str, int] | str,
    latest: Callable[[], Sample],
    feed: str,
    meters: Callable[[], Sequence[Meters]] = tuple,
    machines: Machines = tuple,
    tls: HttpTls | None = None,
) -> AsyncIterator[int]:
    """Serve while the block runs; gives the port (`address` may ask for any free one with 0; a text is the path of a
    Unix socket, which has no TLS, and the port 0).  Raises ListenError, TlsError.
    """
    # aiohttp takes a quarter of a second to import: beside the loop, and only where `http:` is set.
    await asyncio.to_thread(import_module, "tidelock.adapters.web.server")
    from tidelock.adapters.web.server import application, start

    runner, port = await start(address, application(latest, feed, meters, machines), ready_tls(tls))
    try:
        yield port
    finally:
        await runner.cleanup()
