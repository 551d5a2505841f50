"""The console's files: how they are served, that nothing of them comes from elsewhere, and what they ask of the API."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tidelock.adapters.api.routes import ROUTES
from tidelock.adapters.console.files import POLICY, site
from tidelock.adapters.console.routes import add_console
from tidelock.adapters.web.server import start

FOLDER = Path(__file__).parents[2] / "adapters" / "console" / "site"
TEXTS = {path.name: path.read_text() for path in sorted(FOLDER.iterdir())}
MODULES = {name: text for name, text in TEXTS.items() if name.endswith(".js")}
MOST_BYTES = 60_000
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


async def test_each_file_is_given_with_its_type_and_the_policy() -> None:
    app = web.Application()
    add_console(app)
    runner, port = await start(("127.0.0.1", 0), app)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            for name, text in TEXTS.items():
                async with session.get("/" if name == "index.html" else f"/console/{name}") as answer:
                    assert (answer.status, await answer.text()) == (200, text)
                    assert answer.headers["Content-Type"] == TYPES[Path(name).suffix]
                    assert answer.headers["Content-Security-Policy"] == POLICY
                    assert answer.headers["X-Content-Type-Options"] == "nosniff"
            for path in ("/console/", "/console/index.html", "/console/../files.py", "/console/__init__.py"):
                async with session.get(path) as answer:
                    assert answer.status == 404
    finally:
        await runner.cleanup()


def test_the_policy_lets_in_nothing_from_elsewhere_and_no_inline_script() -> None:
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules.pop("default-src") == "'none'" and rules.pop("require-trusted-types-for") == "'script'"
    assert set(rules.values()) <= {"'self'", "'none'"}


def test_all_files_are_small_and_each_is_used() -> None:
    assert sum(len(file.body) for file in site().values()) < MOST_BYTES
    imported = {name for text in MODULES.values() for name in re.findall(r'from "\./([\w.]+)"', text)}
    named = set(re.findall(r'"console/([\w.]+)"', TEXTS["index.html"]))
    assert imported | named | {"index.html"} == set(TEXTS)
    assert len(site()) == len(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_no_file_names_an_address_of_elsewhere_or_makes_markup_of_text(name: str) -> None:
    text = TEXTS[name].replace("http://www.w3.org/2000/svg", "")  # the name of a namespace, which nobody asks
    assert not re.search(r"https?:|[\"'(`]//|@import|url\(", text)
    assert not re.search(r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc)", text)
    assert not re.search(r"<script(?![^>]* src=)|\sstyle=|\son[a-z]+=|<style", text)
    assert "localStorage" not in text and "document.cookie" not in text


def fits(path: str, asked: str) -> bool:
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), asked) is not None


def test_what_is_asked_of_the_api_are_its_routes() -> None:
    """Paths of feeds, which are given to `of` or to a button, and all others."""
    text = "\n".join(MODULES.values())
    gets = {f"/feeds/x{rest}" for rest in re.findall(r'of\(name(?:, ["`](/[^"`?]*))?', text)}
    posts = {f"/feeds/x{rest}" for rest in re.findall(r'\b(?:act|send)\("[^"]+", "([^"]+)"', text)}
    decided = {f"/feeds/x/failed-rows/{word}" for word in re.findall(r'\b(?:decide|one)\("([a-z-]+)"', text)}
    gets = {re.sub(r"\$\{[^}]*\}", "x", path) for path in gets if "failed-rows/${path}" not in path}
    gets |= {"/events", "/jobs", "/jobs/1"}
    routes = [(route.method, route.path) for route in ROUTES]
    for method, paths in (("GET", gets), ("POST", posts | decided | {"/jobs/1/end"})):
        for asked in paths:
            assert any(method == of and fits(path, asked) for of, path in routes), f"{method} {asked}"
    assert len(gets) >= 9 and len(posts) >= 10 and len(decided) == 3
