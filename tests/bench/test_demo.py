"""The demo's shop is the same at either source, and waits for its feed; the demo itself ends on a busy machine too."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from bench.demo_pace import Pace
from bench.demo_servers import SCHEMA, furnish, source_url
from bench.harness.compare import compare
from bench.harness.forking import COMMAND
from bench.harness.servers import MariaDb, Postgres
from bench.harness.workload.shop import Shop

RATE, CHANGES = 200, 200
HELD_SECONDS = 1.5
OTHERS = 6
END_SECONDS = 400.0


def test_the_shop_is_the_same_at_either_source(mariadb: MariaDb, postgres: Postgres) -> None:
    shops = Shop(), Shop()
    servers = mariadb, postgres
    try:
        held = [furnish(server, shop, 80) for server, shop in zip(servers, shops, strict=True)]
        assert held == [80 + 20 + 2 + 20] * 2
        for server, shop in zip(servers, shops, strict=True):
            assert shop.run(server.url(SCHEMA), 600, seed=5).changes == 600
        differences = compare(mariadb, source_url(postgres), [f"{SCHEMA}.{table}" for table in shops[0].tables])
        assert differences.total == 0 and differences.matched > 122, differences
        told = "SELECT DISTINCT relreplident::text FROM pg_class WHERE relname = ANY($1)"
        assert postgres.execute(told, shops[1].tables, database=SCHEMA) == [("f",)], "else one row after another"
    finally:
        mariadb.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
        postgres.execute(f"DROP DATABASE IF EXISTS {SCHEMA} WITH (FORCE)")


def test_a_shop_waits_for_its_feed_and_then_makes_up_for_nothing(mariadb: MariaDb) -> None:
    shop, stop, said, made = Shop(), threading.Event(), list[str](), list[int]()
    pace = Pace(stop, said.append)
    pace.look(6.0)
    pace.look(8.0)
    pace.look(0.0, copy_due=True)
    assert said == [
        "The feed is 6 s behind on this busy machine: the shop waits for it.",
        "The shop is quicker than the copy of its rows: it waits until all are copied.",
    ], "each once"
    try:
        furnish(mariadb, shop, 80)
        work = threading.Thread(
            target=lambda: shop.run(mariadb.url(SCHEMA), CHANGES, 5, RATE, stop, made.append, hold=pace.hold)
        )
        work.start()
        work.join(HELD_SECONDS)
        assert work.is_alive() and not made, "it waits"
        pace.look(0.1)
        begun = time.monotonic()
        work.join()
        assert made[-1] == CHANGES and pace.waited >= HELD_SECONDS - 0.5
        assert time.monotonic() - begun > 0.8 * CHANGES / RATE, "as slowly as without the wait"
    finally:
        stop.set()
        mariadb.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")


def test_a_feed_that_says_nothing_falls_back_and_a_shop_that_closes_waits_no_more() -> None:
    stop = threading.Event()
    pace = Pace(stop, lambda _: None, most=0.01)
    pace.look(0.0)
    assert pace.hold() < 0.01
    time.sleep(0.02)  # it is what the feed takes to start
    pace.look(None)
    stop.set()
    pace.hold()
    assert not pace._goes_on.is_set()


@pytest.mark.proof
@pytest.mark.timeout(END_SECONDS + 200)
def test_a_busy_machine_does_not_keep_the_demo_from_its_end() -> None:
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin) for _ in range(OTHERS)]
    try:
        done = subprocess.run(
            [*COMMAND, "demo"], capture_output=True, encoding="utf-8", timeout=END_SECONDS, check=False
        )
    finally:
        for one in others:
            one.kill()
            one.wait()
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "differences" in done.stdout
