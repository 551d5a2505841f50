"""Options of a table that follow one another in a statement, and columns that the source computes."""

from __future__ import annotations

import pytest

from tidelock.adapters.reference.schema_changes import planned

ASCII = "ascii may lack characters of latin1"
WIDER = "ALTER TABLE `shop`.`t` MODIFY COLUMN `b` varchar(9) CHARACTER SET utf8mb4 NULL"
CASES = [
    ("ALTER TABLE t DEFAULT CHARSET ascii, MODIFY b varchar(9)", "halts", ASCII),
    ("ALTER TABLE t MODIFY b varchar(9), ENGINE=InnoDB CHARACTER SET = 'ascii'", "halts", ASCII),
    ("ALTER TABLE t COLLATE ascii_bin, MODIFY b varchar(9)", "halts", ASCII),
    ("ALTER TABLE t CHARACTER SET DEFAULT, MODIFY b varchar(9)", "halts", "default may lack characters of latin1"),
    ("ALTER TABLE t COMMENT 'x' CHARSET utf8mb4, MODIFY b varchar(9)", "applied", WIDER),
    ("ALTER TABLE t DEFAULT CHARSET ascii, MODIFY b varchar(9) CHARACTER SET latin1", "passed", ""),
    ("ALTER TABLE t COMMENT 'ENGINE=BLACKHOLE CHARSET ascii', MODIFY b varchar(9)", "passed", ""),
    ("ALTER TABLE t ENGINE=InnoDB ROW_FORMAT=DYNAMIC ENGINE=BLACKHOLE, ADD c int", "halts", "ENGINE BLACKHOLE"),
    ("ALTER TABLE t ADD d int AS (a + 1) STORED", "applied", "ADD COLUMN `d` int DEFAULT ((`a` + 1))"),
    ("ALTER TABLE t ADD d char(32) AS (MD5(b))", "halts", "would have run ALTER TABLE `shop`.`t` ADD COLUMN `d`"),
    ("ALTER TABLE t ADD n int, ADD d char(9) GENERATED ALWAYS AS (LEFT(b, 9)) VIRTUAL FIRST", "halts", "d is computed"),
]


@pytest.mark.parametrize(("statement", "outcome", "words"), CASES)
def test_what_a_statement_with_options_becomes(statement: str, outcome: str, words: str) -> None:
    found = planned(statement, "mysql", "mysql")
    assert found.outcome == outcome and words in f"{found.why} {found.runs}", found


def test_columns_that_exchange_names_at_postgresql_have_others_in_between() -> None:
    exchange = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO c, RENAME COLUMN c TO a"
    found = planned(exchange, "mysql", "postgresql")
    assert [words.partition(" RENAME COLUMN ")[2] for words in found.runs] == [
        '"a" TO "spare_0"', '"b" TO "spare_1"', '"c" TO "spare_2"',
        '"spare_0" TO "b"', '"spare_1" TO "c"', '"spare_2" TO "a"',
    ]  # fmt: skip
    assert len(planned("ALTER TABLE t RENAME COLUMN a TO d, RENAME COLUMN b TO e", "mysql", "postgresql").runs) == 2
