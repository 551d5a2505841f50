"""Columns that a PostgreSQL source drops and renames, while rows flow, at each kind of target."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until

# Each paragraph runs at once, so the catalogue is ahead of the log.
CHANGES = """
INSERT INTO item SELECT n, 'a' || n, 1, 'n' || n FROM generate_series(1, 50) n
ALTER TABLE item RENAME name TO title
UPDATE item SET title = 'new' || id WHERE id % 3 = 0
ALTER TABLE item DROP old
INSERT INTO item SELECT n, 'b' || n, 'n' || n FROM generate_series(51, 90) n

DELETE FROM item WHERE id % 7 = 0
ALTER TABLE item RENAME title TO label
ALTER TABLE item ADD more int DEFAULT 5
INSERT INTO item SELECT n, 'c' || n, 'n' || n, n FROM generate_series(91, 120) n
INSERT INTO moved VALUES (1, 1), (2, 2)
ALTER TABLE moved RENAME TO kept
UPDATE kept SET v = 3
ALTER TABLE item RENAME id TO number
UPDATE item SET more = number WHERE number > 40
DROP TABLE gone
INSERT INTO item VALUES (999, 'last', 'l', 9)
"""


@pytest.mark.parametrize(
    ("target", "consistency"),
    [
        ("postgres", "transaction"),
        ("mariadb", "row"),
        pytest.param("postgres", "row", marks=pytest.mark.proof),
        pytest.param("mysql", "transaction", marks=pytest.mark.proof),
    ],
)
def test_columns_and_tables_follow_between_rows(
    request: pytest.FixtureRequest, target: str, consistency: str, make_rig: Callable[..., Rig]
) -> None:
    source, there = request.getfixturevalue("postgres_source"), request.getfixturevalue(target)
    rig = make_rig(source, there, "columns", consistency=consistency)
    rig.at_source(
        "CREATE TABLE item (id int PRIMARY KEY, name varchar(20), old int DEFAULT 1, note text, UNIQUE (name))",
        "CREATE TABLE gone (id int PRIMARY KEY)",
        "CREATE TABLE moved (id int PRIMARY KEY, v int)",
    )
    rig.begin_here()
    process = rig.run()
    rig.tables = ["item", "moved"]
    rig.at_source("INSERT INTO item VALUES (0, 'first', 1, 'n')")
    until(rig.equal, "the feed has looked at the tables", 120)
    there_is = f"SELECT 1 FROM information_schema.tables WHERE table_name = 'gone' AND table_schema = '{rig.schema}'"
    for number, changes in enumerate(CHANGES.split("\n\n")):
        rig.at_source(*changes.strip().splitlines())
        rig.tables = ["item", "kept"] if number else ["item"]
        until(lambda: rig.equal() or not process.running, f"equal ends behind {changes.strip().splitlines()[0]}", 120)
        assert process.running, rig.said()
    process.stop()
    rig.catch_up()  # it looks at the tables when it begins, and not in half a minute
    assert not rig.rows(there_is), "dropped there too"
    rig.assert_exact()
