"""Schema changes of a PostgreSQL source that its event triggers tell, while rows flow, at each kind of target."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.tidelock import Process

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
