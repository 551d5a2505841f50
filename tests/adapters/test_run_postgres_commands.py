"""Schema changes of a PostgreSQL source that its event triggers tell, while rows flow, at each kind of target."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres
from bench.harness.tidelock import Process
from bench.harness.workers import Workers
from bench.harness.workload.churn import Churn
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several

# Each paragraph runs at once, so the catalogue is ahead of the log.
CHANGES = """
INSERT INTO item SELECT n, 'a' || n, n % 7, n FROM generate_series(1, 50) n
ALTER TABLE item ALTER small TYPE bigint
INSERT INTO item VALUES (60, 'wide', 3000000000, 1)
ALTER TABLE item ALTER name TYPE varchar(40)
UPDATE item SET name = repeat('x', 30) || id WHERE id < 10
ALTER TABLE item RENAME small TO free
ALTER TABLE item RENAME spare TO small
ALTER TABLE item RENAME free TO spare
UPDATE item SET small = 5, spare = 6 WHERE id % 2 = 0
ALTER TABLE item DROP small
ALTER TABLE item ADD small text DEFAULT 'new'
INSERT INTO item VALUES (61, 'y', 1, 'z')
CREATE TABLE fresh (id int PRIMARY KEY, code varchar(10) UNIQUE, v numeric(10,2) NOT NULL)
INSERT INTO fresh SELECT n, 'c' || n, n FROM generate_series(1, 20) n
CREATE TABLE bare (v varchar(10))
INSERT INTO bare VALUES ('one'), ('two'), (NULL)

DELETE FROM bare WHERE v = 'one'
ALTER TABLE fresh DROP CONSTRAINT fresh_pkey, ADD PRIMARY KEY (code)
ALTER TABLE fresh ADD CONSTRAINT both_once UNIQUE (id, v)
INSERT INTO fresh VALUES (21, 'last', 1)
UPDATE fresh SET id = id + 100 WHERE id < 5
ALTER TABLE fresh DROP CONSTRAINT both_once
ALTER TABLE fresh ADD extra int UNIQUE
INSERT INTO fresh VALUES (21, 'again', 1, 5)
DROP TABLE again
CREATE TABLE again (key int PRIMARY KEY, other text)
INSERT INTO again VALUES (1, 'another table')
ALTER TABLE item RENAME TO swap
ALTER TABLE other RENAME TO item
ALTER TABLE swap RENAME TO other
INSERT INTO item VALUES (3, 3)
INSERT INTO other VALUES (62, 'o', 1, 'p')
ALTER TABLE other ALTER name DROP NOT NULL
UPDATE other SET name = NULL WHERE id = 62
"""


def made(request: pytest.FixtureRequest, make_rig: Callable[..., Rig], target: str, consistency: str) -> Rig:
    source, there = request.getfixturevalue("postgres_source"), request.getfixturevalue(target)
    rig = make_rig(source, there, "commands", consistency=consistency)
    rig.at_source(
        "CREATE TABLE item (id int PRIMARY KEY, name varchar(20) NOT NULL, small int, spare int, UNIQUE (name))",
        "CREATE TABLE other (id int PRIMARY KEY, v int)",
        "CREATE TABLE again (id int PRIMARY KEY)",
    )
    assert rig.command("ddl", "install", "@", "--apply").code == 0, rig.said()
    return rig


@pytest.mark.parametrize(
    ("target", "consistency"),
    [
        ("postgres", "transaction"),
        ("mysql", "row"),
        pytest.param("postgres", "row", marks=pytest.mark.proof),
        pytest.param("mariadb", "transaction", marks=pytest.mark.proof),
    ],
)
def test_changes_follow_between_rows(
    request: pytest.FixtureRequest, target: str, consistency: str, make_rig: Callable[..., Rig]
) -> None:
    rig = made(request, make_rig, target, consistency)
    rig.begin_here()
    process = rig.run()
    rig.tables = ["item"]
    rig.at_source("INSERT INTO other VALUES (1, 1), (2, 2)", "INSERT INTO again VALUES (7)")
    rig.at_source("INSERT INTO item VALUES (0, 'first', 1, 1)")
    follow(rig, process)
    for number, changes in enumerate(CHANGES.split("\n\n")):
        rig.at_source(*changes.strip().splitlines())
        rig.tables = ["item", "other", "fresh", "bare", "again"][: 5 if number else 4]
        follow(rig, process)
        if not number:
            process.kill()
            process = rig.run()
    process.stop()
    rig.assert_exact()


def follow(rig: Rig, process: Process) -> None:
    until(lambda: rig.equal() or not process.running, "equal ends", 60)
    assert process.running, rig.said()[-3000:]


RATE = 100
# Each paragraph runs while a workload writes to `account` and `member`, and the coordinator is killed behind it.
UNDER_LOAD = """
ALTER TABLE member ADD note varchar(20) NOT NULL DEFAULT 'none', ADD seen int
ALTER TABLE account ADD note varchar(20)
UPDATE account SET note = 'before' WHERE id % 2 = 0

CREATE TABLE fresh (id int PRIMARY KEY, v numeric(10,2) NOT NULL)
INSERT INTO fresh SELECT n, n FROM generate_series(1, 50) n
ALTER TABLE fresh ADD late int UNIQUE

ALTER TABLE member ALTER seen TYPE bigint
UPDATE member SET seen = 5000000000 + id, note = 'wide'
ALTER TABLE member ALTER region TYPE varchar(30)
INSERT INTO fresh SELECT n, n, n FROM generate_series(51, 99) n
"""


@pytest.mark.proof
@pytest.mark.parametrize("target", ["postgres", "mysql"])
def test_workers_follow_changes_under_load(
    request: pytest.FixtureRequest, target: str, make_workers: Callable[..., Workers], postgres_source: Postgres
) -> None:
    workers = make_workers(postgres_source, request.getfixturevalue(target), "commands", 2, batch_rows=200)
    rig = workers.rig
    workload = rig.make(Several(Mix(), Churn()))
    rig.at_source(*(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in rig.tables))
    assert rig.command("ddl", "install", "@", "--apply").code == 0, rig.said()
    workers.start()
    workers.until_owned(2)
    work = rig.work(workload, 1_000_000, 5, RATE)
    try:
        workers.until_flowing()
        for changes in UNDER_LOAD.split("\n\n"):
            rig.at_source(*changes.strip().splitlines())
            workers.kill(workers.coordinator)
            workers.until_flowing()
    finally:
        work.stop()
    rig.tables.append("fresh")
    workers.until_caught_up()
    workers.assert_exact()
    wide = f"SELECT 1 FROM information_schema.columns WHERE table_schema = '{rig.schema}' AND data_type = 'bigint'"
    assert rig.rows(f"{wide} AND table_name = 'member' AND column_name = 'seen'")
