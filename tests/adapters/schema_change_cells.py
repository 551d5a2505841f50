"""What each statement of the page on schema changes needs at its source, and what an operator does where it halts.

The statements are those of the page itself, so one that is new there is run as it stands until it needs a line here.
"""

from __future__ import annotations

import dataclasses
from typing import Final

_RANGES: Final = (
    "DROP INDEX by_a ON t",
    "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION o VALUES LESS THAN (2), PARTITION p VALUES LESS THAN (4))",
)
FIRST: Final[dict[str, tuple[str, ...]]] = {
    "ALTER TABLE t TRUNCATE PARTITION p": _RANGES,
    "ALTER TABLE t DROP PARTITION p": _RANGES,
    "ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (9))": (
        "DROP INDEX by_a ON t", "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION o VALUES LESS THAN (4))",
    ),
    "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE n": (
        _RANGES[0], "CREATE TABLE n LIKE t", "INSERT INTO n VALUES (2, 8, 'other', 'x')", _RANGES[1],
    ),
    "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 4": ("DROP INDEX by_a ON t",),
    "ALTER TABLE t ADD COLUMN d datetime DEFAULT CURRENT_TIMESTAMP": ("SET time_zone = 'SYSTEM'",),
    "ALTER TABLE t DROP CONSTRAINT k": ("ALTER TABLE t ADD CONSTRAINT k CHECK (a > 0)",),
    "ALTER TABLE t ALTER CHECK k NOT ENFORCED": ("ALTER TABLE t ADD CONSTRAINT k CHECK (a > 0)",),
    "ALTER TABLE t MODIFY b varchar(5)": ("UPDATE t SET b = 'abcd ' WHERE id = 1",),
    "ALTER TABLE t MODIFY b varchar(9) CHARACTER SET ascii": ("UPDATE t SET b = 'e' WHERE id = 2",),
}  # fmt: skip
"""Statements before it, without which the source would refuse it, or the log would tell more than the page takes it to.
"""
REFUSED: Final[dict[str, tuple[str, ...]]] = {
    "CREATE TABLE n (id serial, p point, f float(7,3), KEY ((f + 1)))": ("mariadb",),
    "CREATE OR REPLACE TABLE t (id int PRIMARY KEY)": ("mysql",),
    "ALTER TABLE t ALTER CHECK k NOT ENFORCED": ("mariadb",),
    "ALTER TABLE t ADD INDEX ((a + 1))": ("mariadb",),
}
"""Kinds of source that have no such statement."""
LOGGED: Final[dict[str, dict[str, str]]] = {
    "CREATE TABLE n SELECT * FROM t": {"mysql": "START TRANSACTION", "mariadb": ""},
}
"""Words that a kind of source logs in the place of the statement; '': another statement, and rows, which are followed.
"""
AGAIN: Final[dict[str, tuple[str, ...]]] = {
    "DROP DATABASE shop": ("CREATE DATABASE shop", "USE shop", "CREATE TABLE pulse (id int PRIMARY KEY)"),
    "ALTER TABLE t ADD COLUMN d datetime DEFAULT CURRENT_TIMESTAMP": ("SET time_zone = '+00:00'",),
}
"""Statements right behind it, without which nothing could follow, or not as the others do."""
LAST: Final[dict[str, tuple[str, ...]]] = {
    "CREATE TEMPORARY TABLE n (id int)": ("DROP TEMPORARY TABLE n",),
    "CREATE DATABASE other": ("DROP DATABASE other",),
    "CREATE VIEW v AS SELECT 1": ("DROP VIEW v",),
    "CREATE PROCEDURE p() SELECT 1": ("DROP PROCEDURE p",),
    "CREATE USER someone": ("DROP USER someone",),
    "ALTER TABLE t ADD COLUMN d datetime DEFAULT CURRENT_TIMESTAMP": ("SET time_zone = '+00:00'",),
}
"""Statements that take away what is no table."""


@dataclasses.dataclass(frozen=True)
class ByHand:
    """What an operator does at the target where the feed halts; None: the source's own statement.  `copied`: the
    tables whose values are brought anew beside the feed."""

    mysql: tuple[str, ...] | None
    postgres: tuple[str, ...]
    copied: tuple[str, ...] = ()


_TEXT_TYPE: Final = "ALTER TABLE t ALTER COLUMN {0} TYPE {1} USING {0}::{1}"
_GONE: Final = ("DELETE FROM t WHERE id BETWEEN 2 AND 3",)
BY_HAND: Final[dict[str, ByHand]] = {
    "CREATE TABLE n (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE)": ByHand(
        None, ("CREATE TABLE n (id int PRIMARY KEY, p int REFERENCES t (id) ON DELETE CASCADE)",)
    ),
    "CREATE TABLE n SELECT * FROM t": ByHand(
        ("CREATE TABLE n (id int, a int, b varchar(9), c enum('x','y')) CHARSET latin1",),
        ("CREATE TABLE n (id int, a int, b varchar(9), c text)",),
    ),
    "RENAME TABLE t TO swap, u TO t, swap TO u": ByHand(None, ()),
    "ALTER TABLE t TRUNCATE PARTITION p": ByHand(_GONE, _GONE),
    "ALTER TABLE t DROP PARTITION p": ByHand(_GONE, _GONE),
    "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE n": ByHand((), (), ("t", "n")),
    "ALTER TABLE t ADD COLUMN d datetime DEFAULT CURRENT_TIMESTAMP": ByHand(
        None, ("ALTER TABLE t ADD COLUMN d timestamp(0)",), ("t",)
    ),
    "ALTER TABLE t ADD COLUMN d datetime(6) DEFAULT CURRENT_TIMESTAMP(6)": ByHand(
        None, ("ALTER TABLE t ADD COLUMN d timestamp(6)",), ("t",)
    ),
    "ALTER TABLE t ADD COLUMN d int AS (a / 2)": ByHand(
        ("ALTER TABLE t ADD COLUMN d int",), ("ALTER TABLE t ADD COLUMN d int",), ("t",)
    ),
    "ALTER TABLE t ADD COLUMN d int AUTO_INCREMENT UNIQUE": ByHand(
        ("ALTER TABLE t ADD COLUMN d int UNIQUE",), ("ALTER TABLE t ADD COLUMN d int UNIQUE",), ("t",)
    ),
    "ALTER TABLE t DROP COLUMN a, RENAME COLUMN b TO a": ByHand(None, ()),
    "ALTER TABLE t MODIFY a varchar(20)": ByHand(None, (_TEXT_TYPE.format("a", "varchar(20)"),), ("t",)),
    "ALTER TABLE t MODIFY b varchar(5)": ByHand(None, (_TEXT_TYPE.format("b", "varchar(5)"),), ("t",)),
    "ALTER TABLE t MODIFY b char(9)": ByHand(None, (), ("t",)),
    "ALTER TABLE t MODIFY b varchar(9) CHARACTER SET ascii": ByHand(None, (), ("t",)),
    "ALTER TABLE t MODIFY c enum('y','x')": ByHand(None, (), ("t",)),
    "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (id) ON DELETE SET NULL": ByHand(
        None, ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (id) ON DELETE SET NULL",)
    ),
    "ALTER TABLE t DROP CONSTRAINT k": ByHand((), ()),
    "ALTER TABLE t ALTER CHECK k NOT ENFORCED": ByHand((), ()),
}
