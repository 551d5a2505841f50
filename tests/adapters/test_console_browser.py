"""The console in Debian's Chromium, beside feeds of real servers under load.

It prints what the page weighs and when it is painted.  TIDELOCK_PICTURES names a folder that the pictures of the
how-to are written into.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.place import free_port
from bench.harness.tidelock import Process
from bench.harness.workload.churn import Churn
from tests.adapters.console_tab import NARROW, SECONDS, WIDE, Console, aside, browser, expect, holds

pytestmark = pytest.mark.proof
LOAD = 200_000
TOKEN = "a-token-for-the-proof-of-the-console"
READ_TOKEN = "a-token-that-may-only-look-at-the-console"


@pytest.fixture
def chromium() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.fixture
def served(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> Iterator[tuple[Rig, Rig, str]]:
    """Two feeds under `serve`: one with load, one that will halt."""
    shop, crm = (make_rig(mariadb, postgres, name, lanes=4, ddl={"add_column": "halt"}) for name in ("shop", "crm"))
    churn = shop.make(Churn())
    crm.table("person", "id int PRIMARY KEY, name varchar(40)")
    folder, said, address = tmp_path / "feeds", tmp_path / "said", f"127.0.0.1:{free_port()}"
    folder.mkdir()
    tokens = tmp_path / "tokens"
    tokens.write_text(f"proof:{TOKEN}\nreader:{READ_TOKEN} read\n")
    tokens.chmod(0o600)
    for rig in (shop, crm):
        shutil.copy(rig.feed, folder)
    process = Process(["serve", str(folder), "--http", address, "--token-file", str(tokens)], said)
    until(lambda: process.running and "console at" in said.read_text(), "the console", SECONDS)
    work = shop.work(churn, LOAD, rate=800.0)
    try:
        yield shop, crm, address
    finally:
        work.stop()
        process.stop()


def test_every_page_shows_a_feed_under_load_and_its_buttons_act(
    served: tuple[Rig, Rig, str], chromium: Any
) -> None:
    shop, crm, address = served
    console = Console(chromium, address)
    try:
        look_without_a_token(console, shop)
        look_at_lanes_that_wait(console, shop)
        look_at_other_pages(console, shop)
        give_a_token_that_may_only_look(console, shop)
        give_the_token(console)
        retry_a_failed_row(console, crm)
        go_on_behind_a_halt(console, crm)
        compare_and_copy(console, crm)
    finally:
        console.close()


def look_without_a_token(console: Console, shop: Rig) -> None:
    page = console.open("feeds")
    expect(console.cell(shop.name)).to_contain_text("running")
    weigh(page)
    expect(console.cell(shop.name).get_by_role("cell").nth(4)).not_to_have_text("0")
    console.looked_over("console-feeds")
    page.keyboard.press("/")
    page.keyboard.type("no such feed")
    expect(page.get_by_text("No feed fits the filter.")).to_be_visible()
    page.get_by_label("Filter").fill(shop.name)
    page.get_by_role("link", name=shop.name).click()
    expect(page.get_by_text("Read only: a token lets you act.")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    way = page.get_by_role("img", name="4 lanes with")
    expect(way).to_be_visible()
    expect(page.get_by_role("img", name="at most").first).to_be_visible()
    holds(page, "document.querySelector('svg .plot')?.getAttribute('d').split('L').length > 8")
    console.looked_over("console-feed")


def look_at_lanes_that_wait(console: Console, shop: Rig) -> None:
    """While somebody holds the target's table, changes wait for each other."""
    page = console.page
    aside(shop.at_target, "BEGIN", f"LOCK TABLE {shop.schema}.member IN EXCLUSIVE MODE")
    page.keyboard.press("l")
    expect(page.get_by_role("heading", name=f"Lanes: {shop.name}")).to_be_focused()
    expect(page.get_by_role("table", name="Lanes")).to_contain_text("applies a batch")
    holds(page, "document.querySelectorAll('table')[2].rows.length > 1")
    page.get_by_label("Live").uncheck()
    waits = page.get_by_role("table", name="Who waits for whom").get_by_role("row")
    expect(waits.nth(1)).to_contain_text(f"{shop.schema}.member id=")
    expect(page.get_by_role("table", name="Hottest keys")).to_contain_text(f"{shop.schema}.member")
    console.looked_over("console-lanes")
    aside(shop.at_target, "ROLLBACK")


def look_at_other_pages(console: Console, shop: Rig) -> None:
    page = console.page
    page.keyboard.press("c")
    expect(page.get_by_text("No row has lost in a conflict.")).to_be_visible()
    console.looked_over()
    page.keyboard.press("j")
    expect(page.get_by_text("No job was begun")).to_be_visible()
    console.looked_over()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    console.looked_over()
    page.keyboard.press("Escape")
    page.emulate_media(color_scheme="dark")
    console.open("feeds")
    expect(console.cell(shop.name)).to_be_visible()
    console.looked_over("console-dark")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(NARROW)
    console.looked_over()
    page.set_viewport_size(WIDE)


def weigh(page: Any) -> None:
    """Prints what the browser has loaded, and when it has painted first."""
    holds(page, "performance.getEntriesByName('first-contentful-paint').length > 0")
    told = page.evaluate(
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".filter(one => !one.name.includes('/api/')).map(one => [one.name, one.transferSize])"
    )
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    total = sum(size for _, size in told)
    print(f"console: {len(told)} files, {total:,} bytes with headers, first paint after {painted:.0f} ms")
    assert total < 70_000


def give_a_token_that_may_only_look(console: Console, shop: Rig) -> None:
    page = console.open(f"feed/{shop.name}")
    page.keyboard.press("t")
    page.get_by_label("Token", exact=True).fill(READ_TOKEN)
    console.dialog("Use it")
    expect(page.get_by_text("Read only: reader has the role read.")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    page.get_by_role("button", name="Forget the token").click()
    expect(page.get_by_text("Read only: a token lets you act.")).to_be_visible()


def give_the_token(console: Console) -> None:
    page = console.page
    page.keyboard.press("t")
    page.get_by_label("Token", exact=True).fill("a wrong one")
    console.dialog("Use it")
    expect(page.get_by_role("dialog")).to_be_visible()  # the server has refused it
    page.get_by_label("Token", exact=True).fill(TOKEN)
    console.dialog("Use it")
    expect(page.get_by_role("button", name="Forget the token")).to_be_visible()
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 1, ""]


def retry_a_failed_row(console: Console, crm: Rig) -> None:
    """The target's constraint refuses a row; without it, the button brings it."""
    page = console.open(f"feed/{crm.name}")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    aside(crm.at_target, "ALTER TABLE person ADD CONSTRAINT calm CHECK (name <> '<b>loud</b>')")
    aside(crm.at_source, "INSERT INTO person VALUES (1, 'quiet'), (2, '<b>loud</b>')")
    aside(until, lambda: crm.parked() == 1, "a failed row", SECONDS)
    page.keyboard.press("r")
    row = console.cell("id=2")
    expect(row).to_contain_text("calm")
    row.get_by_role("button", name="Show").click()
    expect(page.get_by_role("cell", name='"<b>loud</b>"')).to_be_visible()  # as text, and no markup
    console.looked_over("console-failed-rows")
    aside(crm.at_target, "ALTER TABLE person DROP CONSTRAINT calm")
    row.get_by_role("button", name="Retry").click()
    aside(until, lambda: crm.parked() == 0, "the retry", SECONDS)
    aside(until, crm.equal, "equal ends", SECONDS)
    expect(page.get_by_text("No failed rows.")).to_be_visible()


def go_on_behind_a_halt(console: Console, crm: Rig) -> None:
    page = console.open(f"feed/{crm.name}")
    aside(crm.at_source, "ALTER TABLE person ADD COLUMN age int")
    halt = page.get_by_role("alert")
    expect(halt).to_contain_text("tidelock ddl done")
    expect(halt).to_contain_text("ADD COLUMN age")
    console.looked_over("console-halt")
    aside(crm.at_target, "ALTER TABLE person ADD COLUMN age int")
    halt.get_by_role("button", name="Done by hand").click()
    console.dialog("Done by hand")
    expect(halt).to_be_empty()
    aside(crm.at_source, "INSERT INTO person VALUES (3, 'later', 4)")
    aside(until, crm.equal, "equal ends", SECONDS)


def compare_and_copy(console: Console, crm: Rig) -> None:
    page = console.open(f"feed/{crm.name}")
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_role("region", name="Report").get_by_text("done: ok")).to_be_visible()
    expect(page.get_by_role("table", name="tables")).to_contain_text(f"{crm.schema}.person")
    console.looked_over("console-report")
    console.open(f"feed/{crm.name}")
    page.get_by_role("button", name="Copy").click()
    console.dialog("Replace them")
    expect(page.get_by_role("heading", name="Job 2: copy")).to_be_visible()
    holds(page, "document.body.innerText.includes('done: ok')")
    console.open(f"feed/{crm.name}")
    expect(page.get_by_role("table", name="Copies by table")).to_contain_text("copied")
