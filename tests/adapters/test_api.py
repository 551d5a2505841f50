"""The control API of `tidelock serve`: its routes over HTTP, who is let in, and what is shown of a feed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from tidelock.adapters.api.application import application
from tidelock.adapters.api.audit import NAME, Audit
from tidelock.adapters.api.guard import Guard
from tidelock.adapters.api.tokens import Tokens
from tidelock.adapters.fleet.folder import Folder
from tidelock.adapters.fleet.member import Member
from tidelock.adapters.fleet.supervisor import Wish
from tidelock.adapters.web.server import start

TEXT = "feed: {}\nsource: mysql://a:secret@h:1\ntarget: postgresql://b:hidden@h:2/c\ntables: [{{source: crm.*}}]\n"
TOKEN = "0123456789abcdef-token"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Fleet:
    """Feeds of a folder, whose processes are not started; what was wanted of them is kept."""

    def __init__(self, folder: Path) -> None:
        self.begun, self.stopping = True, False
        self.told: list[str] = []
        self.wanted: list[tuple[str, Wish]] = []
        files = Folder(folder).look()
        self.members = {path: Member(one, path.with_suffix(".sock"), _ignored, _ignored) for path, one in files.items()}

    def tell(self, text: str) -> None:
        self.told.append(text)

    def want(self, path: Path, wish: Wish) -> Future[bool]:
        self.wanted.append((path.name, wish))
        done: Future[bool] = Future()
        done.set_result(True)
        return done


def _ignored(_: Path, __: object) -> None: ...


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "feeds"
    place.mkdir()
    (place / "shop.yaml").write_text(TEXT.format("shop"))
    (place / "bad.yaml").write_text("feed: bad\nsource: mysql://a:secret@h:1\n")
    return place


def token_file(place: Path, text: str = f"# people\nann:{TOKEN}\n", mode: int = 0o600) -> Path:
    path = place / "tokens"
    path.write_text(text)
    path.chmod(mode)
    return path


class Client:
    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self.session, self.port = session, port

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}
    ) -> tuple[int, Any]:
        async with self.session.request(method, self.url(path), json=body, headers=headers) as answer:
            return answer.status, json.loads(await answer.read())


@asynccontextmanager
async def serving(folder: Path, fleet: Fleet, tokens: Tokens | None) -> AsyncIterator[Client]:
    reports = folder.parent / "reports"
    reports.mkdir(exist_ok=True)
    app = application(fleet, Guard("127.0.0.1", tokens), Audit(folder), reports)
    runner, port = await start(("127.0.0.1", 0), app)
    try:
        async with aiohttp.ClientSession() as session:
            yield Client(session, port)
    finally:
        await runner.cleanup()


def audited(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (folder / NAME).read_text().splitlines()]


async def test_feeds_are_shown_without_accounts_and_secrets(folder: Path) -> None:
    async with serving(folder, Fleet(folder), None) as client:
        status, told = await client.ask("GET", "/api/v1/feeds")
        assert status == 200
        bad, shop = told["feeds"]
        assert (bad["name"], bad["state"], bad["source"]) == ("bad.yaml", "cannot be read", "")
        assert (shop["source"], shop["target"], shop["tables"]) == ("mysql://h:1/", "postgresql://h:2/c", ["crm.*"])
        status, one = await client.ask("GET", "/api/v1/feeds/shop")
        assert status == 200 and one["config"]["source"] == "mysql://a:***@h:1"
        assert (await client.ask("GET", "/api/v1/feeds/bad.yaml"))[1]["config"] is None
        everything = json.dumps([told, one, (await client.ask("GET", "/api/v1/openapi.json"))[1]])
        assert "secret@" not in everything and "hidden" not in everything
        for name in ("nobody", "..%2Fshop", "shop.yaml", "%00"):
            assert (await client.ask("GET", f"/api/v1/feeds/{name}"))[0] == 404, name


async def test_errors_are_sentences_as_json(folder: Path) -> None:
    async with serving(folder, Fleet(folder), Tokens(token_file(folder))) as client:
        for method, path, body, status, words in (
            ("GET", "/api/v1/nothing", None, 404, "no page"),
            ("DELETE", "/api/v1/feeds", None, 405, "DELETE is not for"),
            ("GET", "/api/v1/feeds/shop/failed-rows/retry", None, 405, "GET is not for"),
            ("POST", "/api/v1/feeds/shop/repair", {"job": 3.0}, 409, "The job 3 is no job"),
            ("POST", "/api/v1/feeds/shop/repair", {"job": 3.5}, 400, "job"),
            ("GET", "/api/v1/feeds/shop/failed-rows?limit=0", None, 400, "limit"),
            ("GET", "/api/v1/feeds/shop/failed-rows?limit=1&limit=2", None, 400, "twice"),
            ("GET", "/api/v1/feeds/shop/failed-rows/-x", None, 404, "no such row"),
            ("GET", "/api/v1/feeds/shop/lanes", None, 503, "does not run"),
            ("GET", "/api/v1/feeds/bad.yaml/status", None, 409, "cannot be read"),
            ("GET", "/api/v1/jobs/7", None, 404, "no job 7"),
            ("GET", f"/api/v1/jobs/{'9' * 5000}", None, 404, "no job"),
            ("POST", "/api/v1/feeds/shop/failed-rows/skip", {}, 400, "say which rows"),
            ("POST", "/api/v1/feeds/shop/failed-rows/skip", {"ids": ["--all"]}, 400, "ids"),
            ("POST", "/api/v1/feeds/shop/failed-rows/skip", {"everything": True}, 400, "everything"),
            ("POST", "/api/v1/feeds/shop/copy", {}, 400, "keep"),
            ("POST", "/api/v1/feeds/shop/verify", {"since": "/etc/passwd"}, 400, "since"),
            ("POST", "/api/v1/feeds/shop/repair", {}, 409, "begin one first"),
            ("POST", "/api/v1/feeds/bad.yaml/start", {}, 409, "cannot be read"),
            ("POST", "/api/v1/feeds/shop/stop", {"x": "y" * 70_000}, 413, "too large"),
        ):
            found, told = await client.ask(method, path, body, BEARER)
            assert found == status and words in told["error"], (path, found, told)
        async with client.session.get(client.url("/api/v1/feeds/shop/failed-rows/retry")) as answer:
            assert answer.headers["Allow"] == "POST"


async def test_before_its_folder_was_read_no_feed_is_said_to_be_missing(folder: Path) -> None:
    """Whoever resumes a feed just then would believe that there is none."""
    fleet = Fleet(folder)
    fleet.begun, known, fleet.members = False, fleet.members, {}
    async with serving(folder, fleet, Tokens(token_file(folder))) as client:
        for method, path in (("GET", "/feeds"), ("GET", "/feeds/shop"), ("POST", "/feeds/shop/resume")):
            status, told = await client.ask(method, f"/api/v1{path}", {} if method == "POST" else None, BEARER)
            assert status == 503 and "just begun" in told["error"], (path, status, told)
        fleet.begun, fleet.members = True, known
        assert (await client.ask("GET", "/api/v1/feeds/shop", None, BEARER))[0] == 200
        assert (await client.ask("GET", "/api/v1/feeds/none", None, BEARER))[0] == 404


async def test_who_has_no_token_may_look_from_here_alone(folder: Path) -> None:
    fleet = Fleet(folder)
    async with serving(folder, fleet, None) as client:
        assert (await client.ask("POST", "/api/v1/feeds/shop/stop"))[0] == 403
    async with serving(folder, fleet, Tokens(token_file(folder))) as client:
        assert (await client.ask("GET", "/api/v1/feeds"))[0] == 200
        assert (await client.ask("GET", "/api/v1/feeds", headers={"Authorization": "Bearer wrong"}))[0] == 401
        assert (await client.ask("POST", "/api/v1/feeds/shop/stop"))[0] == 401
        async with client.session.post(URL(client.url("/%61pi/v1/feeds/shop/stop"), encoded=True)) as answer:
            assert answer.status == 401
        assert not fleet.wanted
        status, told = await client.ask("POST", "/api/v1/feeds/shop/stop", headers=BEARER)
        assert (status, told["name"], fleet.wanted) == (200, "shop", [("shop.yaml", "stop")])


async def test_a_page_of_elsewhere_is_refused(folder: Path) -> None:
    fleet = Fleet(folder)
    async with serving(folder, fleet, Tokens(token_file(folder))) as client:
        here = f"127.0.0.1:{client.port}"
        for headers, status in (
            ({"Host": "rebound.example"}, 403),
            ({"Host": "localhost:1"}, 200),
            ({"Host": here, "Origin": f"http://{here}"}, 200),
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
        ):
            assert (await client.ask("GET", "/api/v1/feeds", headers=headers))[0] == status, headers
            assert (await client.ask("POST", "/api/v1/feeds/shop/start", headers=BEARER | headers))[0] == status
        form = BEARER | {"Content-Type": "text/plain"}
        async with client.session.post(client.url("/api/v1/feeds/shop/start"), data=b"{}", headers=form) as answer:
            assert answer.status == 400 and "application/json" in await answer.text()


async def test_every_post_is_written_down_without_what_was_not_checked(folder: Path) -> None:
    async with serving(folder, Fleet(folder), Tokens(token_file(folder))) as client:
        await client.ask("POST", "/api/v1/feeds/shop/stop", headers=BEARER)
        await client.ask("POST", "/api/v1/feeds/shop/repair", {"tables": ["crm.t"]}, BEARER)
        await client.ask("POST", "/api/v1/feeds/shop/repair", {"password": "hidden"}, BEARER)
        for _ in range(3):
            await client.ask("POST", "/api/v1/feeds/shop/stop", headers={"Authorization": "Bearer hidden"})
    first, second, third, fourth = audited(folder)
    assert (first["who"], first["method"], first["status"]) == ("ann", "POST", 200)
    assert first["path"] == "/api/v1/feeds/shop/stop" and first["when"] > 0
    assert (second["status"], second["body"]["tables"]) == (409, ["crm.t"])
    assert third["status"] == 400 and "body" not in third
    assert (fourth["who"], fourth["status"]) == ("", 401), "one of three within a second"
    assert "hidden" not in (folder / NAME).read_text() and TOKEN not in (folder / NAME).read_text()
    assert (folder / NAME).stat().st_mode & 0o777 == 0o600


async def test_nothing_is_done_that_cannot_be_written_down(folder: Path) -> None:
    fleet = Fleet(folder)
    (folder / NAME).symlink_to(folder / "elsewhere")
    async with serving(folder, fleet, Tokens(token_file(folder))) as client:
        status, told = await client.ask("POST", "/api/v1/feeds/shop/stop", headers=BEARER)
    assert status == 503 and "cannot be written" in told["error"] and not fleet.wanted
    assert "answered with 503" in fleet.told[0] and not (folder / "elsewhere").exists()


async def test_events_come_when_something_has_changed(folder: Path) -> None:
    fleet = Fleet(folder)
    async with serving(folder, fleet, None) as client, client.session.get(client.url("/api/v1/events")) as stream:
        assert await stream.content.readline() == b"event: feeds\n"
        first = json.loads((await stream.content.readline()).removeprefix(b"data: "))
        assert first == (await client.ask("GET", "/api/v1/feeds"))[1]
        assert await stream.content.readline() == b"\n"
        next(iter(fleet.members.values())).words = "something new"
        assert await stream.content.readline() == b"event: feeds\n"
        assert b"something new" in await stream.content.readline()


async def test_a_command_answers_and_what_it_refuses_is_said(folder: Path) -> None:
    """Without a server: the target's name leads nowhere."""
    async with serving(folder, Fleet(folder), Tokens(token_file(folder))) as client:
        status, told = await client.ask("GET", "/api/v1/feeds/shop/status")
        assert status == 503 and "cannot be reached" in told["error"]
        status, told = await client.ask("POST", "/api/v1/feeds/shop/check", headers=BEARER)
        assert (status, told) == (202, {"job": 1})
        assert (await client.ask("POST", "/api/v1/feeds/shop/check", headers=BEARER))[0] == 409, "it runs"
        status, told = await client.ask("POST", "/api/v1/jobs/1/end", headers=BEARER)
        assert status == 200 and (told["state"], told["by"], told["command"]) == ("failed", "ann", "check")
        assert (await client.ask("GET", "/api/v1/jobs"))[1]["jobs"][0]["error"] == "It was ended before it was done"
