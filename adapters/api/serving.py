"""Serves the API for a process whose main thread has no event loop: from a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidelock.adapters.api.audit import Audit
from tidelock.adapters.api.fleet import Fleet
from tidelock.adapters.api.guard import Guard
from tidelock.adapters.process.own_folder import own_folder
from tidelock.adapters.web.listen_error import ListenError

if TYPE_CHECKING:
    from tidelock.adapters.web.tls import ServerTls


@contextmanager
def served(
    address: tuple[str, int], fleet: Fleet, guard: Guard, folder: Path, tls: ServerTls | None = None
) -> Iterator[int]:
    """Serves while the block runs; gives the port (`address` may ask for any free one with 0).  Raises ListenError.

    Commands that requests have begun are ended with it.
    """
    port: Future[int] = Future()
    over = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    def serve() -> None:
        try:
            with (
                own_folder("reports") as reports,
                asyncio.Runner(loop_factory=lambda: loop) as runner,
            ):
                runner.run(_serve(address, fleet, guard, Audit(folder), reports, tls, port, stop))
        except BaseException as error:
            if not port.done():
                port.set_exception(error)
                return
            raise
        finally:
            over.set()

    thread = threading.Thread(target=serve, name="api", daemon=True)
    thread.start()
    number = port.result()
    try:
        yield number
    finally:
        if not over.is_set():
            loop.call_soon_threadsafe(stop.set)
        thread.join()


async def _serve(
    address: tuple[str, int],
    fleet: Fleet,
    guard: Guard,
    audit: Audit,
    reports: Path,
    tls: ServerTls | None,
    port: Future[int],
    stop: asyncio.Event,
) -> None:
    from tidelock.adapters.api.application import application  # aiohttp takes a quarter of a second
    from tidelock.adapters.web.server import start

    try:
        runner, number = await start(address, application(fleet, guard, audit, reports), tls)
    except ListenError as error:
        raise ListenError(str(error), "Choose another port for --http") from None
    port.set_result(number)
    try:
        await stop.wait()
    finally:
        await runner.cleanup()
