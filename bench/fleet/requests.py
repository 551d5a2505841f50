"""Requests for the control API, drawn at random: right ones, nearly right ones, and bytes that are none.

They are drawn from the product's own table of routes, so a new route is asked too.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.harness.served import TOKEN
from tidelock.adapters.api.openapi import document
from tidelock.adapters.api.routes import ROOT, ROUTES, Route

STATUSES: Final = frozenset({100, 200, 202, 400, 401, 403, 404, 405, 409, 413, 415, 417, 431, 501, 503})
"""Statuses that may be answered; 500 is a failure of the server."""
METHODS: Final = ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "X")
LIKELY: Final[Sequence[Any]] = (
    True, False, 0, 1, 5, -1, 1.5, "", "2h", "bin.1:4", "-x", ["a:1"], ["-a"], [], None, {"a": 1}, 10**30, "\ud800",
)  # fmt: skip
ODD_PLACES: Final = ("..", "%2e%2e%2fx", "%00", "%ff", "-x", "--all", "b.01:4:0", "9" * 20, "%f0%9f%90%9a")
PATHS: Final = ("/metrics", "/livez", "/", "/main.js", "*", "http://h/x", "//api/v1/feeds")
AUTHORIZATIONS: Final = (f"Bearer {TOKEN}", "Bearer", "Basic eA==", "Bearer \x80", f"bearer {TOKEN}x")
HOSTS: Final = ("evil.example", "localhost:99", "[", "")
MOST_WHOLE: Final = 60_000
"""A longer body is refused before it was read, and whoever goes on sending may not see the answer."""
HELD: Final = {"pause": "resume", "stop": "start"}
"""Routes that hold a feed up, each with the one that takes it back."""


@dataclasses.dataclass(frozen=True)
class Request:
    """`whole`: nothing of it is missing, so it must be answered.  `costly`: it may run a command."""

    data: bytes
    whole: bool
    route: Route
    costly: bool


class Requests:
    """Draws requests about feeds.  `feeds`: by name, whether each is calm; `tables`: the names of each one's tables."""

    def __init__(self, rng: random.Random, host: str, feeds: Mapping[str, bool], tables: Sequence[str]) -> None:
        self._rng, self._host, self._tables = rng, host, tables
        self._feeds = list(feeds)
        self._busy = [name for name, calm in feeds.items() if not calm]
        self._fields = {id(route): _fields_of(route) for route in ROUTES}
        self._feed = ""

    def draw(self) -> Request:
        """Returns a request that holds no feed up: what does, an operator takes back."""
        rng = self._rng
        route = rng.choice([route for route in ROUTES if route.path.rpartition("/")[2] not in HELD])
        self._feed = rng.choice(self._busy if route.path.endswith("/restart") else self._feeds)
        path = re.sub(r"{(\w+)}", lambda found: self._place(found[1]), ROOT + route.path)
        if self._rarely():
            path = rng.choice([path + "/", "/" + path, path.upper(), *PATHS])
        fields = {name: self._value(name) for name in self._fields[id(route)] if rng.random() < 0.5}
        if self._rarely():
            fields[rng.choice(("", "x", "all", "\x00"))] = rng.choice(LIKELY)
        method = rng.choice(METHODS) if self._rarely() else route.method
        query = ""
        if route.method == "GET" and fields:
            query = "?" + "&".join(f"{_encoded(name)}={_encoded(str(value))}" for name, value in fields.items())
        body = json.dumps(fields).encode() if method == "POST" else b""
        if self._rarely():
            body = rng.choice((b"", b"[", b"\xff\xfe", b"null", b" " * 70_000, rng.randbytes(40), b"[" * 5000))
        whole = not self._rarely() and len(body) < MOST_WHOLE
        head = [f"{method} {path}{query} HTTP/1.1", *self._headers(body, whole), "", ""]
        data = "\r\n".join(head).encode("latin-1", "replace") + body
        if self._rarely():
            data, whole = self._damaged(data), False
        return Request(data, whole, route, bool(route.command))

    def _headers(self, body: bytes, whole: bool) -> list[str]:
        rng = self._rng
        host = rng.choice(HOSTS) if self._rarely() else self._host
        authorization = rng.choice(AUTHORIZATIONS) if self._rarely() else AUTHORIZATIONS[0]
        kind = rng.choice(("text/plain", "", "a/b; charset=x")) if self._rarely() else "application/json"
        size = len(body) if whole else len(body) + rng.choice((1, 10_000))
        lines = [
            f"Host: {host}", f"Authorization: {authorization}", f"Content-Type: {kind}", f"Content-Length: {size}",
            "Connection: close",
        ]  # fmt: skip
        if self._rarely():
            odd = ("Origin: http://evil.example", "Content-Encoding: gzip", "Expect: 100-continue", f"X: {'x' * 9000}")
            lines.append(rng.choice(odd))
        return lines

    def _place(self, kind: str) -> str:
        if self._rarely():
            return self._rng.choice(ODD_PLACES)
        known = {"feed": self._feed, "job": str(self._rng.randint(1, 60)), "row": "b.01:4:0"}
        return known[kind]

    def _value(self, name: str) -> Any:
        rng = self._rng
        if self._rarely():
            return rng.choice(LIKELY)
        match name:
            case "tables":
                return [f"{self._feed}.{rng.choice(self._tables)}"]
            case "table":
                return f"{self._feed}.{rng.choice(self._tables)}"
            case "wait":
                return rng.choice((1, 5, 20))
            case "limit" | "job":
                return rng.randint(1, 50)
            case "ids":
                return ["b.01:4:0"]
            case _:
                return rng.choice((True, False, "2h", ""))

    def _damaged(self, data: bytes) -> bytes:
        rng = self._rng
        at = rng.randrange(len(data))
        amid = data[:at] + rng.randbytes(3) + data[at:]
        return rng.choice((data[:at], amid, rng.randbytes(60), b"\x16\x03\x01" + data))

    def _rarely(self) -> bool:
        return self._rng.random() < 0.1


def _fields_of(route: Route) -> list[str]:
    """Returns the names of what a route takes, as the document has them."""
    operation = document()["paths"][route.path][route.method.lower()]
    if "requestBody" in operation:
        name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        return list(document()["components"]["schemas"][name]["properties"])
    return [one["name"] for one in operation["parameters"] if one["in"] == "query"]


def _encoded(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "surrogatepass"))
