"""Rows that somebody else writes at the target, end to end: `verify: image` and `version`, `on_conflict: replace`."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from bench.harness.rig import Rig, Said, tidelock, until
from bench.harness.servers import Postgres
from bench.harness.servers.kafka import Kafka
from bench.harness.workers import Workers

PROOF = pytest.mark.proof
PAIRS = [
    ("mariadb", "postgres"),
    pytest.param("mysql", "other_mysql", marks=PROOF),
    pytest.param("mysql", "mariadb", marks=PROOF),
]
VERSIONED = [
    ("mysql", "mariadb"),
    pytest.param("mysql", "other_mysql", marks=PROOF),
    pytest.param("mariadb", "postgres", marks=PROOF),
]
OPERATOR = 4
DIFFERS = "a row is not as the log has it before the change"
LATER = "an earlier change of this row failed"
Made = Callable[..., Rig]


@pytest.fixture
def made(make_rig: Callable[..., Rig], request: pytest.FixtureRequest) -> Made:
    """A feed between servers of these fixtures' names."""
    return lambda source, target, **options: make_rig(
        request.getfixturevalue(source), request.getfixturevalue(target), "checked", lanes=2, **options
    )


def account(rig: Rig) -> str:
    """A table with rows at both ends; returns its name at the target."""
    rig.table("account", "id int PRIMARY KEY, email varchar(40) UNIQUE, note varchar(40)")
    rows = "(1, 'a', 'x'), (2, 'b', NULL), (3, NULL, 'x'), (4, 'd', NULL), (5, NULL, '')"
    rig.at_source(f"INSERT INTO account VALUES {rows}")
    rig.catch_up()
    return f"{rig.schema}.account"


def rows(rig: Rig) -> list[tuple[Any, ...]]:
    found = rig.rows("SELECT CONCAT(id, ''), email, note FROM account")
    return sorted((int(id_), email, note) for id_, email, note in found)


def failed(rig: Rig) -> dict[str, list[str]]:
    """Errors by key, as `rows list` tells them."""
    said = rig.command("rows", "list", "@", "--json")
    assert said.code in (0, OPERATOR), said.err
    errors: dict[str, list[str]] = {}
    for row in said.json:
        errors.setdefault(row["key"], []).append(row["error"])
    return errors


def taken(rig: Rig, *words: str) -> Said:
    return tidelock("rows", "take-source", str(rig.feed), *words, "--yes", "--json", seconds=60)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_row_that_somebody_wrote_is_locked_until_the_sources_row_is_taken(
    source: str, target: str, made: Made
) -> None:
    rig = made(source, target, verify="image")
    name = account(rig)
    rig.at_target(f"UPDATE {name} SET note = 'theirs' WHERE id = 1", f"DELETE FROM {name} WHERE id = 2")
    rig.at_target(f"INSERT INTO {name} VALUES (9, NULL, 'theirs')")
    rig.at_source(
        "BEGIN",
        "UPDATE account SET note = 'y' WHERE id IN (1, 2, 3)",
        "INSERT INTO account VALUES (9, 'i', 'ours'), (10, NULL, NULL)",
        "DELETE FROM account WHERE id = 4",
        "COMMIT",
        "UPDATE account SET note = 'z', email = NULL WHERE id = 1",
        "UPDATE account SET id = 6, note = NULL WHERE id = 5",
    )
    assert rig.catch_up_code() == OPERATOR, rig.said()
    left_alone = [(1, "a", "theirs"), (9, None, "theirs")]
    assert rows(rig) == sorted([*left_alone, (3, None, "y"), (6, None, None), (10, None, None)])
    errors = failed(rig)
    assert sorted(errors) == ["id=1", "id=2", "id=9"]
    first, later = sorted(errors["id=1"], key=LATER.__eq__)
    assert f"{DIFFERS}: note is theirs where x was expected" in first and later == LATER
    assert f"{DIFFERS}: there is no row" in errors["id=2"][0]
    assert rig.command("rows", "retry", "@", "--all").code == 0
    assert rig.catch_up_code() == OPERATOR
    assert rows(rig)[0] == (1, "a", "theirs"), "a retry compares again"
    running = rig.run()
    ids = [row["id"] for row in rig.command("rows", "list", "@", "--json").json if row["key"] == "id=1"]
    said = taken(rig, ids[1])
    assert said.code == 0, said.err or said.out
    assert sorted(failed(rig)) == ["id=2", "id=9"], "the row goes with all that failed of it, and no other"
    assert taken(rig, "--all").code == 0 and running.running
    rig.at_source("UPDATE account SET note = 'last'")
    until(lambda: {note for _, _, note in rows(rig)} == {"last"}, "changes of rows that were locked")
    assert rig.differences().total == 0 and rig.parked() == 0


@pytest.mark.parametrize("options", [{}, pytest.param({"consistency": "transaction"}, marks=PROOF)])
def test_of_many_rows_the_one_is_found_and_all_others_are_written(options: dict[str, str], made: Made) -> None:
    rig = made("mariadb", "postgres", verify="image", **options)
    rig.table("t", "id int PRIMARY KEY, v int, w varchar(10)")
    rig.at_source("INSERT INTO t SELECT seq, seq, NULL FROM seq_1_to_300")
    rig.catch_up()
    rig.at_target(f"UPDATE {rig.schema}.t SET v = -1 WHERE id = 150")
    rig.at_source("UPDATE t SET w = 'w'", "UPDATE t SET v = v + 1", "DELETE FROM t WHERE id = 7")
    assert rig.catch_up_code() == OPERATOR, rig.said()
    assert sorted(failed(rig)) == ["id=150"]
    found = rig.rows(f"SELECT id::text FROM {rig.schema}.t WHERE w IS DISTINCT FROM 'w' OR v <> id + 1")
    assert found == [("150",)]
    assert rig.rows(f"SELECT count(*)::text FROM {rig.schema}.t") == [("299",)]


@pytest.mark.parametrize(("source", "target"), VERSIONED)
def test_only_what_has_a_higher_version_is_written(source: str, target: str, made: Made) -> None:
    rig = made(source, target, verify="version")
    rig.rules = [{"source": f"{rig.schema}.*", "version": "v"}]
    rig.table("t", "id int PRIMARY KEY, u varchar(9) UNIQUE, v int NOT NULL")
    rig.at_source(
        "INSERT INTO t VALUES (1, 'a', 1), (2, NULL, 1), (3, 'c', 1), (4, 'd', 1), (5, 'e', 1)",
        "UPDATE t SET v = 2, u = 'a2' WHERE id = 1",
        "UPDATE t SET v = 3 WHERE id = 1",
        "UPDATE t SET v = 4 WHERE id = 1",
        "UPDATE t SET id = 20, v = 2 WHERE id = 2",
        "UPDATE t SET v = 2 WHERE id = 3",
        "DELETE FROM t WHERE id IN (4, 5)",
    )
    rig.at_target(f"INSERT INTO {rig.schema}.t VALUES (3, 'theirs', 2), (5, 'newer', 9)")
    expected = [("1", "a2", "4"), ("20", None, "2"), ("3", "theirs", "2"), ("5", "newer", "9")]
    for _ in range(2):
        assert rig.catch_up_code() == 0, rig.said()
        found = rig.rows(f"SELECT CONCAT(id, ''), u, CONCAT(v, '') FROM {rig.schema}.t")
        assert sorted(found) == expected
        assert rig.command("remove", "--apply").code == 0
        rig.name += "again"  # a feed of another name reads all of it once more


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_row_that_holds_a_unique_value_makes_room_where_the_feed_says_so(
    source: str, target: str, made: Made
) -> None:
    rig = made(source, target)
    name = account(rig)
    rig.at_target(f"INSERT INTO {name} VALUES (70, 'i', 'theirs'), (71, 'j', 'theirs'), (72, 'k', 'theirs')")
    rig.at_source("INSERT INTO account VALUES (10, 'i', 'ours')", "UPDATE account SET email = 'j' WHERE id = 3")
    assert rig.catch_up_code() == OPERATOR
    assert sorted(failed(rig)) == ["id=10", "id=3"]
    rig.options["on_conflict"] = "replace"
    rig.at_source("INSERT INTO account VALUES (11, 'k', 'ours')")
    assert rig.catch_up_code() == OPERATOR
    assert (72, "k", "theirs") in rows(rig), "a failed row of the table may be what frees the value"
    assert rig.command("rows", "skip", "@", "--all").code == 0
    assert rig.catch_up_code() == 0, rig.said()
    rig.at_source("UPDATE account SET email = NULL WHERE id = 10", "UPDATE account SET email = 'i' WHERE id = 10")
    assert rig.catch_up_code() == 0, rig.said()
    rig.at_source("UPDATE account SET note = 'later' WHERE id = 11")  # alone in its batch
    assert rig.catch_up_code() == 0, rig.said()
    assert not {70, 72} & {id_ for id_, *_ in rows(rig)}
    assert rig.said().count("as another is to have its unique value") == 2


@PROOF
def test_a_table_that_is_not_logged_whole_any_more_halts(made: Made) -> None:
    rig = made("postgres_source", "postgres", verify="image")
    rig.table("t", "id int PRIMARY KEY, v text")
    rig.at_source("ALTER TABLE t REPLICA IDENTITY FULL")
    rig.begin_here()
    rig.at_source("INSERT INTO t VALUES (1, 'a')", "UPDATE t SET v = 'b'")
    assert rig.catch_up_code() == 0, rig.said()
    rig.at_source("ALTER TABLE t REPLICA IDENTITY DEFAULT", "UPDATE t SET v = 'c'")
    assert rig.catch_up_code() == OPERATOR
    assert "REPLICA IDENTITY FULL" in rig.said() and "`verify: image`" in rig.said()
    rig.at_source("ALTER TABLE t REPLICA IDENTITY FULL")
    rig.options["verify"] = "off"
    assert rig.catch_up_code() == 0, rig.said()
    rig.options["verify"] = "image"
    rig.at_source("UPDATE t SET v = 'd'")
    assert rig.catch_up_code() == 0, rig.said()
    rig.assert_exact()


# ---------------------------------------------------------------------- over Kafka

OVER_KAFKA = [
    ("mariadb", "postgres"),
    pytest.param("mysql", "mariadb", marks=PROOF),
    pytest.param("postgres_source", "other_mysql", marks=PROOF),
]


@pytest.fixture
def over_kafka(
    make_rig: Callable[..., Rig], kafka: Kafka, own_servers: ExitStack, request: pytest.FixtureRequest
) -> Callable[..., Workers]:
    """A worker that owns two groups of a feed between servers of these fixtures' names.  `rule`: of all its tables."""

    def made(source: str, target: str, rule: Mapping[str, str] | None = None, **options: Any) -> Workers:
        servers = request.getfixturevalue(source), request.getfixturevalue(target)
        rig = make_rig(*servers, "checked", lanes=2, log=kafka.url(), partitions=2, **options)
        if rule is not None:
            rig.rules = [{"source": f"{rig.schema}.*", **rule}]
        return own_servers.enter_context(Workers(rig, ["w1"]))

    return made


def logged_whole(rig: Rig, table: str) -> None:
    if isinstance(rig.source, Postgres):
        rig.at_source(f"ALTER TABLE {table} REPLICA IDENTITY FULL")


@pytest.mark.proof
@pytest.mark.parametrize(("source", "target"), OVER_KAFKA)
def test_over_kafka_a_row_is_locked_until_the_sources_row_is_taken(
    source: str, target: str, over_kafka: Callable[..., Workers]
) -> None:
    """Before-images come out of Kafka as they went in; of two groups, one has the rows that differ."""
    made = over_kafka(source, target, verify="image")
    rig = made.rig
    for table in ("account", "other"):
        rig.table(table, "id int PRIMARY KEY, n decimal(9,2), note varchar(40)")
        logged_whole(rig, table)
    made.start()
    made.until_owned(2)  # from here on a PostgreSQL source keeps its log
    for table in ("account", "other"):
        rig.at_source(f"INSERT INTO {table} VALUES (1, 1.5, 'x'), (2, NULL, NULL), (3, 3, '')")
    made.until(rig.equal, "the first rows")
    name = f"{rig.schema}.account"
    rig.at_target(f"UPDATE {name} SET n = 1.25 WHERE id = 1", f"DELETE FROM {name} WHERE id = 2")
    rig.at_source(
        "BEGIN",
        "UPDATE account SET note = 'y'",
        "UPDATE other SET note = 'y'",
        "COMMIT",
        "DELETE FROM account WHERE id = 1",
        "INSERT INTO account VALUES (4, 4, NULL)",
        "DELETE FROM other WHERE id = 1",
    )
    made.until(lambda: rig.parked() == 3, "rows that differ")
    found = rig.rows("SELECT CONCAT(id, ''), CONCAT(n, ''), note FROM account")
    made.until(lambda: len(rig.rows("SELECT id FROM other")) == 2, "the rows of the other group")
    assert sorted(found)[0] == ("1", "1.25", "x")
    errors = failed(rig)
    assert sorted(errors) == ["id=1", "id=2"]
    first, later = sorted(errors["id=1"], key=LATER.__eq__)
    assert f"{DIFFERS}: n is 1.25 where 1.50 was expected" in first and later == LATER
    assert f"{DIFFERS}: there is no row" in errors["id=2"][0]
    assert taken(rig, "--all").code == 0
    rig.at_source("UPDATE account SET note = 'last'", "UPDATE other SET note = 'last'")
    made.until(rig.equal, "changes of rows that were locked")
    assert rig.parked() == 0 and not made.restarts_of_their_own


@PROOF
@pytest.mark.parametrize(("source", "target"), [("mariadb", "postgres"), ("mysql", "mariadb")])
def test_over_kafka_only_what_has_a_higher_version_is_written(
    source: str, target: str, over_kafka: Callable[..., Workers]
) -> None:
    made = over_kafka(source, target, rule={"version": "v"}, verify="version")
    rig = made.rig
    for table in ("one", "two"):
        rig.table(table, "id int PRIMARY KEY, u varchar(9) UNIQUE, v int NOT NULL")
        rig.at_target(f"INSERT INTO {rig.schema}.{table} VALUES (3, 'theirs', 2), (5, 'newer', 9)")
        rig.at_source(
            f"INSERT INTO {table} VALUES (1, 'a', 1), (3, 'c', 1), (5, 'e', 1)",
            f"UPDATE {table} SET v = 2, u = 'a2' WHERE id = 1",
            f"UPDATE {table} SET v = 2 WHERE id = 3",
            f"DELETE FROM {table} WHERE id = 5",
            f"INSERT INTO {table} VALUES (6, NULL, 1)",
        )
    made.start()
    expected = [("1", "a2", "2"), ("3", "theirs", "2"), ("5", "newer", "9"), ("6", None, "1")]
    for table in ("one", "two"):
        query = f"SELECT CONCAT(id, ''), u, CONCAT(v, '') FROM {rig.schema}.{table}"
        made.until(lambda query=query: sorted(rig.rows(query)) == expected, f"the rows of {table}")
    assert rig.parked() == 0 and not made.restarts_of_their_own


@PROOF
@pytest.mark.parametrize(("source", "target"), [("mariadb", "postgres"), ("mysql", "mariadb")])
def test_over_kafka_a_row_that_holds_a_unique_value_makes_room(
    source: str, target: str, over_kafka: Callable[..., Workers]
) -> None:
    made = over_kafka(source, target, on_conflict="replace")
    rig = made.rig
    for table in ("one", "two"):
        rig.table(table, "id int PRIMARY KEY, u varchar(9) UNIQUE, note varchar(9)")
        rig.at_source(f"INSERT INTO {table} VALUES (1, 'a', NULL), (2, 'b', NULL)")
        rig.at_target(f"INSERT INTO {rig.schema}.{table} VALUES (70, 'i', 'theirs'), (71, 'j', 'theirs')")
    made.start()
    made.until(lambda: len(rig.rows("SELECT id FROM two")) == 4, "the first rows")
    steps = {
        "INSERT INTO {} VALUES (10, 'i', 'ours')": "note = 'ours'",
        "UPDATE {} SET u = 'j' WHERE id = 1": "u = 'j'",
    }
    for change, done in steps.items():  # each is alone in its batch
        rig.at_source(*(change.format(table) for table in ("one", "two")))
        for table in ("one", "two"):
            query = f"SELECT id FROM {table} WHERE {done} AND id <= 10"
            made.until(lambda query=query: len(rig.rows(query)) == 1, f"room in {table}")
    made.until(rig.equal, "rows that made room")
    assert rig.parked() == 0 and not made.restarts_of_their_own
    assert made.said().count("as another is to have its unique value") == 4
