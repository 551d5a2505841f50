"""Feeds between sites that write, two ways, round and on: rows are equal everywhere, and none comes back."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from bench.harness.network import Network
from bench.harness.rig import until
from bench.harness.servers import MariaDb, MySql, Postgres, Server

PROOF = pytest.mark.proof
PAIRS = [
    pytest.param("mariadb", "postgres_source", id="mariadb-postgres"),
    pytest.param("mysql", "other_mysql", id="mysql-mysql", marks=PROOF),
    pytest.param("postgres_source", "postgres", id="postgres-postgres", marks=PROOF),
]


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Callable[..., Network]]:
    made: list[Network] = []

    def make(servers: Mapping[str, Server], *edges: str) -> Network:
        made.append(Network(tmp_path, servers, edges))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_two_ways(eu: str, us: str, request: pytest.FixtureRequest, network: Callable[..., Network]) -> None:
    both = network({"eu": request.getfixturevalue(eu), "us": request.getfixturevalue(us)}, "eu>us", "us>eu")
    both.run()
    both.write(range(12))
    both.come_to_rest()
    assert len(both["eu"].notes()) == 16
    assert both.came_back() == {}
    assert all(len(feed.carried()) == 28 for feed in both.feeds.values()), "each its own site's changes, once"
