"""Asks a feed's run for its pages, at the feed's `http`."""

from __future__ import annotations

import contextlib
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.http_tls import HttpTls

if TYPE_CHECKING:
    import ssl


def own_page(feed: Feed, path: str, seconds: float) -> tuple[int, bytes]:
    """Returns status and content of a page.  Raises OSError where nobody answers it within so many seconds."""
    if feed.http_address is None:
        raise OSError("the feed serves no pages")
    host, port = feed.http_address
    host = host.replace("0.0.0.0", "127.0.0.1")
    if feed.http_tls is None:
        connection = HTTPConnection(host, port, timeout=seconds)
    else:
        connection = HTTPSConnection(host, port, timeout=seconds, context=_of_that_run(feed.http_tls))
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except HTTPException as error:
        raise OSError(f"what answers is no run of ours: {error!r}") from None
    finally:
        connection.close()


def _of_that_run(files: HttpTls) -> ssl.SSLContext:
    """Returns TLS that takes the run's own certificate alone, whatever the address, and shows it where it is asked to.

    Raises OSError where the certificate cannot be read.
    """
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(files.cert)
    with contextlib.suppress(OSError):  # who asks may not be allowed to read the key
        context.load_cert_chain(files.cert, files.key, password=lambda: "")
    return context
