"""A tab of the console in Debian's Chromium, for tests of what people see and do there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.harness.rig import until
from bench.harness.servers.place import program

SECONDS = 120.0
PATIENCE_MS = 60_000
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 390, "height": 800}
ASIDE = ThreadPoolExecutor(1)


def driver() -> Any:
    """The library that drives a browser: `.ci/browser.lock` has it, which `make proof` installs."""
    return import_module("playwright.sync_api")


@contextmanager
def browser() -> Iterator[Any]:
    """Debian's Chromium.  While it is open, an event loop runs in this thread: see `aside`."""
    path = program("chromium", "chromium")
    driver().expect.set_options(timeout=PATIENCE_MS)
    with driver().sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield opened
        opened.close()


def expect(found: Any) -> Any:
    """Assertions of the library about a place on a page, within `PATIENCE_MS`."""
    return driver().expect(found)


def aside(call: Callable[..., object], *words: object) -> None:
    """Does what speaks with servers in another thread: the driver's event loop runs in this one."""
    ASIDE.submit(call, *words).result()


def holds(page: Any, expression: str) -> None:
    """Waits until it does.  The driver's own wait would have the page evaluate text, which its policy forbids."""
    until(lambda: bool(page.evaluate(expression)), expression, SECONDS)


class Console:
    """A tab of the console.  All that its page complains of is kept, and must be nothing."""

    def __init__(self, browser: Any, address: str) -> None:
        self.address = address
        self.context = browser.new_context(base_url=f"http://{address}", viewport=WIDE)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._hear)
        self.page.on("request", self._ask)

    def _hear(self, message: Any) -> None:
        refused = "status of 5" in message.text or "status of 401" in message.text  # the page says so itself
        if message.type in ("error", "warning") and not refused:
            self.complaints.append(message.text)

    def _ask(self, request: Any) -> None:
        if not request.url.startswith(f"http://{self.address}/"):
            self.foreign.append(request.url)

    def open(self, place: str) -> Any:
        self.page.goto(f"/#/{place}")
        return self.page

    def looked_over(self, picture: str = "") -> None:
        """Has axe look for what keeps people out, and takes a picture."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        assert not found, [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]
        if picture and (folder := os.environ.get("TIDELOCK_PICTURES")):
            self.page.screenshot(path=Path(folder) / f"{picture}.png")

    def cell(self, row: str) -> Any:
        return self.page.get_by_role("row").filter(has_text=row)

    def dialog(self, button: str) -> None:
        self.page.get_by_role("dialog").get_by_role("button", name=button, exact=True).click()

    def close(self) -> None:
        self.context.close()
        assert not self.complaints and not self.foreign, (self.complaints, self.foreign)
