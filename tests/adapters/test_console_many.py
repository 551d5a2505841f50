"""The console over fifty feeds, and over one in which 200,000 changes wait for each other; a pair's conflict in it.

It prints how long what a person waits for takes.  TIDELOCK_PICTURES names a folder for the pictures of the how-to.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.harness.network import Network
from bench.harness.pair import Pair
from bench.harness.rig import Rig, tidelock, until
from bench.harness.served import TOKEN, Api, Served
from bench.harness.servers import MariaDb, Postgres, Server
from tests.adapters.console_tab import Console, aside, browser, expect, holds

pytestmark = [pytest.mark.proof, pytest.mark.timeout(1200)]
FEEDS = 50
WAITING = 200_000
ROWS, ROUNDS = 4000, 62
SECONDS = 600.0
WIDE_ENGINE = (sys.executable, "-m", "bench.harness.wide_engine")


@contextmanager
def running(serving: Served, names: list[str]) -> Iterator[None]:
    """Runs `serve` until the block ends; it begins once all of these feeds run."""
    process = serving.start()
    try:
        for name in names:
            until(serving.api(name).goes_on, f"the feed {name}", SECONDS)
        yield
    finally:
        if process.running:
            process.stop()


@contextmanager
def tab(serving: Served) -> Iterator[Console]:
    with browser() as chromium, closing(Console(chromium, serving.address)) as console:
        yield console


def timed(what: str, do: Callable[[], object]) -> None:
    begun = time.perf_counter()
    do()
    print(f"console: {what}: {1000 * (time.perf_counter() - begun):.0f} ms")


def test_fifty_feeds_and_two_hundred_thousand_waits_can_be_looked_at(
    make_rig: Callable[..., Rig], mariadb: Server, make_postgres: Callable[..., Postgres], tmp_path: Path
) -> None:
    target = make_postgres(extra=["--max-connections=500"])
    rigs = [make_rig(mariadb, target, "many", lanes=8 if number == 0 else 1) for number in range(FEEDS)]
    for rig in rigs:
        rig.table("seat", "id bigint PRIMARY KEY, email varchar(40) UNIQUE")
    hot, running_too, *others = rigs
    serving = Served(tmp_path, WIDE_ENGINE)
    for rig in (hot, running_too):
        serving.put(rig.feed)
    with running(serving, [hot.name, running_too.name]):
        for rig in others:
            stopped(serving, rig)
        hot.at_source(f"INSERT INTO seat SELECT seq, CONCAT('m', seq) FROM seq_1_to_{ROWS}")
        until(hot.equal, "equal ends", SECONDS)
        with tab(serving) as console:
            look_at_fifty(console, hot)
            with held(serving, hot):
                look_at_waits(console, hot)
        assert hot.parked() == 0
        assert serving.process is not None
        serving.process.kill()  # so many rows that wait for each other one by one are not applied within a test


def stopped(serving: Served, rig: Rig) -> None:
    """Puts a feed into the folder, and stops it, wherever its first run is."""
    assert serving.process is not None
    serving.put(rig.feed)
    os.kill(serving.process.pid, signal.SIGHUP)
    api = serving.api(rig.name)
    until(lambda: api.ask(f"/feeds/{rig.name}/stop", {})[0] == 200, "a stop", SECONDS)


@contextmanager
def held(serving: Served, hot: Rig) -> Iterator[None]:
    """Somebody holds the target's table, while the rows take each other's addresses again and again.

    Each waits for the one that has given its address up, unless both are of one lane.
    """
    aside(hot.at_target, "BEGIN", f"LOCK TABLE {hot.schema}.seat IN EXCLUSIVE MODE")
    try:
        for number in range(ROUNDS):
            taken = f"CONCAT('m', 1 + MOD(id + {37 * number}, {ROWS}))"
            hot.at_source("UPDATE seat SET email = NULL", f"UPDATE seat SET email = {taken}")
        api = serving.api(hot.name)

        def wait() -> bool:
            """It plans them, and answers between two windows."""
            status, told = api.ask(f"/feeds/{hot.name}/lanes")
            return status == 200 and bool(told["total_waiting"] >= WAITING)

        until(wait, f"{WAITING:,} waits", SECONDS)
        yield
    finally:
        aside(hot.at_target, "ROLLBACK")


def look_at_fifty(console: Console, hot: Rig) -> None:
    page = console.page
    rows = page.get_by_role("table", name="Feeds of this folder").get_by_role("row")

    def opened() -> None:
        console.open("feeds")
        expect(rows).to_have_count(FEEDS + 1)

    def filtered() -> None:
        page.get_by_label("Filter").fill(hot.name)
        expect(page.get_by_text(f"of {FEEDS}")).to_contain_text(" of ")
        expect(console.cell(hot.name).first).to_be_visible()

    timed(f"{FEEDS} feeds, from the address to the table", opened)
    console.looked_over("console-fifty")
    timed("a filter over them", filtered)
    page.get_by_label("Filter").fill("stopped")
    expect(rows).to_have_count(FEEDS - 2 + 1)
    page.get_by_label("Filter").fill("")

    def at_feed() -> None:
        page.get_by_role("link", name=hot.name, exact=True).click()
        expect(page.get_by_role("heading", name=f"Feed: {hot.name}")).to_be_focused()

    timed("from the table to a feed", at_feed)


def look_at_waits(console: Console, hot: Rig) -> None:
    page = console.page

    def at_lanes() -> None:
        page.keyboard.press("l")
        expect(page.get_by_role("heading", name=f"Lanes: {hot.name}")).to_be_focused()
        expect(page.get_by_role("status").filter(has_text="wait for a commit")).to_be_visible()
        holds(page, "document.querySelectorAll('table')[2].rows.length > 100")

    timed(f"{WAITING:,} waits, from a key to the tables", at_lanes)
    words = page.get_by_role("status").filter(has_text="wait for a commit").inner_text()
    assert int(words.partition(" ")[0].replace(",", "")) >= WAITING, words
    console.looked_over("console-waits")

    def live() -> None:
        with page.expect_response(lambda answer: answer.url.endswith("/lanes")):
            pass

    for _ in range(3):
        timed("the next look, which comes after 2 s of rest", live)

    def answers() -> None:
        page.keyboard.press("f")
        expect(page.get_by_role("heading", name="Feeds", exact=True)).to_be_focused()
        expect(console.cell(hot.name).first).to_contain_text("running")

    timed("from there to all feeds, by a key", answers)


def test_a_pairs_conflict_is_shown_and_its_loser_written_after_all(
    make_mariadb: Callable[..., MariaDb], make_postgres: Callable[..., Postgres], tmp_path: Path
) -> None:
    place = tmp_path / "pair"
    place.mkdir()
    servers = {"eu": make_mariadb(), "us": make_postgres()}
    with closing(Network(place, servers, ["eu>us", "us>eu"])) as network:
        pair = Pair(network)
        feeds = (pair.up, pair.down)
        serving = Served(tmp_path)
        for feed in feeds:
            serving.put(feed.file)
        with running(serving, [feed.name for feed in feeds]):
            pair.arbiter.send("INSERT INTO lamp VALUES (1, 'first', 0)")
            until(pair.equal, "the row at both", SECONDS)
            cross(serving, pair)
            with tab(serving) as console:
                page = give_the_token(console)
                (lost,) = look_at_the_conflict(console, serving, pair)
                aside(write_after_all, pair, lost)
                page.get_by_role("button", name="Look again").click()
                expect(console.cell("id=1")).to_be_visible()
            assert pair.rows("lamp") == [[("1", "at eu", "1")]] * 2


def cross(serving: Served, pair: Pair) -> None:
    """Both sites change the row while neither hears of the other."""
    apis = [serving.api(feed.name) for feed in (pair.up, pair.down)]
    for api in apis:
        api.of_feed("/pause", {})
    for api in apis:
        until(functools.partial(paused, api), "a pause", SECONDS)
    pair.arbiter.send("UPDATE lamp SET word = 'at eu', n = 1 WHERE id = 1")
    pair.spoke.send("UPDATE lamp SET word = 'at us', n = 2 WHERE id = 1")
    for api in apis:
        api.of_feed("/resume", {})
    until(lambda: pair.equal() and pair.rows("lamp")[0] == [("1", "at us", "2")], "the arrival at both", SECONDS)


def paused(api: Api) -> bool:
    return api.state() == ("runs", "paused")


def give_the_token(console: Console) -> Any:
    page = console.open("feeds")
    page.keyboard.press("t")
    page.get_by_label("Token", exact=True).fill(TOKEN)
    console.dialog("Use it")
    expect(page.get_by_role("button", name="Forget the token")).to_be_visible()
    return page


def look_at_the_conflict(console: Console, serving: Served, pair: Pair) -> list[str]:
    """Returns the ids of rows that lost."""
    page = console.open(f"conflicts/{pair.up.name}")
    row = console.cell("id=1")
    expect(row).to_contain_text("update_origin_differs")
    row.get_by_role("button", name="Show").click()
    told = page.get_by_role("table", name="id=1")
    expect(told.get_by_role("row").filter(has_text="word")).to_contain_text('"at eu"')
    expect(told.get_by_role("row").filter(has_text="word")).to_contain_text('"at us"')
    console.looked_over("console-conflicts")
    return [one["id"] for one in serving.api(pair.up.name).of_feed("/conflicts")]


def write_after_all(pair: Pair, lost: str) -> None:
    """The row that lost stands at the arbiter, and comes to the other site as any change."""
    said = tidelock("conflicts", "apply", str(pair.up.file), lost)
    assert said.code == 0, said.out + said.err
    until(lambda: pair.rows("lamp") == [[("1", "at eu", "1")]] * 2, "the loser at both sites", SECONDS)
