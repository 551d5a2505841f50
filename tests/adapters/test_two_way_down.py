"""The feed from an arbiter to its spoke, on real servers: histories of docs/explanation/conflicts.md.

The spoke's writers hold their rows while the arbiter writes, so that each history comes in its own order.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.harness.network import Network
from bench.harness.pair import Pair
from bench.harness.rig import until
from bench.harness.servers import Server

PROOF = pytest.mark.proof
PAIRS = [
    pytest.param("mariadb", "postgres_source", id="mariadb-postgres"),
    pytest.param("postgres_source", "mariadb", id="postgres-mariadb", marks=PROOF),
    pytest.param("mysql", "other_mysql", id="mysql-mysql", marks=PROOF),
    pytest.param("postgres_source", "mysql", id="postgres-mysql", marks=PROOF),
    pytest.param("mysql", "postgres_source", id="mysql-postgres", marks=PROOF),
    pytest.param("postgres_source", "postgres", id="postgres-postgres", marks=PROOF),
]


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Pair]]:
    made: list[Network] = []

    def make(eu: str, us: str, *others: Any) -> Pair:
        servers: Mapping[str, Server] = {"eu": request.getfixturevalue(eu), "us": request.getfixturevalue(us)}
        made.append(Network(tmp_path, servers, ("eu>us", "us>eu")))
        return Pair(made[-1], *others)

    yield make
    for one in made:
        one.close()


@pytest.mark.proof
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_what_crosses_comes_back(eu: str, us: str, restarted: bool, pair: Callable[..., Pair]) -> None:
    """Histories 1 and 3 (row 1), 2 (row 2), 6 (places), 11 (row 5), 4, where the reader begins anew; and verdicts."""
    both = pair(eu, us)
    arbiter, spoke = both.arbiter, both.spoke
    for node in (arbiter, spoke):
        node.send("INSERT INTO note VALUES (5, 'same', 0)")
    both.catch_up(both.up)
    arbiter.send("DELETE FROM note WHERE id = 5")
    both.run_down()
    assert both.equal(), "what was inserted and deleted is not there"
    spoke.send("BEGIN", "INSERT INTO note VALUES (1, 's', 0), (2, 's', 0)", "INSERT INTO seat VALUES (12, 'window', 1)")
    arbiter.send("INSERT INTO note VALUES (1, 'h', 0), (2, 'h', 0), (3, 'h', 0)")
    arbiter.send("INSERT INTO seat VALUES (11, 'window', 0)")
    spoke.send("COMMIT")
    until(both.equal, "the arbiter's rows")
    both.stored()
    assert both.displaced() == [("insert_exists", {"id": 12, "place": "window", "n": 1})]
    if restarted:
        both.down.stop()
        both.run_down()
    spoke.send("INSERT INTO lamp VALUES (77, 'crosses nothing', 0)")
    spoke.send("BEGIN", "DELETE FROM note WHERE id = 2")
    both.catch_up(both.up)
    assert [row[1] for row in arbiter.notes()[:3]] == ["s", "s", "h"]
    spoke.send("COMMIT")
    both.catch_up(both.up)
    until(both.equal, "equal rows")
    assert [row[:2] for row in spoke.notes()[:2]] == [("1", "s"), ("3", "h")]
    assert [str(row[0]) for row in spoke.rows("SELECT id FROM seat")] == ["12"]
    spoke.send("UPDATE note SET word = 'x' WHERE id = 3", "INSERT INTO lamp VALUES (1, 'x', 0), (2, 'x', 0)")
    both.tell("note", 3, {"id": 3, "word": "h", "n": 0})
    both.tell("lamp", 1, None)
    arbiter.send("INSERT INTO lamp VALUES (2, 'h', 2)")
    until(both.equal, "rows that the arbiter stands by")
    both.down.stop()
    went = {int((row.after or row.before or (0,))[0]) for row in both.down.carried()}
    assert 77 in went or not restarted, "below the floor everything goes back; above it what crosses, at least"


@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_writers_at_both_sites(eu: str, us: str, pair: Callable[..., Pair]) -> None:
    """The same rows and unique values are written at the same time: what stands is the same."""
    both = pair(eu, us)
    both.run_down()
    both.up.run()
    both.write_at_once(150, seed=1)
    both.come_to_rest()


FAMILY = {
    "parent": "CREATE TABLE parent (id int PRIMARY KEY, word varchar(20))",
    "child": "CREATE TABLE child (id int PRIMARY KEY, parent int NOT NULL, "
    "FOREIGN KEY (parent) REFERENCES parent (id))",
    "toy": "CREATE TABLE toy (id int PRIMARY KEY, child int NOT NULL, FOREIGN KEY (child) REFERENCES child (id))",
    "coat": "CREATE TABLE coat (id int PRIMARY KEY, parent int, "
    "FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE)",
}


@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_a_parent_goes_that_has_children_at_the_spoke(eu: str, us: str, pair: Callable[..., Pair]) -> None:
    """Children that the arbiter has not seen: one with a toy, one that came with its toy from another parent, one of a
    parent whose key changes.  And one that goes by itself, whose parent comes again, so that the arbiter takes it."""
    both = pair(eu, us, "arbiter", FAMILY)
    arbiter, spoke = both.arbiter, both.spoke
    arbiter.send("INSERT INTO parent VALUES (1, 'goes'), (2, 'stays'), (3, 'moves'), (4, 'comes again')")
    arbiter.send("INSERT INTO child VALUES (20, 2), (21, 2)", "INSERT INTO toy VALUES (20, 20)")
    arbiter.send("INSERT INTO coat VALUES (3, 3)")
    both.run_down()
    until(lambda: both.family()[0] == both.family()[1], "the family at both")
    both.stored()
    spoke.send("INSERT INTO child VALUES (10, 1), (30, 3)", "INSERT INTO toy VALUES (10, 10)")
    spoke.send("UPDATE child SET parent = 1 WHERE id = 20", "INSERT INTO coat VALUES (4, 4)")
    arbiter.send("DELETE FROM parent WHERE id = 1", "UPDATE parent SET id = 33 WHERE id = 3")
    arbiter.send("DELETE FROM parent WHERE id = 4", "INSERT INTO parent VALUES (4, 'again')")
    until(lambda: both.family()[0]["parent"] == both.family()[1]["parent"], "parents as the arbiter has them")
    told = {row["id"] for kind, row in both.displaced() if kind == "foreign_key"}
    assert told == {10, 20, 30}
    both.up.run()
    until(lambda: both.family()[0] == both.family()[1] and both.equal_at_rest(), "the same family at both")
    family = both.family()[0]
    assert family["parent"] == [("2", "stays"), ("33", "moves"), ("4", "again")]
    assert family["coat"] == [("3", "33"), ("4", "4")]
    assert family["child"] == [("21", "2")] and family["toy"] == []
    assert both.failed() == []


@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_what_the_arbiter_did_not_touch_stays_as_the_spoke_has_it(eu: str, us: str, pair: Callable[..., Pair]) -> None:
    """Its groups of columns; a row that the spoke has deleted comes whole, and goes again."""
    both = pair(eu, us, "arrival", {}, {"lamp": ["n"]})
    arbiter, spoke = both.arbiter, both.spoke
    both.run_down()
    arbiter.send(*(f"INSERT INTO lamp VALUES ({key}, 'old', 0)" for key in (1, 2, 3, 4, 5)))
    until(both.equal, "rows")
    spoke.send("BEGIN", "UPDATE lamp SET word = 'us' WHERE id < 5", "DELETE FROM lamp WHERE id = 4")
    arbiter.send("UPDATE lamp SET n = 1 WHERE id IN (1, 3, 4)", "UPDATE lamp SET n = 2 WHERE id = 1")
    arbiter.send("UPDATE lamp SET word = 'eu' WHERE id = 3", "UPDATE lamp SET n = 5 WHERE id = 5")
    spoke.send("COMMIT")
    there = [("1", "us", "2"), ("2", "us", "0"), ("3", "eu", "1"), ("4", "old", "1"), ("5", "old", "5")]
    until(lambda: both.rows("lamp")[1] == there, "the arbiter's rows, in no order", 60)
    both.catch_up(both.up)
    until(both.equal, "equal rows")
    assert both.rows("lamp")[1] == [("1", "us", "2"), ("2", "us", "0"), ("3", "us", "1"), ("5", "old", "5")]


@PROOF
@pytest.mark.parametrize(("eu", "us"), [("mysql", "mariadb"), ("mariadb", "mysql")])
def test_a_time_that_the_spoke_sets_by_itself_stays_where_it_is_in_another_group(
    eu: str, us: str, pair: Callable[..., Pair]
) -> None:
    """One row alone, and several together."""
    columns = "id int PRIMARY KEY, n int, at timestamp(6) NULL ON UPDATE CURRENT_TIMESTAMP(6)"
    both = pair(eu, us, "arrival", {"t": f"CREATE TABLE t ({columns})"}, {"t": ["n"]})
    both.run_down()
    both.arbiter.send("INSERT INTO t VALUES (1, 0, '2020-01-01'), (2, 0, '2020-01-01'), (3, 0, '2020-01-01')")
    for where in ("id = 1", "id > 1"):
        both.arbiter.send(f"UPDATE t SET n = 1, at = at WHERE {where}")
    found = "SELECT CONCAT(n, ''), CONCAT(at, '') FROM t ORDER BY id"
    until(lambda: [row[0] for row in both.spoke.rows(found)] == ["1"] * 3, "what the arbiter changed")
    assert both.spoke.rows(found) == both.arbiter.rows(found)


@PROOF
@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_writers_at_both_sites_of_columns_in_groups(eu: str, us: str, pair: Callable[..., Pair]) -> None:
    both = pair(eu, us, "arrival", {}, {"lamp": ["n"], "seat": ["n"]})
    for part in range(4):
        for feed in (both.down, both.up):
            feed.run()
        both.write_at_once(200, seed=part)
        for feed in (both.down, both.up):
            feed.kill()
        both.write_at_once(50, seed=1000 + part)
    for feed in (both.down, both.up):
        feed.run()
    both.come_to_rest()


@PROOF
@pytest.mark.parametrize(("seed", "policy"), [(0, "arrival"), (1, "arbiter"), (2, "delete wins"), (3, "stop")])
@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_writers_at_both_sites_while_feeds_are_killed(
    eu: str, us: str, seed: int, policy: str, pair: Callable[..., Pair]
) -> None:
    both = pair(eu, us, policy)
    for feed in (both.down, both.up):
        feed.run()
    for part in range(6):
        feed = both.up if part % 2 else both.down
        both.write_at_once(200, seed=100 * seed + part)
        feed.kill()
        both.write_at_once(50, seed=1000 + 100 * seed + part)
        feed.run()
    both.come_to_rest()


@PROOF
def test_a_row_that_the_spoke_refuses_is_read_anew_and_never_written_as_it_was(pair: Callable[..., Pair]) -> None:
    """Else a row that the spoke has written since would be lost, and nobody would know."""
    both = pair("mariadb", "postgres_source")
    both.spoke.send("ALTER TABLE seat ADD CHECK (n < 100)")
    both.run_down()
    both.arbiter.send("INSERT INTO seat VALUES (1, 'window', 100)", "INSERT INTO seat VALUES (2, 'aisle', 1)")
    until(lambda: len(both.rows("seat")[1]) == 1, "the row behind it")
    both.stored()
    refused = both.down.command("rows", "retry", "--all")
    assert refused.code != 0 and "echo: all" in f"{refused.out}{refused.err}"
    both.spoke.send("ALTER TABLE seat DROP CONSTRAINT seat_n_check")
    taken = both.down.command("rows", "take-source", "--all", "--yes")
    assert taken.code != 0 and "echo: all" in " ".join(taken.out.split())
    both.down.options["conflicts"]["echo"] = "all"
    both.down.stop()
    both.run_down()
    assert both.down.command("rows", "take-source", "--all", "--yes").code == 0
    until(both.equal, "equal rows")


# Type, a value of the arbiter's row, and one of the spoke's.
MYSQL_COLUMNS = [
    ("decimal(12,4)", "12.5", "0"),
    ("varchar(20) CHARACTER SET latin1", "'caf\u00e9'", "''"),
    ("datetime(6)", "'2024-02-29 10:11:12.5'", "'1999-01-01'"),
    ("timestamp(6) NULL", "'2024-02-29 10:11:12.25'", "'1999-01-01 00:00:01'"),
    ("time(3)", "'-12:13:14.5'", "'00:00:00'"),
    ("date", "'2024-02-29'", "'1999-01-01'"),
    ("blob", "x'00ff27'", "x''"),
    ("json", """'{"a": [1, null]}'""", "'1'"),
    ("float", "1.1", "0"),
    ("double", "1e300", "0"),
    ("enum('x', 'y')", "'y'", "'x'"),
    ("set('p', 'q')", "'p,q'", "''"),
    ("bigint unsigned", "18446744073709551615", "0"),
    ("bit(9)", "b'101010101'", "b'0'"),
    ("year", "1999", "2001"),
    ("char(5)", "'ab'", "''"),
    ("binary(4)", "x'0102'", "x''"),
    ("text CHARACTER SET utf8mb4", "'\u96ea'", "''"),
    ("geometry", "ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(0 0)')"),
    ("int", "NULL", "1"),
]
POSTGRES_COLUMNS = [
    ("numeric(12,4)", "12.5", "'NaN'"),
    ("varchar(20)", "'caf\u00e9'", "''"),
    ("timestamp(6)", "'2024-02-29 10:11:12.5'", "'infinity'"),
    ("timestamptz", "'2024-02-29 10:11:12.25+05'", "'1999-01-01+00'"),
    ("time(3)", "'12:13:14.5'", "'00:00'"),
    ("date", "'0044-03-15 BC'", "'1999-01-01'"),
    ("bytea", "'\\x00ff27'", "''"),
    ("jsonb", """'{"a": [1, null]}'""", "'1'"),
    ("real", "1.1", "0"),
    ("float8", "0.1", "'-Infinity'"),
    ("boolean", "true", "false"),
    ("uuid", "'00000000-0000-0000-0000-0000000000ff'", "'00000000-0000-0000-0000-000000000000'"),
    ("bigint", "-9", "0"),
    ("bit(9)", "'101010101'", "'000000000'"),
    ("interval", "'1 mon 2 days'", "'0'"),
    ("char(5)", "'ab'", "''"),
    ("int[]", "'{1,NULL}'", "'{}'"),
    ("text", "'\u96ea'", "''"),
    ("json", """'{"b" : 1}'""", "'1'"),
    ("int", "NULL", "1"),
]


@PROOF
@pytest.mark.parametrize(
    ("eu", "us", "columns"),
    [
        pytest.param("mysql", "other_mysql", MYSQL_COLUMNS, id="mysql"),
        pytest.param("postgres_source", "postgres", POSTGRES_COLUMNS, id="postgres"),
    ],
)
def test_a_row_that_the_arbiter_stands_by_has_all_its_values(
    eu: str, us: str, columns: list[tuple[str, str, str]], pair: Callable[..., Pair]
) -> None:
    """The spoke has changed each, and the arbiter one; what the spoke wrote does not stand."""
    _, one, other = (", ".join(texts) for texts in zip(*columns, strict=True))
    names = ", ".join(f"c{n} {type}" for n, (type, _, _) in enumerate(columns))
    both = pair(eu, us, "arbiter", {"t": f"CREATE TABLE t (id int PRIMARY KEY, {names}, word int)"})
    both.arbiter.send(f"INSERT INTO t VALUES (1, {one}, 0)")
    both.run_down()
    both.stored()
    both.spoke.send("BEGIN", "DELETE FROM t", f"INSERT INTO t VALUES (1, {other}, 1)", "COMMIT")
    both.arbiter.send("UPDATE t SET word = 2")
    both.catch_up(both.up)
    both.arbiter.send("INSERT INTO lamp VALUES (1, 'behind it', 0)")
    until(both.equal, "what is behind it")
    outcomes = {row[0] for row in both.arbiter.rows(f"SELECT outcome FROM {both.network.books}.tidelock_conflicts")}
    assert outcomes == {"verdict"}
    whole = "t::text" if both.arbiter.database else "*"
    ours, theirs = (node.rows(f"SELECT {whole} FROM t") for node in (both.arbiter, both.spoke))
    assert len(ours) == 1 and ours == theirs
