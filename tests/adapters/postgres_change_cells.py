"""How each change of the page on schema changes is made at a PostgreSQL source, and what an operator does where it
halts.  `{t}` is the table, of `id int PRIMARY KEY, a int, b int`.
"""

from __future__ import annotations

import dataclasses
from typing import Final


@dataclasses.dataclass(frozen=True)
class Change:
    """`sql`: what makes it, in one transaction.  `name`: the table's name behind it, '' for none.  `postgres`, `mysql`:
    by hand at the target, for each halt.  `rows`: statements behind it, `seen`: once the feed has looked at the table.
    `behind`: those that run before the feed reads on."""

    sql: str
    name: str = "{t}"
    postgres: tuple[str, ...] = ()
    mysql: tuple[str, ...] = ()
    rows: tuple[str, ...] = (
        "INSERT INTO {t} (id) VALUES (5), (6)", "UPDATE {t} SET id = 7 WHERE id = 6", "DELETE FROM {t} WHERE id = 1",
    )  # fmt: skip
    behind: tuple[str, ...] = ()
    seen: bool = False


_SWAP: Final = "ALTER TABLE {t} RENAME a TO x; ALTER TABLE {t} RENAME b TO a; ALTER TABLE {t} RENAME x TO b"
CHANGES: Final[dict[str, Change]] = {
    "ADD COLUMN, which may be NULL": Change("ALTER TABLE {t} ADD d int"),
    "ADD COLUMN with a constant default": Change("ALTER TABLE {t} ADD d int NOT NULL DEFAULT 5"),
    "ADD COLUMN with another default": Change(
        "ALTER TABLE {t} ADD d int DEFAULT (random() * 100)::int",
        postgres=("ALTER TABLE {t} ADD d int",), mysql=("ALTER TABLE {t} ADD d int",),
    ),
    "DROP COLUMN": Change("ALTER TABLE {t} DROP b"),
    "RENAME COLUMN": Change("ALTER TABLE {t} RENAME b TO d"),
    "RENAME COLUMN of the key": Change(
        "ALTER TABLE {t} RENAME id TO d",
        rows=("INSERT INTO {t} (d) VALUES (5)", "UPDATE {t} SET d = 7 WHERE d = 2", "DELETE FROM {t} WHERE d = 1"),
    ),
    "RENAME COLUMN, DROP COLUMN and ADD COLUMN at once, seen before the next row": Change(
        "ALTER TABLE {t} RENAME a TO d; ALTER TABLE {t} DROP b, ADD e int DEFAULT 7", seen=True
    ),
    "DROP COLUMN and ADD COLUMN of one name, seen before the next row": Change(
        "ALTER TABLE {t} DROP b, ADD b int", mysql=("ALTER TABLE {t} DROP COLUMN b, ADD b int",), seen=True
    ),
    "DROP COLUMN and ADD COLUMN at once, and a row right behind": Change(
        "ALTER TABLE {t} DROP b, ADD d int",
        postgres=("ALTER TABLE {t} DROP b, ADD d int",), mysql=("ALTER TABLE {t} DROP COLUMN b, ADD d int",),
    ),
    "RENAME COLUMN that exchanges two names": Change(
        _SWAP, postgres=(_SWAP,), mysql=("ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a",)
    ),
    "RENAME, DROP or ADD COLUMN, where the table was changed again before its next row was read": Change(
        "ALTER TABLE {t} RENAME b TO d",
        postgres=("ALTER TABLE {t} RENAME b TO d", "ALTER TABLE {t} DROP d, ADD e int"),
        mysql=("ALTER TABLE {t} RENAME COLUMN b TO d", "ALTER TABLE {t} DROP COLUMN d, ADD e int"),
        behind=("ALTER TABLE {t} DROP d, ADD e int",),
    ),
    "ALTER COLUMN … TYPE": Change(
        "ALTER TABLE {t} ALTER b TYPE bigint USING b + 5000000000",
        postgres=("ALTER TABLE {t} ALTER b TYPE bigint",), mysql=("ALTER TABLE {t} MODIFY b bigint",),
    ),
    "another primary key": Change(
        "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (id, a)",
        postgres=("ALTER TABLE {t} DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (id, a)",),
        mysql=("ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)",),
        rows=("INSERT INTO {t} VALUES (2, 5, 5)", "UPDATE {t} SET a = 6 WHERE id = 3", "DELETE FROM {t} WHERE id = 1"),
    ),
    "ADD COLUMN … GENERATED": Change("ALTER TABLE {t} ADD g int GENERATED ALWAYS AS (a + 1) STORED"),
    "ALTER TABLE … RENAME TO, SET SCHEMA": Change(
        "ALTER TABLE {t} RENAME TO {t}_n", name="{t}_n", rows=("INSERT INTO {t}_n VALUES (5, 5, 5)",)
    ),
    "DROP TABLE": Change("DROP TABLE {t}", name="", rows=()),
    "DROP and CREATE TABLE of one name": Change(
        "DROP TABLE {t}; CREATE TABLE {t} (id int PRIMARY KEY, a int, b int); ALTER PUBLICATION {p} ADD TABLE {t}",
        postgres=("",), mysql=("",),
    ),
    "NOT NULL, CHECK, DEFAULT, indexes, foreign keys, comments, VACUUM FULL, CLUSTER": Change(
        "ALTER TABLE {t} ALTER a SET NOT NULL, ADD CHECK (a > 0), ALTER b SET DEFAULT 9, "
        "ADD FOREIGN KEY (a) REFERENCES {t} (id); CREATE UNIQUE INDEX ON {t} (a); COMMENT ON TABLE {t} IS 'x'; "
        "CLUSTER {t} USING {t}_pkey",
        rows=("INSERT INTO {t} VALUES (5, 5, 5)", "UPDATE {t} SET b = 7", "DELETE FROM {t} WHERE id = 1"),
        behind=("VACUUM FULL {t}", "UPDATE {t} SET b = 8"),
    ),
    "TRUNCATE": Change("TRUNCATE {t}"),
}  # fmt: skip
