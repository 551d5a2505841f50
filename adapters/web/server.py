"""The aiohttp application behind `adapters.web.serving`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from tidelock.adapters.runtime.meters import Meters
from tidelock.adapters.runtime.progress import Sample
from tidelock.adapters.web.exposition import CONTENT_TYPE
from tidelock.adapters.web.lanes import Machines, lanes_page
from tidelock.adapters.web.listen_error import ListenError
from tidelock.adapters.web.metrics import metrics

if TYPE_CHECKING:
    from tidelock.adapters.web.tls import ServerTls

READY = ("running", "caught up")


class _OfOurs(logging.Filter):
    """Leaves out what is no HTTP: it has its answer, and whoever can connect could fill the log with it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Tells whether to log it."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


_LOG: Final = logging.getLogger("tidelock.web")
_LOG.addFilter(_OfOurs())


async def start(
    address: tuple[str, int] | str, pages: web.Application, tls: ServerTls | None = None
) -> tuple[web.AppRunner, int]:
    """Starts a server and returns its port, 0 at a Unix socket, which has no TLS.  Raises ListenError."""
    # A body that is not encoded as its header says would end in a traceback of the library's, behind the answer.
    runner = web.AppRunner(
        pages, access_log=None, logger=_LOG, handle_signals=False, shutdown_timeout=1.0, auto_decompress=False
    )
    await runner.setup()
    try:
        if isinstance(address, str):
            await web.UnixSite(runner, address).start()
            return runner, 0
        await web.TCPSite(runner, *address, ssl_context=None if tls is None else tls.context).start()
    except OSError as error:
        await runner.cleanup()
        place = address if isinstance(address, str) else f"{address[0]}:{address[1]}"
        raise ListenError(
            f"http: cannot listen on {place}: {error.strerror or error}",
            "Another process may have the port: choose another for `http` in the feed, or leave it out.",
        ) from None
    return runner, runner.addresses[0][1]


def application(
    latest: Callable[[], Sample], feed: str, meters: Callable[[], Sequence[Meters]], machines: Machines
) -> web.Application:
    """Returns the pages of a feed; `latest` gives the newest sample, `meters` what its groups here count, `machines`
    what applies them."""

    async def show_metrics(_: web.Request) -> web.Response:
        return web.Response(body=metrics(latest(), feed, meters()).encode(), headers={"Content-Type": CONTENT_TYPE})

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        sample = latest()
        if sample.unreachable:
            return web.Response(status=503, text=f"{sample.state}: {sample.unreachable}\n")
        if sample.state in READY:
            return web.Response(text=f"{sample.state}\n")
        return web.Response(status=503, text=f"{sample.state}{f': {sample.alarm}' if sample.alarm else ''}\n")

    async def status(_: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(latest()), content_type="application/json")

    async def lanes(_: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(lanes_page(machines())), content_type="application/json")

    app = web.Application()
    app.router.add_get("/metrics", show_metrics)
    app.router.add_get("/livez", alive)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/status", status)
    app.router.add_get("/lanes", lanes)
    return app
