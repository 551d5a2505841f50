"""Requests of every kind to every route of the control API: each has an answer, and none is a failure of the server."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelock.adapters.api.application import application
from tidelock.adapters.api.audit import Audit
from tidelock.adapters.api.guard import Guard
from tidelock.adapters.api.openapi import document
from tidelock.adapters.api.routes import ROOT, ROUTES, Route
from tidelock.adapters.api.tokens import Tokens
from tidelock.adapters.fleet.folder import Folder
from tidelock.adapters.fleet.member import Member
from tidelock.adapters.fleet.supervisor import Wish
from tidelock.adapters.process.command_answer import CommandAnswer
from tidelock.adapters.web.server import start

TEXT = "feed: shop\nsource: mysql://a:b@h:1\ntarget: postgresql://a:b@h:2/c\ntables: [{source: crm.*}]\n"
TOKEN = "0123456789abcdef-token"
STATUSES = {100, 200, 202, 400, 401, 403, 404, 405, 409, 413, 415, 417, 431, 501, 503}
SAID = (b"", b"[]", b'{"halted": null, "copies": []}', b"null", b"3", b"\xff", b"{", b'{"a": 1')


class Fleet:
    """Feeds whose processes are not started."""

    begun = True
    stopping = False

    def __init__(self, folder: Path) -> None:
        self.members = {path: Member(one, path, _ignored, _ignored) for path, one in Folder(folder).look().items()}

    def tell(self, text: str) -> None:
        assert isinstance(text, str)

    def want(self, path: Path, wish: Wish) -> Future[bool]:
        done: Future[bool] = Future()
        done.set_result(wish != "restart")
        return done


def _ignored(_: Path, __: object) -> None: ...


class Commands:
    """Commands that answer anything."""

    def __init__(self) -> None:
        self.lines = 0

    async def __call__(self, arguments: Sequence[str], seconds: float, most: int) -> CommandAnswer:
        assert all("\0" not in one for one in map(os.fsdecode, map(os.fsencode, arguments)))
        assert arguments[-1] == "--json" or not any(one.startswith("-") for one in arguments[:1])
        self.lines += 1
        said = SAID[self.lines % len(SAID)]
        await asyncio.sleep(0)
        return CommandAnswer(self.lines % 5, said, '{"error": "no"}' if self.lines % 3 else "Traceback")


class Server(NamedTuple):
    loop: asyncio.Runner
    port: int
    commands: Commands

    def status(self, request: bytes, whole: bool = True) -> int:
        """The status of the answer; 0 where the connection ends without one.  Of a request that may not be whole, no
        answer is waited for: the connection is closed amid it.
        """
        return self.loop.run(self._status(request, whole))

    async def _status(self, request: bytes, whole: bool) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        line = b""
        try:
            writer.write(request)
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(60.0 if whole else 0.05):
                    line = await reader.readline()
            assert line or not whole, "no answer within a minute"
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        found = re.match(rb"HTTP/1\.[01] (\d+) ", line)
        return int(found[1]) if found else 0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "shop.yaml").write_text(TEXT)
    (tmp_path / "bad.yaml").write_text("feed: bad\n")
    tokens = tmp_path / "tokens"
    tokens.write_text(f"ann:{TOKEN}\n")
    tokens.chmod(0o600)
    commands = Commands()

    async def begin() -> tuple[web.AppRunner, int]:
        guard = Guard("127.0.0.1", Tokens(tokens))
        pages = application(Fleet(tmp_path), guard, Audit(tmp_path), tmp_path, commands)
        return await start(("127.0.0.1", 0), pages)

    with asyncio.Runner() as loop:
        runner, port = loop.run(begin())
        yield Server(loop, port, commands)
        loop.run(runner.cleanup())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
TOKENS = st.text(alphabet="!#$%&'*+-.^_`|~0123456789abcxyzABC", min_size=1, max_size=12)
LATIN = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=255), max_size=30)
WORDS = (*["shop"] * 9, "bad.yaml", "..", "%2e%2e%2fshop", "%00", "%ff", "-x", "--all", "b.01:4:0", "1", "9" * 20)


def encoded(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "surrogatepass"))


PLACE = st.sampled_from(WORDS) | st.text(max_size=4).map(encoded)


def schema_of(route: Route) -> dict[str, object]:
    """The fields that a route takes, as the document has them."""
    operation = document()["paths"][route.path][route.method.lower()]
    if "requestBody" in operation:
        name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        return dict(document()["components"]["schemas"][name]["properties"])
    return {one["name"]: one["schema"] for one in operation["parameters"] if one["in"] == "query"}


LIKELY = st.sampled_from(
    [True, False, 0, 1, 5, -1, 1.5, "", "crm.t", "2h", "bin.1:4", "-x", ["a:1"], ["-a"], [], ["crm.t\0"]]
)
METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "CONNECT")
RIGHT = f"Bearer {TOKEN}"
AUTHORIZATIONS = st.sampled_from([*[RIGHT] * 9, "Bearer", "Basic eA==", "Bearer ä", "Bearer \x80"])
HOSTS = st.sampled_from([*["localhost"] * 9, "localhost:99", "evil.example", "[", ""])
KINDS = st.sampled_from([*["application/json"] * 9, "text/plain", "", "a/b; charset=x"])
WAYS = st.sampled_from([("Transfer-Encoding", "chunked"), ("Expect", "100-continue"), ("Upgrade", "x")])


def rarely(draw: st.DrawFn) -> bool:
    return draw(st.sampled_from([False] * 7 + [True]))


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bool]:
    """A request, and whether nothing of it is missing."""
    route = draw(st.sampled_from(ROUTES))
    path = re.sub(r"{\w+}", lambda _: draw(PLACE), ROOT + route.path)
    if rarely(draw):
        path = draw(st.sampled_from([path + "/", "/" + path, path.upper(), "/metrics", "*", "http://h/x"]))
    values = JSON if rarely(draw) else LIKELY
    fields = {name: draw(values) for name in schema_of(route) if draw(st.booleans())}
    if rarely(draw):
        fields |= draw(st.dictionaries(st.text(max_size=5), JSON, max_size=2))
    query = "&".join(f"{encoded(name)}={encoded(str(value))}" for name, value in fields.items())
    method = draw(st.sampled_from([*[route.method] * 9, *METHODS]) | TOKENS)
    body = json.dumps(fields).encode() if method == "POST" else b""
    if rarely(draw):
        body = draw(st.sampled_from([b"", b" " * 70_000]) | st.binary(max_size=40))
    headers = draw(st.lists(st.tuples(TOKENS, LATIN), max_size=2)) if rarely(draw) else []
    headers += [("Host", draw(HOSTS)), ("Authorization", draw(AUTHORIZATIONS)), ("Content-Type", draw(KINDS))]
    if rarely(draw):
        headers.append(("Origin", draw(st.sampled_from(["http://localhost", "null", "http://evil.example"]))))
    if rarely(draw):
        coding = draw(st.sampled_from(["gzip", "deflate", "br", "zstd", "x"]))
        headers.append(("Content-Encoding", coding))
        body = gzip.compress(body * 3) if draw(st.booleans()) else body
    whole = not rarely(draw)
    size = len(body) if whole else draw(st.sampled_from([len(body) + 1, max(len(body) - 1, 0), -1]))
    headers.append(("Content-Length", str(size)) if whole or draw(st.booleans()) else draw(WAYS))
    lines = [f"{method} {path}{'?' if query else ''}{query} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body, whole


def sees_no_failure(
    server: Server, caplog: pytest.LogCaptureFixture, examples: int, *, same_each_time: bool = False
) -> None:
    seen: dict[int, int] = {}

    @settings(
        max_examples=examples,
        derandomize=same_each_time,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(requests())
    def ask(request: tuple[bytes, bool]) -> None:
        status = server.status(*request)
        seen[status] = seen.get(status, 0) + 1
        assert status in STATUSES | {0}, (status, request)

    with caplog.at_level(logging.ERROR):
        ask()
    assert not [one.getMessage() for one in caplog.records if one.exc_info]
    assert server.status(f"GET {ROOT}/feeds HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()) == 200
    assert {200, 400, 404} <= seen.keys() and server.commands.lines, seen


def test_no_request_is_answered_by_a_failure(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    sees_no_failure(server, caplog, 100, same_each_time=True)


def test_a_body_that_is_nested_deeply_is_refused(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    head = f"POST {ROOT}/feeds/shop/pause HTTP/1.1\r\nHost: localhost\r\nAuthorization: {RIGHT}\r\n"
    for body in (b"[" * 5000, b'{"a":' * 5000):
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        assert server.status((head + kind).encode() + body) == 400
    assert not caplog.records


@pytest.mark.proof
@pytest.mark.timeout(1500)
def test_none_of_many_requests_is_answered_by_a_failure(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    sees_no_failure(server, caplog, 5_000)
