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
from tidelock.adapters.bookkeeping import verdicts

PROOF = pytest.mark.proof
PAIRS = [
    pytest.param("mariadb", "postgres_source", id="mariadb-postgres"),
    pytest.param("postgres_source", "mariadb", id="postgres-mariadb", marks=PROOF),
    pytest.param("mysql", "other_mysql", id="mysql-mysql", marks=PROOF),
    pytest.param("postgres_source", "mysql", id="postgres-mysql", marks=PROOF),
    pytest.param("mysql", "postgres_source", id="mysql-postgres", marks=PROOF),
    pytest.param("postgres_source", "postgres", id="postgres-postgres", marks=PROOF),
]
TABLES = {
    "seat": "CREATE TABLE seat (id int PRIMARY KEY, place varchar(20) UNIQUE, n int)",
    "lamp": "CREATE TABLE lamp (id int PRIMARY KEY, word varchar(20), n int)",
}


class Pair:
    """An arbiter and its spoke.  What the spoke sends overwrites what is there: what comes last stands."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.arbiter, self.spoke = network["eu"], network["us"]
        self.down, self.up = network.feeds["eu>us"], network.feeds["us>eu"]
        for feed in (self.down, self.up):
            feed.options["conflicts"] = {"arbiter": "eu", "default": "arrival"}
        for node in (self.arbiter, self.spoke):
            for table, statement in TABLES.items():
                node.send(statement)
                if isinstance(node.server, Postgres):
                    node.send(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        for feed in (self.up, self.down):
            self.catch_up(feed)

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
        columns = "CONCAT(id, ''), " + ("place" if table == "seat" else "word") + ", CONCAT(n, '')"
        return [node.rows(f"SELECT {columns} FROM {table} ORDER BY id") for node in (self.arbiter, self.spoke)]

    def equal(self) -> bool:
        if self.down.process is not None:
            self.down.process.check()
        return all(one == other for one, other in map(self.rows, ("note", *TABLES)))

    def tell(self, table: str, key: int, row: dict[str, Any] | None) -> None:
        """The arbiter stands by a row, or by none, against the spoke's: a verdict as the feed to it writes one."""
        books, feed = self.network.books, self.up.name
        image = None if row is None else verdicts.image(row)
        verdict = verdicts.Verdict(feed, 0, 99, key, 0, self.network.schema, table, verdicts.image({"id": key}), image)
        if isinstance(self.arbiter.server, Postgres):
            receipt = msgspec.json.encode({"receipt": (feed, 0, 99, key, "", "us", "us", "", "")}).decode()
            self.arbiter.send(
                f"BEGIN; SELECT pg_logical_emit_message(true, 'tidelock', '{receipt}'); "
                f"SELECT pg_logical_emit_message(true, '{verdicts.PREFIX}', '{verdicts.content(verdict)}'); COMMIT"
            )
            return
        told = "NULL" if image is None else f"x'{image.hex()}'"
        self.arbiter.send(
            "START TRANSACTION",
            f"INSERT INTO {books}.tidelock_progress VALUES ('{feed}', 0, 99, {key}, '', 'us', 'us', '', '')",
            f"INSERT INTO {books}.tidelock_verdicts VALUES ('{feed}', 0, 99, {key}, 0, '{self.network.schema}', "
            f"'{table}', x'{verdict.row_key.hex()}', {told})",
            f"DELETE FROM {books}.tidelock_progress WHERE feed = '{feed}' AND epoch = 99",
            f"DELETE FROM {books}.tidelock_verdicts WHERE feed = '{feed}' AND epoch = 99",
            "COMMIT",
        )

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
