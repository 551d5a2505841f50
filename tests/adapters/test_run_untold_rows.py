"""Rows that a PostgreSQL source changes without a message in its log: the feed halts, and goes on as it advises."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import Postgres

OPERATOR = 4
SECONDS = 120.0


@pytest.mark.parametrize(
    ("target", "triggers"),
    [
        ("postgres", False),
        pytest.param("mysql", True, marks=pytest.mark.proof),
        pytest.param("mariadb", False, marks=pytest.mark.proof),
    ],
)
def test_a_partition_that_is_emptied(
    target: str, triggers: bool, make_rig: Callable[..., Rig], postgres_source: Postgres, request: pytest.FixtureRequest
) -> None:
    rig = make_rig(postgres_source, request.getfixturevalue(target), "untold")
    rig.at_source(
        "CREATE TABLE item (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE item1 PARTITION OF item FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE item2 PARTITION OF item FOR VALUES FROM (10) TO (20)",
    )
    if triggers:
        assert rig.command("ddl", "install", "@", "--apply").code == 0, rig.said()
    rig.begin_here()
    rig.tables = ["item"]
    rig.at_source("INSERT INTO item SELECT n, 'of ' || n FROM generate_series(1, 19) n")
    process = rig.run()
    until(rig.equal, "the first rows", SECONDS)
    rig.at_source("TRUNCATE item1", "INSERT INTO item VALUES (3, 'new')", "UPDATE item SET v = 'later' WHERE id > 15")
    process.stop()
    process = rig.run()  # it looks at the tables when it begins, and not in half a minute
    assert process.code(SECONDS) == OPERATOR, rig.said()[-2000:]
    assert "its partition item1 was emptied or written anew by itself" in rig.said()
    assert rig.command("ddl", "done").code == 0
    process = rig.run()
    done = tidelock("copy", str(rig.feed), "--table", f"{rig.schema}.item", "--yes", seconds=SECONDS)
    assert done.code == 0, f"{done.out} {done.err}"
    until(lambda: rig.equal() or not process.running, "equal ends", SECONDS)
    rig.at_source("INSERT INTO item VALUES (4, 'behind')")
    until(lambda: rig.equal() or not process.running, "rows behind it", SECONDS)
    assert process.running, rig.said()[-2000:]
    process.stop()
    assert rig.differences().total == 0 and rig.parked() == 0, rig.said()[-2000:]
