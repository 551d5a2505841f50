"""Statements between sites: made at one, brought to the other, and known there by the feed that goes back."""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.harness.network import Direction, Network, Node
from bench.harness.pair import Pair
from bench.harness.rig import until
from bench.harness.servers import Postgres, Server

OPERATOR = 4
PROOF = pytest.mark.proof
PAIRS = [
    pytest.param("mariadb", "postgres_source", id="mariadb-postgres"),
    pytest.param("postgres_source", "mariadb", id="postgres-mariadb", marks=PROOF),
    pytest.param("mysql", "mariadb", id="mysql-mariadb", marks=PROOF),
    pytest.param("postgres_source", "postgres", id="postgres-postgres", marks=PROOF),
]


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Pair]]:
    made: list[Network] = []

    def make(eu: str, us: str) -> Pair:
        servers: Mapping[str, Server] = {"eu": request.getfixturevalue(eu), "us": request.getfixturevalue(us)}
        network = Network(tmp_path, servers, ("eu>us", "us>eu"))
        made.append(network)
        for feed in network.feeds.values():
            feed.options["ddl"] = {"from": "eu"}
        return Pair(network)

    yield make
    for one in made:
        one.close()


def rows(node: Node, table: str, *columns: str) -> list[tuple[Any, ...]]:
    told = ", ".join(f"CASE WHEN {name} IS NULL THEN 'NULL' ELSE CONCAT({name}, '') END" for name in ("id", *columns))
    return node.rows(f"SELECT {told} FROM {table} ORDER BY id")


def alike(both: Pair, table: str, *columns: str) -> bool:
    for feed in (both.down, both.up):
        if feed.process is not None:
            feed.process.check()
    return rows(both.arbiter, table, *columns) == rows(both.spoke, table, *columns)


def has(node: Node, table: str, column: str) -> bool:
    told = f"table_schema = '{node.schema}' AND table_name = '{table}' AND column_name = '{column}'"
    return bool(node.rows(f"SELECT 1 FROM information_schema.columns WHERE {told}"))


def halted(feed: Direction) -> str:
    """What a feed says that has ended for the operator."""
    assert feed.process is not None
    assert feed.process.code(60) == OPERATOR, feed.said()
    return " ".join(feed.said().split())


def added(node: Node) -> str:
    """A column that this server alone has a type for, where it has one: the other's is not spelled alike."""
    return f"ALTER TABLE note ADD COLUMN more {'int' if isinstance(node.server, Postgres) else 'smallint unsigned'}"


@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_statements_of_one_site(eu: str, us: str, pair: Callable[..., Pair]) -> None:
    """A column, with rows of either form under way, and TRUNCATE; then a statement of the other site."""
    both = pair(eu, us)
    arbiter, spoke = both.arbiter, both.spoke
    both.run_down()
    spoke.send("INSERT INTO note VALUES (1, 'first', 0)")
    arbiter.send(added(arbiter))
    if isinstance(arbiter.server, Postgres):
        arbiter.send("INSERT INTO note VALUES (4, 'tells', 0)")  # a form is told by a row, or half a minute later
    until(lambda: has(spoke, "note", "more"), "the column")
    spoke.send("INSERT INTO note (id, word, more) VALUES (2, 'new', 7)", "UPDATE note SET more = 3 WHERE id = 1")
    arbiter.send("INSERT INTO note (id, word, more) VALUES (3, 'new', 8)")
    both.up.run()
    until(lambda: len(rows(arbiter, "note")) > 3 and alike(both, "note", "word", "more"), "equal rows")
    assert rows(arbiter, "note", "more")[:3] == [("1", "3"), ("2", "7"), ("3", "8")]
    both.up.stop()
    spoke.send("INSERT INTO note (id, word) VALUES (5, 'on its way')")
    arbiter.send("TRUNCATE TABLE note")
    until(lambda: not rows(spoke, "note"), "no rows")
    both.up.run()
    until(lambda: rows(arbiter, "note") == [("5",)] and alike(both, "note", "word"), "the row that was on its way")
    spoke.send("ALTER TABLE note ADD COLUMN own int", "INSERT INTO note (id, own) VALUES (6, 1)")
    said = halted(both.up)
    assert "a statement was made at us, and the statements of these sites are made at eu" in said
    arbiter.send("ALTER TABLE note ADD COLUMN own int", "INSERT INTO note (id, own) VALUES (7, 2)")
    assert both.up.command("ddl", "done").code == 0
    both.up.run()
    until(lambda: len(rows(arbiter, "note")) == 3 and alike(both, "note", "word", "own"), "rows of both")


@PROOF
@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_a_feed_that_is_killed_behind_its_statement(eu: str, us: str, pair: Callable[..., Pair]) -> None:
    """The target has the column, and not the note that the statement ran, nor a checkpoint behind it."""
    both = pair(eu, us)
    arbiter, spoke, books = both.arbiter, both.spoke, both.network.books
    both.run_down()
    both.stored()
    checkpoint = f"{books}.tidelock_checkpoint WHERE feed = '{both.down.name}'"
    spoke.send(f"CREATE TABLE {books}.saved AS SELECT position FROM {checkpoint}")
    arbiter.send(added(arbiter), "INSERT INTO note (id, more) VALUES (3, 8)")
    until(lambda: has(spoke, "note", "more") and len(rows(spoke, "note")) == 2, "the row behind the column")
    both.down.kill()
    spoke.send(
        f"UPDATE {books}.tidelock_owner SET ddl_passed = NULL WHERE feed = '{both.down.name}'",
        f"UPDATE {checkpoint.replace(' WHERE', f' SET position = (SELECT position FROM {books}.saved) WHERE')}",
    )
    spoke.send("INSERT INTO note (id, more) VALUES (1, 7)")
    both.up.run()
    both.down.run()
    arbiter.send("INSERT INTO note (id, more) VALUES (4, 9)")
    until(lambda: len(rows(arbiter, "note")) == 4 and alike(both, "note", "word", "more"), "equal rows")


@PROOF
@pytest.mark.parametrize(("eu", "us"), [pair for pair in PAIRS if not str(pair.id).startswith("postgres")])
def test_a_table_that_is_made_at_one_site(eu: str, us: str, pair: Callable[..., Pair]) -> None:
    """Rows of it go both ways, though no feed knew the table when it began."""
    both = pair(eu, us)
    arbiter, spoke = both.arbiter, both.spoke
    both.run_down()
    both.up.run()
    arbiter.send("CREATE TABLE late (id int PRIMARY KEY, word varchar(20))")
    until(lambda: has(spoke, "late", "word"), "the table")
    spoke.send("INSERT INTO late VALUES (1, 'spoke')")
    until(lambda: rows(arbiter, "late") == [("1",)] and alike(both, "late", "word"), "a row of the new table")
    arbiter.send("UPDATE late SET word = 'arbiter' WHERE id = 1", "INSERT INTO late VALUES (2, 'arbiter')")
    until(lambda: len(rows(spoke, "late")) == 2 and alike(both, "late", "word"), "rows of both sites")


@PROOF
@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_a_column_that_is_added_while_both_sites_write(eu: str, us: str, pair: Callable[..., Pair]) -> None:
    """The same rows and unique values are written at both sites: conflicts are decided in either form."""
    both, tables = pair(eu, us), ("note", "seat", "lamp")
    both.run_down()
    both.up.run()
    for seed, name in enumerate(("one", "two", "three")):
        writing = threading.Thread(target=both.write_at_once, args=(150,), kwargs={"seed": seed})
        writing.start()
        for table in tables:
            both.arbiter.send(f"ALTER TABLE {table} ADD COLUMN {name} int")
        writing.join()
    until(lambda: all(has(both.spoke, table, "three") for table in tables), "the last columns", 100)  # no row may tell
    both.come_to_rest()
    for table in tables:
        assert alike(both, table, "one", "two", "three"), table
