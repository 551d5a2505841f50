"""Serves a page of metrics for a process without an event loop: `/metrics` and `/livez`, from a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

from tidelock.adapters.web.exposition import CONTENT_TYPE
from tidelock.adapters.web.listen_error import ListenError

if TYPE_CHECKING:
    from tidelock.adapters.web.tls import ServerTls

SILENT_SECONDS: Final = 30.0


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Writes nothing: whoever can connect could fill the log."""


@contextmanager
def served(address: tuple[str, int], metrics: Callable[[], str], tls: ServerTls | None = None) -> Iterator[int]:
    """Serves while the block runs; gives the port (`address` may ask for any free one with 0).  Raises ListenError."""

    class Handler(BaseHTTPRequestHandler):
        timeout = SILENT_SECONDS

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
        server = _Server((host, port), Handler)
    except OSError as error:
        raise ListenError(
            f"cannot listen on {host}:{port}: {error.strerror or error}", "Choose another port for --http"
        ) from None
    server.daemon_threads = True
    if tls is not None:  # each thread shakes hands for itself, so that a silent client holds nobody up
        server.socket = tls.context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
