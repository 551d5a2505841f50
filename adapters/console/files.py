"""The console's files: plain HTML, CSS and modules, as they are in the package.

Nothing is built and nothing comes from elsewhere: what a page may load and do is said by its policy, which browsers
keep.  The files hold no data and no secret, so they are given to anybody who may reach the server.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Only this server's own files and answers; no inline script or style, no frame, no markup made of text."""
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class SiteFile(NamedTuple):
    """A file of the console: its content, and the type that it is served with."""

    body: bytes
    type: str


@cache
def site() -> dict[str, SiteFile]:
    """Returns all files by the path that they are served at."""
    found = {}
    for one in files("tidelock.adapters.console").joinpath("site").iterdir():
        kind = TYPES.get(f".{one.name.rpartition('.')[2]}")
        if kind is not None:
            path = "/" if one.name == "index.html" else f"/console/{one.name}"
            found[path] = SiteFile(one.read_bytes(), kind)
    return found
