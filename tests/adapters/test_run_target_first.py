"""A change that is made at the target first, then at the source: each kind is found to be done, and rows go on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.altering import Altering
from bench.harness.rig import Rig
from bench.harness.servers import Postgres

# At the source; at PostgreSQL, None where it is the same, '' where nothing is to be done.  `{0}`: the table, `{1}`: the
# name of an index of it, which PostgreSQL has in the schema's namespace.
CHANGES: list[tuple[str, str | None]] = [
    ("ALTER TABLE {0} ADD COLUMN d int NOT NULL DEFAULT 5", None),
    ("ALTER TABLE {0} ADD COLUMN d int, DROP COLUMN b, ADD UNIQUE KEY {1} (d)",
     "ALTER TABLE {0} ADD COLUMN d int, DROP COLUMN b, ADD CONSTRAINT {1} UNIQUE (d)"),
    ("ALTER TABLE {0} DROP COLUMN b", None),
    ("ALTER TABLE {0} RENAME COLUMN a TO d", None),
    ("ALTER TABLE {0} MODIFY a bigint", "ALTER TABLE {0} ALTER COLUMN a TYPE bigint"),
    ("ALTER TABLE {0} MODIFY b varchar(20) NOT NULL",
     "ALTER TABLE {0} ALTER COLUMN b TYPE varchar(20), ALTER COLUMN b SET NOT NULL"),
    ("ALTER TABLE {0} MODIFY id int NOT NULL, MODIFY c int NULL", "ALTER TABLE {0} ALTER COLUMN c DROP NOT NULL"),
    ("ALTER TABLE {0} CHANGE a d bigint", "ALTER TABLE {0} RENAME COLUMN a TO d;ALTER TABLE {0} ALTER d TYPE bigint"),
    ("ALTER TABLE {0} CONVERT TO CHARACTER SET utf8mb4", ""),
    ("ALTER TABLE {0} ADD UNIQUE KEY {1} (b)", "ALTER TABLE {0} ADD CONSTRAINT {1} UNIQUE (b)"),
    ("CREATE UNIQUE INDEX {1} ON {0} (b)", "CREATE UNIQUE INDEX {1} ON {0} (b)"),
    ("DROP INDEX by_c ON {0}", "ALTER TABLE {0} DROP CONSTRAINT {0}_by_c"),
    ("ALTER TABLE {0} RENAME INDEX by_c TO {1}", "ALTER TABLE {0} RENAME CONSTRAINT {0}_by_c TO {1}"),
    ("ALTER TABLE {0} DROP PRIMARY KEY, ADD PRIMARY KEY (id, c)",
     "ALTER TABLE {0} DROP CONSTRAINT {0}_pkey;ALTER TABLE {0} ADD PRIMARY KEY (id, c)"),
    ("ALTER TABLE {0} DROP PRIMARY KEY, DROP INDEX by_c",
     "ALTER TABLE {0} DROP CONSTRAINT {0}_pkey, DROP CONSTRAINT {0}_by_c"),
    ("ALTER TABLE {0} RENAME TO {0}n", None),
    ("DROP TABLE {0}", None),
    ("CREATE TABLE {0}n (id int PRIMARY KEY, a int)", None),
    ("CREATE TABLE {0}n LIKE {0}", "CREATE TABLE {0}n (LIKE {0} INCLUDING ALL)"),
]  # fmt: skip
BEHIND = {5: "id, b", 17: "id, a"}  # columns of a row that is inserted behind it
COLUMNS = "id int, a int, b varchar(9), c int NOT NULL DEFAULT 2, PRIMARY KEY (id), "


PAIRS = ("mysql-postgres", pytest.param("mysql-mariadb", marks=pytest.mark.proof))


@pytest.mark.proof
@pytest.mark.parametrize("rig", PAIRS, indirect=True)
def test_what_the_target_has_is_done(rig: Rig) -> None:
    is_postgres = isinstance(rig.target, Postgres)
    for number in range(len(CHANGES)):
        named = f"CONSTRAINT x{number}_by_c UNIQUE (c)" if is_postgres else "UNIQUE KEY by_c (c)"
        rig.table(f"x{number}", f"{COLUMNS}UNIQUE KEY by_c (c)", COLUMNS + named)
        rig.at_source(f"INSERT INTO x{number} (id, b, c) VALUES (1, 'b', 1)")
    rig.catch_up()
    for number, (at_source, at_postgres) in enumerate(CHANGES):
        made = at_source if at_postgres is None or not is_postgres else at_postgres
        index = f"x{number}_new" if is_postgres else "new"
        rig.at_target(*(words for words in made.format(f"x{number}", index).split(";") if words))
    statements = Altering(rig)
    try:
        for number, (at_source, _) in enumerate(CHANGES):
            table = f"x{number}"
            rig.at_source(at_source.format(table, "new"))
            if "DROP TABLE" in at_source:
                rig.tables.remove(table)
                continue
            if "RENAME TO" in at_source:
                rig.tables.remove(table)
            if "{0}n" in at_source:
                table = f"{table}n"
                rig.tables.append(table)
            rig.at_source(f"INSERT INTO {table} ({BEHIND.get(number, 'id, c')}) VALUES (2, 2)")
        assert rig.catch_up_code() == 0, rig.said()
        assert [words for words in statements.told() if "IF NOT EXISTS" not in words] == []
    finally:
        statements.close()
    rig.assert_exact()


@pytest.fixture
def rig(request: pytest.FixtureRequest, make_rig: Callable[..., Rig]) -> Rig:
    source, target = (request.getfixturevalue(name) for name in request.param.split("-"))
    return make_rig(source, target, "first", lanes=2)
