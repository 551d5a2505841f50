"""Writes `docs/reference/schema-changes.md`: what becomes of each schema change, for each pair of databases.

Each cell is what the program itself makes of the statement: `tidelock ddl plan` for a source with statements in its
log, the comparison of two forms for PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tidelock.adapters.app.ddl_plan import PlannedStatement, ddl_plan
from tidelock.adapters.config.loader import read
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.postgres.logical.relation_catalogue import ColumnFacts
from tidelock.adapters.postgres.logical.relation_changes import (
    ComputedColumn,
    Form,
    FormColumn,
    changed,
    removed,
)
from tidelock.adapters.reference.change_outcomes import PASSED, outcomes
from tidelock.adapters.reference.told_changes import told_lines
from tidelock.adapters.reference.untold_changes import untold_lines
from tidelock.engine.model.records import Column, Kind, TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable, UniqueKey

_TEXT: Final = """\
# Schema changes

What a feed makes of the source's schema changes. Every cell is made by the program:
`python -m tidelock.adapters.reference.schema_changes > docs/reference/schema-changes.md`.

- **applied**: the same change is made at the target, between MySQL and MariaDB.
- **translated**: the same change is made in the target's own words.
- **passed**: it means nothing to the rows at the target, which stays as it is. Rows go on.
- **halts**: the feed stops before it, says what it is and what to do, and goes on after `tidelock ddl done` or `skip`.

Whatever is not read word by word halts; so does a text of which a backslash makes it uncertain where it ends. Comments
for certain versions are read as the server did that logged them. MODIFY, CHANGE and CONVERT are as they are in strict
mode, the servers' default. What is applied or translated by itself can be changed for a feed with
[`ddl`](config.md#ddl); [what each does in detail](../explanation/schema-changes.md). Tables: `t` with `id` as its key,
`a int` with a unique index, `b varchar(9)` of latin1, `c enum('x','y')`.

## From MySQL and MariaDB

| statement | → MySQL, MariaDB | → PostgreSQL | why it halts |
|---|---|---|---|
"""
_POSTGRES: Final = """
In feeds between sites (`sites:`) all but CREATE TABLE, ADD COLUMN, TRUNCATE and what passes halts, as it does of a
table whose rows several tables of the source share; indexes that are not unique and defaults pass there. MariaDB logs
a CREATE TABLE … SELECT as a CREATE TABLE and rows, which are followed.

## From PostgreSQL

PostgreSQL's log has no statements: a change shows in the form of the table that its rows tell, or that the catalogue
shows. Columns are known by their numbers,
[where these are certain](../explanation/schema-changes.md#from-postgresql).
What rows do not depend on is not told, and passes. A feed sees a change in the catalogue when it begins, and every
half a minute.

| change | → PostgreSQL | → MySQL, MariaDB | why it halts |
|---|---|---|---|
"""
_TOLD: Final = """
## From PostgreSQL with event triggers

`tidelock ddl install FEED` ([how to](../how-to/postgres-source.md#event-triggers)): each command tells in the log what
it has made of tables, at its place among the rows. Then it makes no difference how far the feed is behind, how often a
table was changed since, or which names were exchanged in several commands.

| change | → PostgreSQL | → MySQL, MariaDB | why it halts |
|---|---|---|---|
"""
TABLE: Final = (
    "CREATE TABLE t (id int PRIMARY KEY, a int, b varchar(9), c enum('x','y'), UNIQUE KEY by_a (a)) CHARSET latin1;\n"
)
BESIDE: Final = "CREATE TABLE u (id int PRIMARY KEY); CREATE TABLE new (id int PRIMARY KEY);\n"
_STATEMENTS: Final = """\
CREATE TABLE n (id int PRIMARY KEY, a int)
CREATE TABLE n (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES t (id))
CREATE TABLE n (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE)
CREATE TABLE n (id int PRIMARY KEY, a int AS (id + 1), UNIQUE (a))
CREATE TABLE n (id serial, p point, f float(7,3), KEY ((f + 1)))
CREATE TABLE n (id int PRIMARY KEY, a int DEFAULT 5, b varchar(9) DEFAULT 'x', KEY (b(4) DESC, a), KEY (a))
CREATE TABLE n (id int) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))
CREATE TABLE n (id int PRIMARY KEY, a int /*!80023 INVISIBLE */)
CREATE TEMPORARY TABLE n (id int)
CREATE TABLE n LIKE t
CREATE TABLE n SELECT * FROM t
CREATE OR REPLACE TABLE t (id int PRIMARY KEY)
DROP TABLE t
RENAME TABLE t TO n
ALTER TABLE t RENAME TO n
RENAME TABLE t TO old, new TO t
RENAME TABLE t TO swap, u TO t, swap TO u
TRUNCATE TABLE t
ALTER TABLE t TRUNCATE PARTITION p
ALTER TABLE t ADD COLUMN d int
ALTER TABLE t ADD COLUMN d int NOT NULL DEFAULT 5 AFTER id
ALTER TABLE t ADD COLUMN d int UNIQUE
ALTER TABLE t ADD COLUMN d timestamp DEFAULT CURRENT_TIMESTAMP
ALTER TABLE t ADD COLUMN d datetime DEFAULT CURRENT_TIMESTAMP
ALTER TABLE t ADD COLUMN d datetime(6) DEFAULT CURRENT_TIMESTAMP(6)
ALTER TABLE t ADD COLUMN d int AS (a + 1)
ALTER TABLE t ADD COLUMN d varchar(20) AS (CONCAT(b, '-', b)) STORED, ADD INDEX (d)
ALTER TABLE t ADD COLUMN d int AS (a / 2)
ALTER TABLE t ADD COLUMN d int AUTO_INCREMENT UNIQUE
ALTER TABLE t DROP COLUMN b
ALTER TABLE t RENAME COLUMN a TO d
ALTER TABLE t DROP COLUMN a, RENAME COLUMN b TO a
ALTER TABLE t ADD COLUMN d int, DROP COLUMN b, ADD UNIQUE (a, d)
ALTER TABLE t MODIFY a bigint NOT NULL AFTER id
ALTER TABLE t MODIFY a smallint
ALTER TABLE t MODIFY a decimal(12,2)
ALTER TABLE t MODIFY a varchar(20)
ALTER TABLE t MODIFY b varchar(20)
ALTER TABLE t MODIFY b varchar(5)
ALTER TABLE t MODIFY b char(9)
ALTER TABLE t MODIFY b text
ALTER TABLE t MODIFY b varchar(9) CHARACTER SET utf8mb4
ALTER TABLE t MODIFY b varchar(9) CHARACTER SET ascii
ALTER TABLE t MODIFY b varchar(9) AFTER id
ALTER TABLE t MODIFY c enum('x','y','z') NOT NULL
ALTER TABLE t MODIFY c enum('y','x')
ALTER TABLE t CHANGE a d bigint
ALTER TABLE t ALTER COLUMN a SET DEFAULT 5
ALTER TABLE t ALTER COLUMN a SET DEFAULT (1 + 1)
ALTER TABLE t ADD INDEX by_b (b)
CREATE INDEX by_b ON t (b)
ALTER TABLE t ADD INDEX (b(4) DESC, a)
ALTER TABLE t ADD INDEX ((a + 1))
ALTER TABLE t ADD FULLTEXT INDEX (b)
ALTER TABLE t ADD UNIQUE KEY u (b)
CREATE UNIQUE INDEX u ON t (b)
ALTER TABLE t ADD UNIQUE KEY u (b(4))
DROP INDEX by_a ON t
ALTER TABLE t RENAME INDEX by_a TO u
ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)
ALTER TABLE t DROP PRIMARY KEY
ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (id)
ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (id) ON DELETE SET NULL
ALTER TABLE t ADD CONSTRAINT k CHECK (a > 0)
ALTER TABLE t DROP CONSTRAINT k
ALTER TABLE t ALTER CHECK k NOT ENFORCED
ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4
ALTER TABLE t DEFAULT CHARACTER SET utf8mb4
ALTER TABLE t COMMENT 'x', ENGINE=InnoDB, AUTO_INCREMENT=5
ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 4
ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (9))
ALTER TABLE t DROP PARTITION p
ALTER TABLE t EXCHANGE PARTITION p WITH TABLE n
CREATE DATABASE other
DROP DATABASE shop
CREATE VIEW v AS SELECT 1
CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET @a = 1
CREATE PROCEDURE p() SELECT 1
CREATE USER someone""".splitlines()
_FEED: Final = "feed: f\nsource: {source}://u:p@source:1\ntarget: {target}\ntables: [{{source: shop.*}}]\n"
TARGETS: Final = {
    "mysql": "mysql://u:p@target:1", "mariadb": "mariadb://u:p@target:1", "postgresql": "postgresql://u:p@target:1/d",
}  # fmt: skip


def planned(statement: str, source: str, target: str) -> PlannedStatement:
    """Returns what a feed makes of a statement, with the table that the page speaks of."""
    feed = read(_FEED.format(source=source, target=TARGETS[target]), Path("feed.yaml"))
    return ddl_plan(TABLE + BESIDE + statement, feed)[-1]


def statements() -> list[str]:
    """Returns the statements that the page is about."""
    return list(_STATEMENTS)


# ------------------------------------------------------------------ PostgreSQL

_INT, _BIGINT, _LONGER = 23, 20, 1043
_NAME: Final = TableName("public", "t")
_ID, _A, _B = (FormColumn(name, _INT, -1, "integer", n) for n, name in enumerate(("id", "a", "b"), 1))
_FORM: Final = Form(1, _NAME, (_ID, _A, _B), ("id",))
_UNSURE: Final = replace(_FORM, columns=(_ID, _A, replace(_B, name="d")))
_UNSEEN: Final = replace(_FORM, columns=(_ID, _A, FormColumn("d", _INT, -1, "integer", 4)))


def _widened(facts: ColumnFacts) -> tuple[Form, ColumnFacts]:
    return replace(_FORM, columns=(*_FORM.columns, FormColumn("d", _INT, -1, "integer", 4))), facts


_CHANGES: Final[tuple[tuple[str, Form | None, ColumnFacts], ...]] = (
    ("ADD COLUMN, which may be NULL", *_widened(ColumnFacts(4))),
    ("ADD COLUMN with a constant default", *_widened(ColumnFacts(4, has_default=True, fill="5"))),
    ("ADD COLUMN with another default", *_widened(ColumnFacts(4, has_default=True))),
    ("DROP COLUMN", replace(_FORM, columns=(_ID, _A)), ColumnFacts(0)),
    ("RENAME COLUMN", replace(_FORM, columns=(_ID, _A, replace(_B, name="d"))), ColumnFacts(3)),
    ("RENAME COLUMN of the key", replace(_FORM, columns=(replace(_ID, name="d"), _A, _B), primary_key=("d",)),
     ColumnFacts(1)),
    ("RENAME COLUMN, DROP COLUMN and ADD COLUMN at once, seen before the next row",
     replace(_FORM, columns=(_ID, replace(_A, name="d"), FormColumn("e", _INT, -1, "integer", 4))), ColumnFacts(4)),
    ("DROP COLUMN and ADD COLUMN of one name, seen before the next row",
     replace(_FORM, columns=(_ID, _A, FormColumn("b", _INT, -1, "integer", 4))), ColumnFacts(4)),
    ("DROP COLUMN and ADD COLUMN at once, and a row right behind", _UNSEEN, ColumnFacts(4)),
    ("RENAME COLUMN that exchanges two names",
     replace(_FORM, columns=(_ID, replace(_A, name="b"), replace(_B, name="a"))), ColumnFacts(3)),
    ("RENAME, DROP or ADD COLUMN, where the table was changed again before its next row was read", _UNSURE,
     ColumnFacts(3)),
    ("ALTER COLUMN … TYPE",
     replace(_FORM, columns=(_ID, _A, replace(_B, type=_BIGINT, spelled="bigint"))), ColumnFacts(3)),
    ("another primary key", replace(_FORM, primary_key=("id", "a")), ColumnFacts(0)),
    ("ADD COLUMN … GENERATED", replace(_FORM, computed=(ComputedColumn("g", 4, "a + 1"),)), ColumnFacts(4)),
    ("ALTER TABLE … RENAME TO, SET SCHEMA", replace(_FORM, name=TableName("public", "n")), ColumnFacts(0)),
    ("DROP TABLE", None, ColumnFacts(0)),
    ("DROP and CREATE TABLE of one name", replace(_FORM, oid=2), ColumnFacts(0)),
    ("NOT NULL, CHECK, DEFAULT, indexes, foreign keys, comments, VACUUM FULL, CLUSTER", _FORM, ColumnFacts(0)),
)  # fmt: skip


def changes() -> dict[str, tuple[str, str, str]]:
    """Returns what becomes of each change at PostgreSQL and at MySQL, and why it halts."""
    forms = {name: _of_form(after, facts) for name, after, facts in _CHANGES}
    return {**forms, "TRUNCATE": ("applied", "applied", "")}


def _of_form(after: Form | None, facts: ColumnFacts) -> tuple[str, str, str]:
    """Returns what becomes of a change at PostgreSQL and at MySQL, and why it halts."""
    if after is None:
        return outcomes(removed(_FORM, None), _target)
    columns = [Column(one.name, Kind.INT, length=4, type=one.spelled) for one in after.columns]
    of_columns = {one.name: replace(facts, number=one.number) for one in after.columns}
    found = changed(_FORM, after, of_columns, columns, certain=all(after is not one for one in (_UNSURE, _UNSEEN)))
    return PASSED if found is None else outcomes(found, _target)


def _target(dialect: Dialect) -> TargetTable:
    columns = tuple(TargetColumn(one.name, "int" if dialect == "mysql" else "integer") for one in _FORM.columns)
    key = UniqueKey("PRIMARY" if dialect == "mysql" else "t_pkey", ("id",))
    return TargetTable(_NAME, columns, ("id",), (key,))


def reference() -> str:
    """Returns the page."""
    lines = []
    for statement in _STATEMENTS:
        same, postgres = (planned(statement, "mariadb", target) for target in ("mysql", "postgresql"))
        why = next((one.why.partition(". ")[0] for one in (same, postgres) if one.outcome == "halts"), "")
        why = why.replace(f": {statement}", "").partition(" (it would")[0]
        lines.append(f"| `{statement}` | {same.outcome} | {postgres.outcome} | {why} |\n")
    forms = list(map(_line, ((name, *cells) for name, cells in changes().items())))
    untold = map(_line, untold_lines())
    return "".join([_TEXT, *lines, _POSTGRES, *forms, *untold, _TOLD, *map(_line, told_lines())])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    print(reference(), end="")
