"""Serves a page of metrics for a process without an event loop: `/metrics` and `/livez`, from a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tidelock.adapters.web.exposition import CONTENT_TYPE
from tidelock.adapters.web.listen_error import ListenError


@contextmanager
def served(address: tuple[str, int], metrics: Callable[[], str]) -> Iterator[int]:
    """Serves while the block runs; gives the port (`address` may ask for any free one with 0).  Raises ListenError."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            match self.path:
                case "/metrics":
                    self._answer(200, metrics(), CONTENT_TYPE)
                case "/livez":
                    self._answer(200, "ok\n", "text/plain")
                case _:
                    self._answer(404, "not found\n", "text/plain")

        def _answer(self, status: int, text: str, kind: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Writes nothing."""

    host, port = address
    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise ListenError(
            f"cannot listen on {host}:{port}: {error.strerror or error}", "Choose another port for --http"
        ) from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
