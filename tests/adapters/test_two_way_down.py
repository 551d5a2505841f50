"""The feed from an arbiter to its spoke, on real servers: histories of docs/explanation/conflicts.md.

The spoke's writers hold their rows while the arbiter writes, so that each history comes in its own order.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.harness.network import Direction, Network
from bench.harness.rig import until
from bench.harness.servers import Postgres, Server

PROOF = pytest.mark.proof
PAIRS = [
    pytest.param("mariadb", "postgres_source", id="mariadb-postgres"),
    pytest.param("postgres_source", "mariadb", id="postgres-mariadb", marks=PROOF),
    pytest.param("mysql", "other_mysql", id="mysql-mysql", marks=PROOF),
    pytest.param("postgres_source", "mysql", id="postgres-mysql", marks=PROOF),
    pytest.param("mysql", "postgres_source", id="mysql-postgres", marks=PROOF),
    pytest.param("postgres_source", "postgres", id="postgres-postgres", marks=PROOF),
]
TABLE = "CREATE TABLE seat (id int PRIMARY KEY, place varchar(20) UNIQUE, n int)"


class Pair:
    """An arbiter and its spoke.  What the spoke sends overwrites what is there: what comes last stands."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.arbiter, self.spoke = network["eu"], network["us"]
        self.down, self.up = network.feeds["eu>us"], network.feeds["us>eu"]
        self.down.options["conflicts"] = {"arbiter": "eu"}
        self.up.options["on_conflict"] = "replace"
        for node in (self.arbiter, self.spoke):
            node.send(TABLE)
            if isinstance(node.server, Postgres):
                node.send("ALTER TABLE seat REPLICA IDENTITY FULL")

    def begin(self) -> None:
        """Both directions have their first place, and the way down runs."""
        for feed in (self.up, self.down):
            self.catch_up(feed)
        self.run_down()

    def run_down(self) -> None:
        """Until it has brought a row, so that what is written next is behind the floor of its reader."""
        self.down.run()
        self.arbiter.send("INSERT INTO note SELECT coalesce(max(id), 900) + 1, 'begun', 0 FROM note WHERE id > 900")
        until(lambda: self.begun() and self.rows("note")[0][-1] == self.rows("note")[1][-1], "a row")

    def begun(self) -> bool:
        assert self.down.process is not None
        self.down.process.check()
        return bool(self.rows("note")[1])

    def catch_up(self, feed: Direction) -> None:
        said = feed.command("run", "--until-caught-up")
        assert said.code == 0, f"{said.out}\n{said.err}"

    def stored(self) -> None:
        """The spoke's log says what it has of the arbiter's."""
        until(lambda: self.network.receipts(self.down) == 0, "a checkpoint")

    def rows(self, table: str) -> list[list[tuple[Any, ...]]]:
        columns = "CONCAT(id, ''), " + ("word" if table == "note" else "place") + ", CONCAT(n, '')"
        return [node.rows(f"SELECT {columns} FROM {table} ORDER BY id") for node in (self.arbiter, self.spoke)]

    def equal(self) -> bool:
        if self.down.process is not None:
            self.down.process.check()
        return all(one == other for one, other in map(self.rows, ("note", "seat")))

    def displaced(self) -> list[tuple[str, dict[str, Any]]]:
        """Type, and the row that is gone."""
        told = self.spoke.rows(
            f"SELECT type, lost FROM {self.network.books}.tidelock_conflicts WHERE feed = '{self.down.name}' "
            "AND outcome = 'displaced' AND incoming = 0"
        )
        return [(str(kind), msgspec.msgpack.decode(lost)) for kind, lost in told]


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str, str], Pair]]:
    made: list[Network] = []

    def make(eu: str, us: str) -> Pair:
        servers: Mapping[str, Server] = {"eu": request.getfixturevalue(eu), "us": request.getfixturevalue(us)}
        made.append(Network(tmp_path, servers, ("eu>us", "us>eu")))
        return Pair(made[-1])

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("restarted", [False, pytest.param(True, marks=PROOF)])
@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_what_crosses_comes_back(eu: str, us: str, restarted: bool, pair: Callable[[str, str], Pair]) -> None:
    """Histories 1 and 3 (row 1), 2 (row 2) and 6 (places); 4, where the reader begins anew."""
    both = pair(eu, us)
    arbiter, spoke = both.arbiter, both.spoke
    both.begin()
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
    spoke.send("BEGIN", "DELETE FROM note WHERE id = 2")
    both.catch_up(both.up)
    assert [row[1] for row in arbiter.notes()[:3]] == ["s", "s", "h"]
    spoke.send("COMMIT")
    both.catch_up(both.up)
    until(both.equal, "equal rows")
    assert [row[:2] for row in spoke.notes()[:2]] == [("1", "s"), ("3", "h")]
    assert [str(row[0]) for row in spoke.rows("SELECT id FROM seat")] == ["12"]
