"""Forms of statements in the middle of row changes: what a feed reads of them is what the server made of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until

MYSQL = r"""
CREATE TABLE forms (
  id serial COMMENT 'C:\x', /*!80000 a int, */ /*!99999 b nothing, */ twice int AS (a * 2) VIRTUAL,
  kept varchar(20) GENERATED ALWAYS AS (concat('<', n, '>')) STORED, n char varying(9) CHARACTER SET 'utf8mb4',
  f float(7,3), r real, m nchar(4), bytes blob(45), long_ long varbinary, d double precision(9,4) unsigned,
  e enum('it''s','b') DEFAULT _utf8mb4'b', place point SRID 4326, flags bit(3) DEFAULT b'101',
  at datetime DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY named (id) USING BTREE COMMENT 'key', UNIQUE KEY by_kept (kept), KEY by_sum ((a + 1)) INVISIBLE,
  UNIQUE KEY by_n (n ASC), CONSTRAINT positive CHECK (a > 0) NOT ENFORCED
) ENGINE = InnoDB STATS_PERSISTENT = 1;
INSERT INTO forms (a, n, f, r, m, bytes, long_, d, place) VALUES (5, 'x', 1.5, 0.1, 'é', 'ab', 'cd', 2.25,
  ST_SRID(POINT(1, 2), 4326)), (-6, 'y', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
UPDATE forms SET a = 7, n = 'z', e = 'it''s' WHERE id = 2;
ALTER TABLE forms ADD (more int, KEY by_more (more), UNIQUE KEY by_pair (a, n)), COMMENT = "E:\x";
INSERT INTO forms (a, n, more) VALUES (8, 'w', 9);
CREATE TABLE ranged (id int, v varchar(9) COLLATE 'utf8mb4_bin') PARTITION BY RANGE (id) (
  PARTITION low VALUES LESS THAN (10), PARTITION high VALUES LESS THAN MAXVALUE);
ALTER TABLE ranged ADD PRIMARY KEY named (id), ADD CHECK (v <> 'a\b') ENFORCED;
INSERT INTO ranged VALUES (1, 'x'), (100, 'y');
CREATE TEMPORARY TABLE held (id int);
INSERT INTO held VALUES (77);
DROP TEMPORARY TABLE held;
UPDATE held SET v = 2
"""


MARIADB = r"""
CREATE TABLE forms (
  id serial KEY, /*M!100100 a int COMMENT 'C:\x', */ /*!80023 b nothing, */ /*!50100 n varchar(9), */
  twice int GENERATED ALWAYS AS (a * 2) VIRTUAL, kept varchar(20) AS (concat('<', n, '>')) PERSISTENT,
  c int DEFAULT (a + 1) CHECK (c > 1), f float(24) DEFAULT 0.5, KEY by_c (c) IGNORED, UNIQUE by_kept (kept)
) PAGE_CHECKSUM = 1;
INSERT INTO forms (a, n) VALUES (5, 'x'), (6, 'y');
UPDATE forms SET a = 7, n = 'z' WHERE id = 2;
ALTER TABLE forms ADD INDEX IF NOT EXISTS by_a (a), ADD UNIQUE IF NOT EXISTS by_n (n);
DELETE FROM forms WHERE id = 1;
INSERT INTO forms (a, n) VALUES (9, 'x');
CREATE OR REPLACE TABLE held (id int PRIMARY KEY, w varchar(9));
INSERT INTO held VALUES (1, 'new')
"""
PAIRS = {
    ("mysql", "postgres"): (MYSQL, ["forms", "ranged"]),
    ("mysql", "mariadb"): (MYSQL, ["forms", "ranged"]),
    ("mariadb", "postgres"): (MARIADB, ["forms"]),
}


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_forms_among_rows(
    pair: tuple[str, str], request: pytest.FixtureRequest, make_rig: Callable[..., Rig]
) -> None:
    source, target = map(request.getfixturevalue, pair)
    statements, made = PAIRS[pair]
    rig = make_rig(source, target, "forms", lanes=2)
    rig.table("held", "id int PRIMARY KEY, v int")
    rig.rules = [{"source": f"{rig.schema}.*"}]
    rig.catch_up()
    process = rig.run()
    rig.at_source("INSERT INTO held VALUES (1, 1)", *statements.strip().split(";\n"))
    rig.tables += made
    until(rig.equal, "equal ends", 60)
    process.stop()
    rig.assert_exact()
    assert str(rig.rows(f"SELECT count(*) FROM {rig.schema}.forms WHERE twice = 2 * a")[0][0]) in "23"
