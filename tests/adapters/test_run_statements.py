"""Statements of a source that name databases and tables: those of others pass, those of the feed's own do not."""

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, Server
from bench.harness.session import connect

OPERATOR = 4

# In the session's default database, which is another than the feed's; {x} is a third one.
OTHERS = """
CREATE DATABASE {x}
CREATE DATABASE IF NOT EXISTS {x} /*!40100 DEFAULT CHARACTER SET utf8mb4 */
ALTER DATABASE {x} CHARACTER SET latin1
CREATE TABLE account (id int PRIMARY KEY, v int)
CREATE TABLE {x}.account (id int PRIMARY KEY, v int)
CREATE TABLE account2 LIKE {x}.account
CREATE TABLE account3 SELECT * FROM {x}.account
CREATE TABLE account4 LIKE {feed}.account
INSERT INTO account VALUES (1, 1)
TRUNCATE account
TRUNCATE TABLE {x}.account
/*!40000 ALTER TABLE account DISABLE KEYS */
/*!40000 ALTER TABLE account ENABLE KEYS */
ALTER TABLE account ADD w int, DROP COLUMN v
ALTER TABLE account MODIFY w bigint
CREATE UNIQUE INDEX i ON account (w)
DROP INDEX i ON account
CREATE FULLTEXT INDEX f ON account3 (t)
RENAME TABLE account2 TO {x}.account2, {x}.account TO account5
ALTER TABLE account5 RENAME TO {x}.account
CREATE VIEW shown AS SELECT * FROM {feed}.account
ALTER VIEW shown AS SELECT id FROM {feed}.account
/*!50001 DROP VIEW IF EXISTS shown */
CREATE PROCEDURE p() SELECT 1 FROM {feed}.account
ALTER PROCEDURE p COMMENT 'x'
DROP PROCEDURE {y}.p
CREATE FUNCTION f() RETURNS int DETERMINISTIC RETURN 1
DROP FUNCTION IF EXISTS f
CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DO DELETE FROM {feed}.account
ALTER EVENT e RENAME TO {x}.e
DROP EVENT {x}.e
CREATE TABLE m1 (id int)
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER g BEFORE INSERT ON m1 FOR EACH ROW SET @a=1 */
DROP TRIGGER g
CREATE SERVER s_{x} FOREIGN DATA WRAPPER mysql OPTIONS (USER 'a', HOST 'b', DATABASE '{feed}')
ALTER SERVER s_{x} OPTIONS (USER 'b')
DROP SERVER s_{x}
CREATE USER u_{x}@localhost
GRANT SELECT ON {feed}.* TO u_{x}@localhost
DROP USER u_{x}@localhost
ANALYZE TABLE account
OPTIMIZE TABLE account
REPAIR TABLE account, {x}.account
DROP TABLE IF EXISTS nothing, {x}.account2
DROP TABLE account, {x}.account, account3
DROP SCHEMA IF EXISTS nothing
/*!40000 DROP DATABASE IF EXISTS {x}*/
CREATE DATABASE `{x}`
DROP DATABASE {x}
""".strip().splitlines()
MARIADB = """
SET STATEMENT max_statement_time=9 FOR CREATE TABLE m (id int)
SET sql_mode=ANSI_QUOTES
DROP TABLE "m"
SET sql_mode=DEFAULT
CREATE SEQUENCE s START WITH 5
SELECT NEXTVAL(s)
ALTER SEQUENCE s RESTART 7
DROP SEQUENCE IF EXISTS s
CREATE TABLE m (id int)
RENAME TABLE m WAIT 5 TO n
DROP TABLE n WAIT 5
CREATE OR REPLACE TABLE n (id int)
CREATE OR REPLACE DATABASE {x}
DROP DATABASE {x}
DROP DATABASE {y}
""".strip().splitlines()
MYSQL = """
CREATE TABLESPACE t_{x} ADD DATAFILE 't_{x}.ibd'
CREATE TABLE m (id int) TABLESPACE t_{x}
DROP TABLE m
DROP TABLESPACE t_{x}
CREATE SPATIAL REFERENCE SYSTEM 4999 NAME 'x' DEFINITION 'GEOGCS["a",DATUM["b",SPHEROID["c",6378137,298.257]],PRIMEM["d",0],UNIT["e",0.017453292519943278],AXIS["Lat",NORTH],AXIS["Lon",EAST]]'
DROP SPATIAL REFERENCE SYSTEM 4999
CREATE TABLE m (g point NOT NULL SRID 0)
CREATE SPATIAL INDEX i ON m (g)
DROP DATABASE {y}
""".strip().splitlines()  # noqa: E501


@pytest.fixture(params=["mariadb", "mysql"])
def source(request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(request.param)


def test_statements_about_others_pass(source: Server, make_rig: Callable[..., Rig], postgres: Server) -> None:
    rig = make_rig(source, postgres, "stated", lanes=2)
    rig.table("account", "id int PRIMARY KEY, v int")
    rig.rules = [{"source": f"{rig.schema}.*"}]
    session = connect(source.url())
    names = {"feed": rig.schema, "x": f"{rig.schema}_x", "y": f"{rig.schema}_y"}
    session.send(f"CREATE DATABASE {names['y']}; USE {names['y']}")
    for number, statement in enumerate([*OTHERS, *(MARIADB if isinstance(source, MariaDb) else MYSQL)]):
        if statement.startswith("CREATE FULLTEXT"):
            session.send("ALTER TABLE account3 ADD t varchar(9)")
        session.send(statement.format(**names))
        rig.at_source(f"INSERT INTO account VALUES ({number}, 1)")
    assert rig.catch_up_code() == 0, rig.said()
    rig.assert_exact()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE DATABASE {feed}",
        *(
            pytest.param(text, marks=pytest.mark.proof)  # how they are read: test_ddl.py
            for text in (
                "DROP DATABASE {feed}",
                "/*!40000 DROP DATABASE IF EXISTS `{feed}`*/",
                "SET STATEMENT max_statement_time=9 FOR DROP SCHEMA {feed}",
            )
        ),
    ],
)
def test_a_dropped_database_halts_and_the_advice_goes_on(
    statement: str, make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    """The advice, followed to the letter, works: drop its tables at the target, `ddl done`, run."""
    rig = make_rig(mariadb, postgres, "dropped", lanes=2)
    rig.table("account", "id int PRIMARY KEY, v int")
    rig.rules = [{"source": f"{rig.schema}.*"}]
    rig.at_source("INSERT INTO account VALUES (1, 1), (2, 2)")
    rig.catch_up()
    rig.at_source(statement.format(feed=rig.schema), f"CREATE DATABASE IF NOT EXISTS {rig.schema}", f"USE {rig.schema}")
    rig.at_source("CREATE TABLE account (id int PRIMARY KEY, v int)", "INSERT INTO account VALUES (1, 9)")
    assert rig.catch_up_code() == OPERATOR
    assert f"drops database {rig.schema}, from which the feed takes tables" in rig.said()
    assert rig.rows(f"SELECT count(*)::text FROM {rig.schema}.account") == [("2",)]
    rig.at_target(f"DROP TABLE {rig.schema}.account")
    assert rig.command("ddl", "done").code == 0
    assert rig.catch_up_code() == 0, rig.said()
    rig.assert_exact()


def test_what_it_names_of_the_feed_s_own_is_told(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    """Several tables of which one is the feed's, under MariaDB's prefix and with words between the names."""
    rig = make_rig(mariadb, postgres, "told", lanes=2)
    rig.table("account", "id int PRIMARY KEY, v int")
    rig.rules = [{"source": f"{rig.schema}.account"}]
    rig.at_source("CREATE TABLE other (id int)", "CREATE TABLE third (id int)", "INSERT INTO account VALUES (1, 1)")
    rig.at_source("SET STATEMENT max_statement_time=9 FOR TRUNCATE account", "INSERT INTO account VALUES (2, 2)")
    rig.catch_up()
    rig.assert_exact()
    rig.at_source("RENAME TABLE other WAIT 5 TO fourth, account NOWAIT TO fifth, third TO other")
    assert rig.catch_up_code() == OPERATOR, rig.said()
    halted = rig.command("status", "--json").json["halted"]
    assert f"{rig.schema}.account" in str(halted)
    assert "third" not in str(halted).replace("third TO other", "")


def test_names_that_the_source_keeps_in_lower_case(
    make_rig: Callable[..., Rig], make_mariadb: Callable[..., Server], postgres: Server
) -> None:
    """Its log spells them as the statement did."""
    rig = make_rig(make_mariadb(extra=["--lower-case-table-names=1"]), postgres, "folded", lanes=2)
    rig.table("account", "id int PRIMARY KEY, v int")
    rig.at_source("INSERT INTO account VALUES (1, 1)", "TRUNCATE Account", "INSERT INTO account VALUES (2, 2)")
    rig.catch_up()
    rig.at_source("ALTER TABLE ACCOUNT ADD w int", "INSERT INTO account VALUES (3, 3, 3)")
    rig.catch_up()
    rig.assert_exact()
    rig.at_source(f"DROP DATABASE {rig.schema.upper()}")
    assert rig.catch_up_code() == OPERATOR
    assert f"drops database {rig.schema}" in rig.said()


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE note",
        pytest.param("DROP TABLE note", marks=pytest.mark.proof),
        pytest.param("CREATE OR REPLACE TABLE note (id int PRIMARY KEY, body text)", marks=pytest.mark.proof),
    ],
)
def test_what_is_parked_for_rows_that_are_gone_does_not_come_back(
    statement: str, make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    """The operator does at the target what the statement did (which the feed would not, or could not, do itself)."""
    rig = make_rig(mariadb, postgres, "gone", lanes=2)
    rig.table("note", "id int PRIMARY KEY, body text")
    rig.catch_up()
    rig.at_target("ALTER TABLE note ADD CONSTRAINT calm CHECK (body <> 'loud')")
    rig.at_target("CREATE TABLE own (id int REFERENCES note (id))")
    rig.at_source("INSERT INTO note VALUES (1, 'quiet'), (2, 'loud')")
    assert rig.catch_up_code() == OPERATOR
    rig.at_target("INSERT INTO own VALUES (1)")
    rig.at_source(statement)
    if statement.startswith("DROP"):
        rig.at_source("CREATE TABLE note (id int PRIMARY KEY, body text)")
    rig.at_source("INSERT INTO note VALUES (3, 'new')")
    assert rig.catch_up_code() == OPERATOR
    assert "`tidelock ddl done FEED`" in rig.said()
    rig.at_target("DROP TABLE own", "DELETE FROM note", "ALTER TABLE note DROP CONSTRAINT calm")
    assert rig.parked() == 1
    assert rig.command("ddl", "done").code == 0
    assert rig.parked() == 0
    assert rig.command("rows", "retry", "@", "--all").code == 0
    assert rig.catch_up_code() == 0, rig.said()
    rig.assert_exact()


def test_emptying_one_of_two_sources_of_a_table_halts(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    """The other's rows are in the same table of the target."""
    rig = make_rig(mariadb, postgres, "two", lanes=2)
    for name in ("one", "two", "alone"):
        rig.at_source(f"CREATE TABLE {name} (id int PRIMARY KEY)")
    rig.at_target(*(f"CREATE TABLE {rig.schema}.{name} (id int PRIMARY KEY)" for name in ("pool", "alone")))
    pairs = {"one": "pool", "two": "pool", "*": "*"}
    rig.rules = [{"source": f"{rig.schema}.{one}", "target": f"{rig.schema}.{to}"} for one, to in pairs.items()]
    rig.at_source("INSERT INTO one VALUES (1)", "INSERT INTO two VALUES (2)", "INSERT INTO alone VALUES (3)")
    rig.at_source("TRUNCATE alone")
    rig.catch_up()
    assert rig.rows("SELECT count(*)::text FROM alone") == [("0",)]
    rig.at_source("TRUNCATE one")
    assert rig.catch_up_code() == OPERATOR
    assert rig.rows("SELECT count(*)::text FROM pool") == [("2",)]
