"""The feed from an arbiter to its spoke, on real servers: histories of docs/explanation/conflicts.md.

The spoke's writers hold their rows while the arbiter writes, so that each history comes in its own order.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

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


@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_writers_at_both_sites(eu: str, us: str, pair: Callable[[str, str], Pair]) -> None:
    """Of the same rows and unique values, at the same time: what stands is the same."""
    both = pair(eu, us)
    both.run_down()
    both.up.run()
    both.write_at_once(150, seed=1)
    both.come_to_rest()


@PROOF
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_writers_at_both_sites_while_feeds_are_killed(
    eu: str, us: str, seed: int, pair: Callable[[str, str], Pair]
) -> None:
    both = pair(eu, us)
    for feed in (both.down, both.up):
        feed.run()
    for part in range(6):
        feed = both.up if part % 2 else both.down
        both.write_at_once(200, seed=100 * seed + part)
        feed.kill()
        both.write_at_once(50, seed=1000 + 100 * seed + part)
        feed.run()
    both.come_to_rest()
