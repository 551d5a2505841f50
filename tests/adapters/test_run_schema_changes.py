"""Schema changes in the middle of row changes, followed by a feed that runs: both ends are the same at the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.session import Flavor

OPERATOR = 4
ACCOUNT = "id int PRIMARY KEY, mail varchar(40), v int, old int, UNIQUE KEY by_mail (mail)"

CHANGES = """
INSERT INTO account VALUES (1, 'a', 10, 0), (2, 'b', 20, 0), (3, 'c', 30, 0), (4, 'd', 40, 0)
ALTER TABLE account DROP COLUMN old
INSERT INTO account VALUES (5, 'e', 50)
ALTER TABLE account RENAME COLUMN v TO w, ADD COLUMN note varchar(20) NOT NULL DEFAULT 'none', COMMENT = 'accounts'
UPDATE account SET note = 'first', w = w + 1
INSERT INTO account VALUES (6, 'f', 61, 'six')
ALTER TABLE account ADD UNIQUE KEY by_w (w)
UPDATE account SET w = w + 10 ORDER BY w DESC
UPDATE account SET mail = CONCAT(mail, '!') WHERE id > 2
DELETE FROM account WHERE id = 6
INSERT INTO account VALUES (7, 'f!', 71, 'both of 6')
ALTER TABLE account DROP INDEX by_w
UPDATE account SET w = 5
ALTER TABLE account ADD UNIQUE KEY by_note (note, id)
CREATE TABLE twin LIKE account
ALTER TABLE twin DROP INDEX by_note
INSERT INTO twin SELECT * FROM account
""".strip().splitlines()
TABLES = """
INSERT INTO spare VALUES (1, 1), (2, 2)
RENAME TABLE spare TO kept
INSERT INTO kept VALUES (3, 3)
CREATE TABLE form LIKE kept
INSERT INTO form SELECT * FROM kept
ALTER TABLE kept DROP CONSTRAINT small, DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)
INSERT INTO kept VALUES (1, 9)
UPDATE kept SET v = 8 WHERE v = 9
DROP TABLE form
CREATE TABLE form (id int PRIMARY KEY, x int, KEY plain (x))
INSERT INTO form VALUES (1, 1)
DROP INDEX plain ON form
ALTER TABLE form ADD CONSTRAINT positive CHECK (x > 0), ALTER COLUMN x SET DEFAULT 5, ADD INDEX again (x)
INSERT INTO form VALUES (2, 2)
CREATE INDEX again ON kept (v DESC, id)
ALTER TABLE form ADD COLUMN note varchar(40) DEFAULT 'n/a', ADD INDEX (note(9)), ADD KEY (note(9)), ALTER x DROP DEFAULT
ALTER TABLE form DROP INDEX again, ADD INDEX again (note, x), ALTER x DROP DEFAULT, ADD FULLTEXT INDEX words (note)
ALTER TABLE form RENAME INDEX again TO last, ADD INDEX again (x)
INSERT INTO form VALUES (3, 3, 'three')
""".strip().splitlines()
INDEXES = {
    Flavor.POSTGRES: "SELECT indexname, regexp_replace(indexdef, '^.* USING btree ', '') FROM pg_indexes "
    "WHERE schemaname = '{}' AND indexdef NOT LIKE '%UNIQUE%' ORDER BY 1",
    Flavor.MYSQL: "SELECT index_name, group_concat(concat(column_name, ifnull(sub_part, '')) ORDER BY seq_in_index) "
    "FROM information_schema.statistics WHERE table_schema = '{}' AND non_unique GROUP BY table_name, index_name "
    "ORDER BY 1, 2",
}
INDEXED = {
    Flavor.POSTGRES: [
        ("form_again", "(x)"), ("form_last", "(note, x)"), ("form_note", '("left"((note)::text, 9))'),
        ("form_note_2", '("left"((note)::text, 9))'), ("kept_again", "(v DESC, id)"),
    ],
    Flavor.MYSQL: [
        ("again", "v,id"), ("again", "x"), ("last", "note,x"), ("note", "note9"), ("note_2", "note9"),
        ("words", "note"),
    ],
}  # fmt: skip
PAIRS = [("mariadb", "postgres"), ("mysql", "mariadb")]


@pytest.fixture(params=PAIRS, ids=["-".join(pair) for pair in PAIRS])
def rig(request: pytest.FixtureRequest, make_rig: Callable[..., Rig]) -> Rig:
    source, target = (request.getfixturevalue(name) for name in request.param)
    made = make_rig(source, target, "altered", lanes=2)
    unnamed = ACCOUNT.replace("UNIQUE KEY by_mail", "UNIQUE")
    made.table("account", ACCOUNT, unnamed if request.param[1] == "postgres" else None)
    made.table("spare", "id int PRIMARY KEY, v int, CONSTRAINT small CHECK (v < 9)")
    made.rules = [{"source": f"{made.schema}.*"}]
    return made


def flavor(rig: Rig) -> Flavor:
    return Flavor.POSTGRES if "postgres" in rig.target_url else Flavor.MYSQL


def test_statements_among_rows(rig: Rig) -> None:
    rig.catch_up()
    process = rig.run()
    rig.at_source(*CHANGES, *TABLES)
    rig.tables = ["account", "twin", "kept", "form"]
    until(rig.equal, "equal ends", 60)
    process.stop()
    rig.assert_exact()
    assert rig.rows(INDEXES[flavor(rig)].format(rig.schema)) == INDEXED[flavor(rig)]
    assert not rig.rows("SELECT 1 FROM information_schema.tables WHERE table_name = 'spare' "
                        f"AND table_schema = '{rig.schema}'")  # fmt: skip


def test_rows_get_the_moment_of_the_statement(rig: Rig) -> None:
    """`DEFAULT CURRENT_TIMESTAMP` of a column that is added, and keys of such columns."""
    rig.catch_up()
    rig.at_source(
        "SET time_zone = '+05:30', timestamp = 1700000000",
        "INSERT INTO spare VALUES (1, 1), (2, 2)",
        "ALTER TABLE spare ADD COLUMN made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,"
        " ADD COLUMN seen TIMESTAMP NULL DEFAULT now() ON UPDATE CURRENT_TIMESTAMP, ADD COLUMN code int UNIQUE",
        "INSERT INTO spare (id, v, code) VALUES (3, 3, 3)",
        "ALTER TABLE spare ADD COLUMN local DATETIME DEFAULT CURRENT_TIMESTAMP",
        "INSERT INTO spare (id, v, code) VALUES (4, 4, 4)",
    )
    rig.tables = ["spare"]
    assert rig.catch_up_code() == 0, rig.said()
    rig.assert_exact()
    moments = "made = '2023-11-14 22:13:20+00' AND local = '2023-11-15 03:43:20'"
    assert len(rig.rows(f"SELECT id FROM {rig.schema}.spare WHERE {moments}")) == 4


def test_what_ran_at_the_target_already_is_not_run_again(rig: Rig) -> None:
    """As after a crash between the statement, which MySQL and MariaDB commit at once, and the note that it ran."""
    rig.catch_up()
    rig.at_source("INSERT INTO account VALUES (1, 'a', 10, 0)", "INSERT INTO spare VALUES (1, 1)")
    rig.catch_up()
    for statement in (
        "ALTER TABLE {}account DROP COLUMN old",
        "ALTER TABLE {}account RENAME COLUMN v TO w",
        "ALTER TABLE {}account ADD CONSTRAINT by_w UNIQUE (w)",
    ):
        rig.at_source(statement.format(""))
        rig.at_target(statement.format(f"{rig.schema}."))
    index = "account_w" if "postgres" in rig.target_url else "w"
    rig.at_source("ALTER TABLE account ADD INDEX (w)")
    rig.at_target(f"CREATE INDEX {index} ON {rig.schema}.account (w)")
    rig.at_source("ALTER TABLE account RENAME COLUMN w TO x", "ALTER TABLE account RENAME COLUMN x TO w")
    rig.at_source("RENAME TABLE spare TO kept", "INSERT INTO kept VALUES (2, 2)")
    to = "kept" if "postgres" in rig.target_url else f"{rig.schema}.kept"
    rig.at_target(f"ALTER TABLE {rig.schema}.spare RENAME TO {to}")
    rig.at_source("INSERT INTO account VALUES (2, 'b', 20)")
    assert rig.catch_up_code() == 0, rig.said()
    rig.tables = ["account", "kept"]
    rig.assert_exact()
    assert [name for name, _ in rig.rows(INDEXES[flavor(rig)].format(rig.schema))] == [index]
    rig.at_target(f"ALTER TABLE {rig.schema}.account RENAME COLUMN w TO y")
    rig.at_source("ALTER TABLE account RENAME COLUMN w TO z", "INSERT INTO account VALUES (3, 'c', 30)")
    assert rig.catch_up_code() == OPERATOR
    assert "has neither of w and z" in rig.said()
    rig.at_target(f"ALTER TABLE {rig.schema}.account RENAME COLUMN y TO z")
    assert rig.command("ddl", "done").code == 0
    assert rig.catch_up_code() == 0, rig.said()
    rig.assert_exact()


def test_failed_rows_are_ended_before_their_table_changes(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    """They are kept in its form and by its key."""
    rig = make_rig(mariadb, postgres, "altered", lanes=2)
    rig.table("note", "id int PRIMARY KEY, v int, w int")
    rig.catch_up()
    rig.at_target("ALTER TABLE note ADD CONSTRAINT calm CHECK (v < 5)")
    rig.at_source("INSERT INTO note VALUES (1, 1, 1), (2, 9, 9)", "ALTER TABLE note DROP PRIMARY KEY, ADD KEY (id)")
    rig.at_source("UPDATE note SET w = 7 WHERE id = 2")
    assert rig.catch_up_code() == OPERATOR
    assert "has failed rows" in rig.said()
    rig.at_target("ALTER TABLE note DROP CONSTRAINT calm")
    assert rig.command("rows", "retry", "@", "--all").code == 0
    assert rig.catch_up_code() == 0, rig.said()
    assert rig.rows("SELECT id::text, w::text FROM note ORDER BY id") == [("1", "1"), ("2", "7")]
