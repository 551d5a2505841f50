"""Sites without an arbiter: the row with the greater stamp stays everywhere (`conflicts: stamp`)."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.harness.network import Network
from bench.harness.rig import until
from bench.harness.servers import MariaDb, MySql, Postgres, Server

PROOF = pytest.mark.proof
STAMP = {"stamp": {"time": "tl_time", "site": "tl_site"}}
Made = Callable[..., Network]


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Made]:
    made: list[Network] = []

    def make(servers: Mapping[str, Server], *edges: str) -> Network:
        """With columns and triggers, as `init` makes them."""
        network = Network(tmp_path, servers, edges)
        made.append(network)
        for feed in network.feeds.values():
            feed.options["conflicts"] = STAMP
            said = feed.command("init", "--apply")
            assert said.code == 0, said.out + said.err
        return network

    yield make
    for one in made:
        one.close()


def test_smoke(mariadb: MariaDb, postgres_source: Postgres, network: Made) -> None:
    pair = network({"eu": mariadb, "us": postgres_source}, "eu>us", "us>eu")
    for feed in pair.feeds.values():
        said = feed.command("check")
        print(said.out)
        said = feed.command("init")
        print(said.out)
    pair.run()
    pair["eu"].send("INSERT INTO note (id, word, n) VALUES (1, 'eu', 1)")
    pair["us"].send("INSERT INTO note (id, word, n) VALUES (1, 'us', 2), (2, 'us', 2)")
    pair.come_to_rest()
    print(pair["eu"].rows("SELECT * FROM note"), pair["us"].rows("SELECT * FROM note"))
