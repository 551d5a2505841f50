"""Work that a feed leaves to its operator: rows that the target refuses, and statements that change the schema."""

import time
from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.workload.churn import Churn

OPERATOR = 4


@pytest.fixture
def notes(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server) -> Rig:
    """A text column that MariaDB fills with a NUL, which no PostgreSQL text holds."""
    rig = make_rig(mariadb, postgres, "notes", lanes=2)
    columns = "id bigint PRIMARY KEY, code varchar(20) UNIQUE, body varchar(200), day {}"
    rig.table("note", columns.format("datetime"), columns.format("timestamp"))
    return rig


def spoil(rig: Rig, id_: int = 500) -> None:
    """A row with a NUL, changed twice afterwards, among two thousand good ones and their updates."""
    rig.at_source("INSERT INTO note SELECT seq, CONCAT('c', seq), 'good', '2024-03-01' FROM seq_1_to_2000")
    rig.at_source(f"UPDATE note SET body = CONCAT('a', CHAR(0), 'b') WHERE id = {id_}")
    rig.at_source(f"UPDATE note SET code = 'later' WHERE id = {id_}", f"UPDATE note SET day = NULL WHERE id = {id_}")
    rig.at_source("UPDATE note SET body = 'still good' WHERE id > 1000")


def body(rig: Rig, id_: int) -> list[str | None]:
    return [value for (value,) in rig.rows(f"SELECT body FROM {rig.schema}.note WHERE id = {id_}")]


def test_a_refused_row_is_parked_with_its_later_changes_and_the_rest_goes_on(notes: Rig) -> None:
    spoil(notes)
    assert notes.catch_up_code() == OPERATOR
    assert "3 failed rows" in notes.said()
    differences = notes.differences()
    assert (differences.matched, differences.different, differences.total) == (1999, 1, 1), differences
    listed = notes.command("rows", "list", "--json")
    assert listed.code == OPERATOR
    parked = listed.json
    assert len(parked) == 3
    assert "NUL" in parked[0]["error"]
    assert "500" in parked[0]["key"]
    shown = notes.command("rows", "show", "@", parked[0]["id"])
    assert shown.code == OPERATOR
    assert "good" in shown.out
    assert notes.command("status").code == OPERATOR


@pytest.mark.parametrize("target", ["postgres", "mysql"])
def test_a_retry_succeeds_once_the_cause_is_mended(
    target: str, make_rig: Callable[..., Rig], mariadb: Server, request: pytest.FixtureRequest
) -> None:
    """The target's constraint refuses the row; without it, the retry brings the row and its later changes."""
    notes = make_rig(mariadb, request.getfixturevalue(target), "notes", lanes=2)
    notes.table("note", "id bigint PRIMARY KEY, code varchar(20) UNIQUE, body varchar(200), n int")
    notes.catch_up()  # `check` would refuse a first run
    notes.at_target("ALTER TABLE note ADD CONSTRAINT calm CHECK (body <> 'loud')")
    notes.at_source("INSERT INTO note VALUES (1, 'a', 'quiet', NULL), (2, 'b', 'loud', NULL), (3, 'c', 'quiet', NULL)")
    notes.at_source("UPDATE note SET code = 'moved' WHERE id = 2", "UPDATE note SET body = 'x' WHERE id = 3")
    assert notes.catch_up_code() == OPERATOR
    assert notes.parked() == 2
    told = notes.command("feeds", "@", "--json")
    (listed,) = [one for one in told.json if one["feed"] == notes.name]
    assert (told.code, listed["failed_rows"], listed["activity"]) == (4, 2, "not running")
    assert listed["run"]["pid"] > 0
    assert notes.differences().missing == 1
    notes.at_target("ALTER TABLE note DROP CONSTRAINT calm")
    assert notes.command("rows", "retry", "@", "--all").code == 0
    assert notes.catch_up_code() == 0, notes.said()
    assert notes.parked() == 0
    assert notes.differences().total == 0
    assert notes.command("rows", "list").code == 0


def test_a_retry_that_fails_again_parks_again(notes: Rig) -> None:
    spoil(notes)
    assert notes.catch_up_code() == OPERATOR
    assert notes.command("rows", "retry", "@", "--all").code == 0
    assert notes.catch_up_code() == OPERATOR
    assert notes.parked() == 3
    assert notes.differences().total == 1
    assert all(row["queued"] == "" for row in notes.command("rows", "list", "--json").json)


def test_a_running_feed_carries_a_wish_out(notes: Rig) -> None:
    process = notes.run()
    spoil(notes)
    until(lambda: notes.differences().total == 1 and notes.parked() == 3, "three parked changes")
    assert notes.command("rows", "skip", "@", "--all").code == 0
    until(lambda: notes.parked() == 0, "no parked changes")
    # The row is free again and its next change an ordinary one; `code` was set by a skipped change, so it stays old.
    notes.at_source("UPDATE note SET body = 'mended' WHERE id = 500")
    until(lambda: body(notes, 500) == ["mended"], "the later change")
    notes.at_source("UPDATE note SET code = 'newest' WHERE id = 500")
    until(notes.equal, "equal ends")
    process.stop()
    assert notes.catch_up_code() == 0


def test_a_unique_value_of_a_parked_row_does_not_leak(notes: Rig) -> None:
    """Row 2 takes the value that the parked change of row 1 would have freed: it must wait, not clash."""
    notes.at_source("INSERT INTO note VALUES (1, 'wanted', 'x', NULL), (2, 'other', 'x', NULL)")
    notes.at_source("UPDATE note SET code = 'freed', body = CONCAT('a', CHAR(0)) WHERE id = 1")
    notes.at_source("UPDATE note SET code = 'wanted' WHERE id = 2", "INSERT INTO note VALUES (3, 'other', 'x', NULL)")
    assert notes.catch_up_code() == OPERATOR
    notes.at_source("UPDATE note SET body = 'clean' WHERE id = 1")  # folds with the change that was refused
    assert notes.catch_up_code() == OPERATOR
    assert notes.parked() == 4
    assert notes.command("rows", "retry", "@", "--all").code == 0
    assert notes.catch_up_code() == 0, notes.said()
    assert notes.differences().total == 0


def test_zero_dates_park_or_become_null(notes: Rig) -> None:
    notes.at_source(
        "SET sql_mode = ''; INSERT INTO note VALUES (1, 'a', 'x', '0000-00-00'), (2, 'b', 'x', '2024-03-01')"
    )
    assert notes.catch_up_code() == OPERATOR
    (parked,) = notes.command("rows", "list", "--json").json
    assert "zero date" in parked["error"]
    notes.options["zero_dates"] = "null"
    assert notes.command("rows", "retry", "@", "--all").code == 0
    assert notes.catch_up_code() == 0, notes.said()
    assert notes.rows(f"SELECT id::text, day::text FROM {notes.schema}.note ORDER BY id") == [
        ("1", None),
        ("2", "2024-03-01 00:00:00"),
    ]


@pytest.mark.parametrize("target", ["postgres", "mysql"])
def test_schema_changes_are_applied_under_load(
    target: str, make_rig: Callable[..., Rig], mariadb: Server, request: pytest.FixtureRequest
) -> None:
    rig = make_rig(mariadb, request.getfixturevalue(target), "changing", lanes=8)
    rig.table("gone", "id int PRIMARY KEY, v int")
    rig.at_source("INSERT INTO gone SELECT seq, seq FROM seq_1_to_500")
    workload = rig.make(Churn())
    rig.tables.append("gone")
    rig.catch_up()
    process = rig.run()
    work = rig.work(workload, 100_000, 9, 1000)
    rig.at_source("ALTER TABLE gone ADD COLUMN note varchar(40) NULL")
    rig.at_source("INSERT INTO gone VALUES (501, 1, 'new'), (502, NULL, NULL)")
    time.sleep(0.5)
    rig.at_source("TRUNCATE TABLE gone", "INSERT INTO gone VALUES (1, 2, 'after')")
    rig.at_source("CREATE TABLE fresh (id bigint NOT NULL, name varchar(30) UNIQUE, at datetime(3), PRIMARY KEY (id))")
    rig.at_source("INSERT INTO fresh VALUES (1, 'one', '2024-03-01 10:00:00.5'), (2, NULL, NULL)")
    rig.at_source("UPDATE fresh SET id = 3 WHERE id = 1", "CREATE INDEX plain ON fresh (at)")
    time.sleep(0.5)
    work.stop()
    rig.tables.append("fresh")
    until(rig.equal, "equal ends")
    process.check()
    process.stop()
    rig.catch_up()
    rig.assert_exact()
    assert rig.differences().tables[-1].matched == 2


@pytest.mark.parametrize("word", ["done", "skip"])
def test_another_alter_halts_until_the_operator_says(
    word: str, make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    rig = make_rig(mariadb, postgres, "altered", lanes=2)
    rig.table("account", "id int PRIMARY KEY, v int, unused int")
    rig.at_source("INSERT INTO account SELECT seq, seq, 0 FROM seq_1_to_300")
    process = rig.run()
    until(lambda: rig.differences().matched == 300, "300 rows")
    if word == "done":
        rig.at_source("ALTER TABLE account MODIFY v varchar(40), DROP COLUMN unused")
        after = f"INSERT INTO account VALUES (400, '{2**40}')"
    else:
        rig.at_source("SET sql_mode = ''", "ALTER TABLE account MODIFY unused smallint")
        after = "INSERT INTO account VALUES (400, 999, 1)"
    rig.at_source(after)
    assert process.code(30.0) == OPERATOR
    assert "ALTER TABLE account" in rig.said()
    assert rig.command("status").code == OPERATOR
    shown = rig.command("ddl", "show")
    assert shown.code == OPERATOR
    assert "ALTER TABLE account" in shown.out
    assert rig.rows(f"SELECT count(*)::text FROM {rig.schema}.account") == [("300",)]
    assert rig.catch_up_code() == OPERATOR  # halts again, and again writes nothing
    if word == "done":
        rig.at_target("ALTER TABLE account ALTER v TYPE varchar(40), DROP COLUMN unused")
    assert rig.command("ddl", word).code == 0
    assert rig.catch_up_code() == 0, rig.said()
    rig.assert_exact()
    assert rig.command("status").code == 1  # nobody runs it, and nothing is wrong
