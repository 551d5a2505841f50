"""Roles of the control API: by tokens, and by certificates of clients over TLS."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.adapters.made_certificates import Authority, Made
from tests.adapters.test_api import Fleet, audited
from tests.adapters.test_api import folder as folder  # the fixture
from tidelock.adapters.api.application import application
from tidelock.adapters.api.audit import Audit
from tidelock.adapters.api.guard import Guard
from tidelock.adapters.api.openapi import document
from tidelock.adapters.api.roles import TEXTS, Holder
from tidelock.adapters.api.routes import ROUTES
from tidelock.adapters.api.tokens import TokenFileError, Tokens
from tidelock.adapters.cli.failure import CommandError
from tidelock.adapters.cli.serving import serve, tls_files
from tidelock.adapters.config.http_tls import HttpTls
from tidelock.adapters.web.server import start
from tidelock.adapters.web.tls import ServerTls, TlsError

OLD, READ, OPERATE, ADMIN = (f"0123456789abcdef-{word}" for word in ("old", "read", "operate", "admin"))
LINES = f"""
old:{OLD}
reader:{READ} read
operator:{OPERATE}   operate
admin:{ADMIN} admin
CN=ann operate
CN=Ann Example admin
"""
ROLE_OF = {OLD: "admin", READ: "read", OPERATE: "operate", ADMIN: "admin"}


def tokens_of(place: Path, text: str = LINES) -> Tokens:
    path = place / "tokens"
    path.write_text(text)
    path.chmod(0o600)
    return Tokens(path)


@asynccontextmanager
async def serving(
    folder: Path, fleet: Fleet, tokens: Tokens | None, tls: ServerTls | None = None, shown: Made | None = None
) -> AsyncIterator[Any]:
    reports = folder.parent / "reports"
    reports.mkdir(exist_ok=True)
    guard = Guard("127.0.0.1", tokens, tls.knows) if tls is not None else Guard("127.0.0.1", tokens)
    runner, port = await start(("127.0.0.1", 0), application(fleet, guard, Audit(folder), reports), tls)
    context: Any = False
    if shown is not None:
        context = ssl.create_default_context(cafile=str(folder.parent / "ca.pem"))
        context.load_cert_chain(shown.cert, shown.key)
    try:
        async with aiohttp.ClientSession() as session:

            async def ask(method: str, path: str, token: str = "", body: Any = None, **headers: str) -> tuple[int, Any]:
                url = f"http{'s' if tls else ''}://127.0.0.1:{port}/api/v1{path}"
                if token:
                    headers["Authorization"] = f"Bearer {token}"
                async with session.request(method, url, json=body, headers=headers, ssl=context) as answer:
                    return answer.status, json.loads(await answer.read())

            yield ask
    finally:
        await runner.cleanup()


async def test_each_route_asks_for_its_role(folder: Path) -> None:
    """Who has too little of one is told which; who has enough gets another answer."""
    fleet = Fleet(folder)
    async with serving(folder, fleet, tokens_of(folder)) as ask:
        for route in ROUTES:
            path = route.path.replace("{feed}", "nobody").replace("{job}", "7").replace("{row}", "a:1")
            if route.does in ("events", "document"):
                continue
            for token, role in ROLE_OF.items():
                status, told = await ask(route.method, path, token)
                if Holder("", role).may(route.role):  # type: ignore[arg-type]
                    assert status != 403, (route, role, told)
                else:
                    assert status == 403 and f"`{route.role}` is needed" in told["error"], (route, role, told)
    refused = [line for line in audited(folder) if line["status"] == 403]
    assert {(line["who"]) for line in refused} == {"reader", "operator"} and "body" not in refused[0]
    assert not fleet.wanted


async def test_who_asks_is_told_what_it_may(folder: Path) -> None:
    posts = {route.path: route.role for route in ROUTES if route.method == "POST"}
    async with serving(folder, Fleet(folder), tokens_of(folder)) as ask:
        assert (await ask("GET", "/who"))[1] == {"name": "loopback", "role": "read", "may": []}
        assert (await ask("GET", "/who", READ))[1] == {"name": "reader", "role": "read", "may": []}
        _, told = await ask("GET", "/who", OPERATE)
        assert set(told["may"]) == {path for path, role in posts.items() if role == "operate"}
        _, told = await ask("GET", "/who", OLD)
        assert (told["role"], set(told["may"])) == ("admin", set(posts))


def test_what_cannot_be_taken_back_is_an_admin_s() -> None:
    """And each of three roles has routes of its own."""
    admin = {route.command for route in ROUTES if route.role == "admin"}
    assert admin == {"ddl done", "ddl skip", "rows skip", "rows take-source", "copy", "repair"}
    assert {route.role for route in ROUTES} == set(TEXTS)
    assert all((route.role == "read") == (route.method == "GET") for route in ROUTES)


def test_the_document_tells_roles() -> None:
    shown = document()
    assert set(shown["components"]["securitySchemes"]) == {"token", "certificate"}
    for route in ROUTES:
        operation = shown["paths"][route.path][route.method.lower()]
        assert all({scheme: [route.role]} in operation["security"] for scheme in ("token", "certificate"))
        assert ({} in operation["security"]) == (route.method == "GET")
        assert f"role `{route.role}`" in operation["description"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"ann:{READ} reader\n", "line 1: not of the form"),
        (f"ann:{READ} read operate\n", "line 1: not of the form"),
        ("CN=ann\n", "line 1: not of the form"),
        ("CN=ann read\nCN=ann admin\n", "line 2: CN=ann has a line already"),
        ("ann:short read\n", "line 1: not of the form"),
    ],
)
def test_a_line_that_is_none_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(TokenFileError, match=words) as caught:
        tokens_of(tmp_path, text)
    assert READ not in f"{caught.value} {caught.value.hint}"


async def test_a_certificate_is_who_asks(folder: Path) -> None:
    """With the role of its line; a token that is sent counts more."""
    ca = Authority(folder.parent)
    ann, bob = ca.signs("ann", common="ann"), ca.signs("bob", common="bob")
    server = ca.server("server", "tidelock.example")
    tls = ServerTls(HttpTls(cert=str(server.cert), key=str(server.key), client_ca=str(ca.cert)), lambda _: None)
    fleet = Fleet(folder)
    async with serving(folder, fleet, tokens_of(folder), tls, ann) as ask:
        assert (await ask("GET", "/who", Host="tidelock.example"))[1]["name"] == "CN=ann"
        assert (await ask("GET", "/who", Host="elsewhere.example"))[0] == 403
        assert (await ask("POST", "/feeds/shop/stop"))[0] == 200 and fleet.wanted == [("shop.yaml", "stop")]
        status, told = await ask("POST", "/feeds/shop/copy", body={"keep": True})
        assert status == 403 and "CN=ann has `operate`" in told["error"]
        assert (await ask("GET", "/who", READ))[1]["name"] == "reader"
        assert (await ask("POST", "/feeds/shop/stop", READ))[0] == 403
        assert (await ask("GET", "/who", "0123456789abcdef-wrong"))[0] == 401
    async with serving(folder, fleet, tokens_of(folder), tls, bob) as ask:
        assert (await ask("GET", "/who"))[1] == {"name": "CN=bob", "role": "read", "may": []}
    async with serving(folder, fleet, None, tls, ann) as ask:
        assert (await ask("GET", "/who"))[1]["role"] == "read"
        assert (await ask("POST", "/feeds/shop/stop"))[0] == 403
    assert [(one["who"], one["status"]) for one in audited(folder)] == [
        ("CN=ann", 200), ("CN=ann", 403), ("reader", 403), ("CN=ann", 403),
    ]  # fmt: skip
    assert len(fleet.wanted) == 1


@pytest.mark.parametrize(
    ("http", "tokens", "tls", "words"),
    [
        ("", "", ("server.pem", "server.key", ""), "--tls-cert goes with --http"),
        ("0.0.0.0:0", "", ("server.pem", "server.key", ""), "reached from elsewhere"),
        ("127.0.0.1:0", "", ("server.pem", "", ""), "a certificate and its key"),
        ("127.0.0.1:0", "", ("", "", "ca.pem"), "a certificate and its key"),
        ("127.0.0.1:0", "", ("server.pem", "server.key", "no.pem"), "no.pem cannot be read"),
    ],
)
def test_serve_refuses_tls_that_would_be_open_or_make_no_sense(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, http: str, tokens: str, tls: tuple[str, str, str], words: str
) -> None:
    Authority(tmp_path).server()
    monkeypatch.chdir(tmp_path)
    with pytest.raises((CommandError, TlsError), match=words):
        serve(str(tmp_path), http, tokens, tls_files(*tls))
