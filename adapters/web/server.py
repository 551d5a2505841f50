"""The aiohttp application behind `adapters.web.serving`."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from aiohttp import web

from tidelock.adapters.runtime.progress import Sample
from tidelock.adapters.web.listen_error import ListenError
from tidelock.adapters.web.metrics import CONTENT_TYPE, metrics

READY = ("running", "caught up")


async def start(address: tuple[str, int], latest: Callable[[], Sample]) -> tuple[web.AppRunner, int]:
    """Starts a server and returns its port.  Raises ListenError."""
    runner = web.AppRunner(application(latest), access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    host, port = address
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        await runner.cleanup()
        raise ListenError(
            f"http: cannot listen on {host}:{port}: {error.strerror or error}",
            "Another process may have the port: choose another for `http` in the feed, or leave it out.",
        ) from None
    return runner, runner.addresses[0][1]


def application(latest: Callable[[], Sample]) -> web.Application:
    """Returns the pages; `latest` gives the newest sample."""

    async def show_metrics(_: web.Request) -> web.Response:
        return web.Response(body=metrics(latest()).encode(), headers={"Content-Type": CONTENT_TYPE})

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

    app = web.Application()
    app.router.add_get("/metrics", show_metrics)
    app.router.add_get("/livez", alive)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/status", status)
    return app
