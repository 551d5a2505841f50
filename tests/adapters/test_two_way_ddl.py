"""Statements between sites: made at one, brought to the other, and known there by the feed that goes back."""

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


@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_statements_of_one_site(eu: str, us: str, pair: Callable[..., Pair]) -> None:
    """A column while rows of either form cross, a table, TRUNCATE; then a statement of the other site."""
    both = pair(eu, us)
    arbiter, spoke = both.arbiter, both.spoke
    both.run_down()
    spoke.send("INSERT INTO note VALUES (1, 'first', 0)")
    both.catch_up(both.up)
    arbiter.send("ALTER TABLE note ADD COLUMN more int")
    until(lambda: has(spoke, "note", "more"), "the column")
    spoke.send("INSERT INTO note (id, word, more) VALUES (2, 'new', 7)", "UPDATE note SET more = 3 WHERE id = 1")
    arbiter.send("INSERT INTO note (id, word, more) VALUES (3, 'new', 8)")
    both.up.run()
    until(lambda: len(rows(arbiter, "note")) == 4 and alike(both, "note", "word", "more"), "equal rows")
    assert rows(arbiter, "note", "more")[:3] == [("1", "3"), ("2", "7"), ("3", "8")]
    arbiter.send("CREATE TABLE late (id int PRIMARY KEY, word varchar(20))")
    if isinstance(arbiter.server, Postgres):
        assert "late" in halted(both.down)
        return
    until(lambda: has(spoke, "late", "word"), "the table")
    spoke.send("INSERT INTO late VALUES (1, 'spoke')")
    until(lambda: alike(both, "late", "word") and rows(arbiter, "late"), "a row of the new table")
