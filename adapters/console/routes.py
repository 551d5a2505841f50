"""Serves the console's files from an aiohttp application: the page at `/`, the rest below `/console`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from tidelock.adapters.console.files import HEADERS, SiteFile, site


def add_console(app: web.Application) -> None:
    """Adds the routes of all files."""
    for path, file in site().items():
        app.router.add_get(path, _giving(file))


def _giving(file: SiteFile) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def give(_: web.Request) -> web.Response:
        return web.Response(body=file.body, headers={**HEADERS, "Content-Type": file.type})

    return give
