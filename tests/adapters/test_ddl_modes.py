"""Session modes in which a statement's words mean other types or values: such a statement is not followed."""

from __future__ import annotations

import contextlib

import pytest

from bench.harness.servers import MariaDb
from bench.harness.session import connect
from tidelock.adapters.ddl.classify import classify
from tidelock.engine.model.schema_change import Ddl, DdlKind

REAL, ORACLE, EMPTY = 1, 1 << 9, 1 << 32
NAMED = {REAL: "REAL_AS_FLOAT", ORACLE: "ORACLE", EMPTY: "EMPTY_STRING_IS_NULL"}
OTHERS = [
    ("ALTER TABLE t MODIFY a real", REAL, True, True),
    ("ALTER TABLE t ADD a int, ADD b REAL NOT NULL", REAL, True, True),
    ("CREATE TABLE t (id int PRIMARY KEY, a real)", REAL, True, True),
    ("ALTER TABLE t ADD `real` double", REAL, False, False),
    ("ALTER TABLE t ADD a date", ORACLE, False, True),
    ("CREATE TABLE t (id int PRIMARY KEY, b blob)", ORACLE, False, True),
    ("ALTER TABLE t ADD a datetime", ORACLE, False, False),
    ("ALTER TABLE t ADD a varchar(9) DEFAULT ''", EMPTY, False, True),
    ("ALTER TABLE t ADD a varchar(9) DEFAULT 'x'", EMPTY, False, False),
    ("SET STATEMENT sql_mode='ORACLE' FOR ALTER TABLE t ADD a date", 0, False, True),
    ("SET STATEMENT max_statement_time=5 FOR ALTER TABLE t ADD a date", 0, False, False),
]


@pytest.mark.parametrize(("statement", "mode", "mysql", "mariadb"), OTHERS)
def test_a_statement_is_read_by_the_mode_that_it_ran_in(statement: str, mode: int, mysql: bool, mariadb: bool) -> None:
    ddl = Ddl("shop", statement, "0-1", 7, sql_mode=mode)
    assert [classify(ddl, server).kind is DdlKind.OTHER for server in ("mysql", "mariadb")] == [mysql, mariadb]
    usual = classify(Ddl("shop", statement.rpartition(" FOR ")[2], "0-1", 7, sql_mode=0), "mariadb")
    assert usual.kind is not DdlKind.OTHER


@pytest.mark.parametrize("mode", [REAL, ORACLE, EMPTY])
def test_the_bits_are_those_of_the_server(mode: int, mariadb: MariaDb) -> None:
    with contextlib.closing(connect(mariadb.url())) as session:
        session.send(f"SET sql_mode = {mode}")
        assert NAMED[mode] in str(session.rows("SELECT @@sql_mode")[0][0])
