"""Tables that refer to each other in a ring are copied: one key of the ring comes behind the rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres
from tidelock.adapters.app.init_plan import init_plan
from tidelock.adapters.config.loader import load

RING = """CREATE TABLE staff (id bigint PRIMARY KEY, store bigint NOT NULL, boss bigint REFERENCES staff (id));
CREATE TABLE store (id bigint PRIMARY KEY, manager bigint REFERENCES staff (id) ON DELETE SET NULL);
ALTER TABLE staff ADD FOREIGN KEY (store) REFERENCES store (id)"""
MYSQL_RING = """CREATE TABLE store (id bigint PRIMARY KEY, manager bigint);
CREATE TABLE staff (id bigint PRIMARY KEY, store bigint NOT NULL, boss bigint, FOREIGN KEY (boss) REFERENCES staff (id),
FOREIGN KEY (store) REFERENCES store (id));
ALTER TABLE store ADD FOREIGN KEY (manager) REFERENCES staff (id) ON DELETE SET NULL"""
ROWS = ("INSERT INTO store VALUES (1, NULL)", "INSERT INTO staff VALUES (1, 1, NULL)", "UPDATE store SET manager = 1",
        "INSERT INTO staff VALUES (2, 1, 1)")  # fmt: skip


@pytest.mark.parametrize("way", [("mariadb", "postgres"), ("postgres_source", "mariadb")], ids="-".join)
def test_a_ring_of_foreign_keys_is_copied(
    request: pytest.FixtureRequest, way: tuple[str, str], make_rig: Callable[..., Rig]
) -> None:
    source, target = (request.getfixturevalue(name) for name in way)
    rig = make_rig(source, target, "ring")
    of_postgres = isinstance(source, Postgres)
    rig.at_source(*(RING if of_postgres else MYSQL_RING).split(";"), *ROWS)
    rig.tables = ["staff", "store"]
    rig.start_at = "copy"
    waiting = [one.sql for one in asyncio.run(init_plan(load(rig.feed))) if one.later and "FOREIGN" in one.sql]
    # MariaDB's log has not what an action changes, so the target's must be there.
    assert len(waiting) == 1 and ("staff" in waiting[0].split("ADD")[0]) is not of_postgres, waiting
    assert rig.command("init", "@", "--apply").code == 0
    rig.catch_up()
    rig.assert_exact()
    process = rig.run()
    try:
        until(lambda: rig.command("status").code == 0, "the feed runs", 60)
        refused = rig.command("init", "@", "--indexes", "--apply")
        assert refused.code == 1 and "it orders changes by the keys" in refused.err
    finally:
        process.stop()
    assert rig.command("init", "@", "--indexes", "--apply").code == 0
    plan = asyncio.run(init_plan(load(rig.feed), indexes=True))
    assert [one for one in plan if one.side == "target" and one.applied] == []
    rig.at_source("INSERT INTO staff VALUES (3, 1, 2)", "UPDATE store SET manager = 3")
    rig.at_source("DELETE FROM staff WHERE id = 3")
    rig.catch_up()
    rig.assert_exact()
