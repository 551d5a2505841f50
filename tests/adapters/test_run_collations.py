"""A table that is made while a feed runs has the source's collations at a target whose defaults are others: a key there
that takes more texts as equal would have one row written over another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig

NO_PAD = {"mariadb": "utf8mb4_nopad_bin", "mysql": "utf8mb4_0900_bin"}
ROWS = "VALUES ('a', 1), ('A', 2), ('\u00df', 3), ('ss', 4)"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("mariadb", "mysql"),
        pytest.param("mysql", "mariadb", marks=pytest.mark.proof),
    ],
)
def test_keys_of_tables_whose_collation_is_a_default(
    source: str, target: str, make_rig: Callable[..., Rig], request: pytest.FixtureRequest
) -> None:
    rig = make_rig(request.getfixturevalue(source), request.getfixturevalue(target), "collated")
    rig.at_source(f"ALTER DATABASE {rig.schema} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    rig.at_target(f"ALTER DATABASE {rig.schema} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    rig.table("base", "id int PRIMARY KEY")
    rig.catch_up()
    rig.tables = ["of_database", "of_table", "of_another", "renamed"]
    lacking = NO_PAD[source]
    rig.at_source(
        "CREATE TABLE of_database (k varchar(20) PRIMARY KEY, v int)",
        "CREATE TABLE of_table (k varchar(20) PRIMARY KEY, v int) DEFAULT CHARSET latin1 COLLATE latin1_bin",
        f"CREATE TABLE of_another (k varchar(20) PRIMARY KEY, v int) COLLATE {lacking}",
        "CREATE TABLE gone (k varchar(20) PRIMARY KEY, v int)",
        *(f"INSERT INTO {name} {ROWS}" for name in ("of_database", "of_table", "of_another", "gone")),
        "INSERT INTO of_another VALUES ('a ', 5)",
        "RENAME TABLE gone TO renamed",
    )
    rig.catch_up()
    rig.assert_exact()
    collations = rig.rows(
        "SELECT TABLE_NAME, COLLATION_NAME FROM information_schema.COLUMNS "
        f"WHERE TABLE_SCHEMA = '{rig.schema}' AND COLUMN_NAME = 'k' ORDER BY 1"
    )
    assert collations == [
        ("of_another", NO_PAD[target]),
        ("of_database", "utf8mb4_bin"),
        ("of_table", "latin1_bin"),
        ("renamed", NO_PAD[target]),
    ]
