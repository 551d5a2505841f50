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
        ("mysql", True),
        ("mariadb", False),
    ],
)
@pytest.mark.proof
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


@pytest.mark.proof
def test_a_partition_that_is_not_logged(
    make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres
) -> None:
    """An UNLOGGED partition of a table in the publication: refused before a first run, and by one that is later."""
    rig = make_rig(postgres_source, postgres, "unlogged")
    rig.at_source(
        "CREATE TABLE item (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE item1 PARTITION OF item FOR VALUES FROM (0) TO (10)",
    )
    rig.tables, made = ["item"], "CREATE UNLOGGED TABLE item2 PARTITION OF item FOR VALUES FROM (10) TO (20)"
    rig.at_source(made)
    refused = rig.command("init", "--apply")
    assert refused.code != 0 and 'ALTER TABLE "' in refused.err and "SET LOGGED" in refused.err, refused
    rig.at_source("DROP TABLE item2")
    rig.begin_here()
    rig.at_source("INSERT INTO item VALUES (1, 'first')")
    rig.catch_up()
    rig.at_source(made, "INSERT INTO item VALUES (2, 'told'), (11, 'not told')")
    assert "partition-untold" in rig.command("check", "--json").out
    assert rig.catch_up_code() == OPERATOR, rig.said()[-2000:]
    assert "item2, a partition of" in rig.said() and "has nothing of its rows" in rig.said()
    rig.at_source("ALTER TABLE item2 SET LOGGED")
    assert rig.catch_up_code() == OPERATOR, rig.said()[-2000:]
    assert "its partition item2 was written anew since it was made" in rig.said()
    assert rig.command("ddl", "done").code == 0
    process = rig.run()
    done = tidelock("copy", str(rig.feed), "--table", f"{rig.schema}.item", "--yes", seconds=SECONDS)
    assert done.code == 0, f"{done.out} {done.err}"
    rig.at_source("INSERT INTO item VALUES (12, 'behind')")
    until(lambda: rig.equal() or not process.running, "equal ends", SECONDS)
    process.stop()
    assert rig.differences().total == 0 and rig.parked() == 0, rig.said()[-2000:]


def test_a_partition_that_is_emptied_before_it_was_seen(
    make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres
) -> None:
    """Its rows are in the log under its table's name, and its TRUNCATE is not."""
    rig = make_rig(postgres_source, postgres, "unseen")
    rig.at_source("CREATE TABLE item (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    rig.tables = ["item"]
    rig.begin_here()
    rig.catch_up()
    rig.at_source(
        "CREATE TABLE item1 PARTITION OF item FOR VALUES FROM (0) TO (10)",
        "INSERT INTO item VALUES (1, 'gone'), (2, 'gone')",
        "TRUNCATE item1",
        "INSERT INTO item VALUES (3, 'stays')",
    )
    assert rig.catch_up_code() == OPERATOR, rig.said()[-2000:]
    assert "its partition item1 was written anew since it was made" in rig.said()


def test_a_table_that_is_unlogged_for_a_while(
    make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres
) -> None:
    """A publication that does not name the table lets it be UNLOGGED, which is seen by its file.  TRUNCATE, which the
    log tells, is no reason to halt."""
    rig = make_rig(postgres_source, postgres, "awhile")
    rig.table("item", "id int PRIMARY KEY, v int")
    rig.at_source(f"CREATE PUBLICATION tidelock_{rig.name} FOR ALL TABLES WITH (publish_via_partition_root)")
    rig.begin_here()
    rig.at_source("INSERT INTO item VALUES (1, 1)", "TRUNCATE item", "INSERT INTO item VALUES (2, 2)")
    rig.catch_up()
    rig.at_source("TRUNCATE item", "INSERT INTO item VALUES (3, 3)")
    for _ in range(2):
        rig.catch_up()
    rig.at_source(
        "ALTER TABLE item SET UNLOGGED",
        "INSERT INTO item VALUES (4, 4)",
        "UPDATE item SET v = 7 WHERE id = 3",
        "ALTER TABLE item SET LOGGED",
        "INSERT INTO item VALUES (5, 5)",
    )
    for _ in range(2):
        assert rig.catch_up_code() == OPERATOR, rig.said()[-2000:]
    assert "it may have been UNLOGGED for a while" in rig.said()
    assert rig.command("ddl", "done").code == 0
    process = rig.run()
    done = tidelock("copy", str(rig.feed), "--table", f"{rig.schema}.item", "--yes", seconds=SECONDS)
    assert done.code == 0, f"{done.out} {done.err}"
    until(lambda: rig.equal() or not process.running, "equal ends", SECONDS)
    process.stop()
    assert rig.differences().total == 0 and rig.parked() == 0, rig.said()[-2000:]
