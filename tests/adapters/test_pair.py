"""`tidelock pair`: sites are made equal and opened, run, paused, grown and taken apart by one file."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.harness.pair import Pair
from bench.harness.rig import until
from bench.harness.servers import Postgres, Server

PROOF = pytest.mark.proof
PAIRS = [
    pytest.param("mariadb", "postgres_source", id="mariadb-postgres"),
    pytest.param("postgres_source", "mysql", id="postgres-mysql", marks=PROOF),
    pytest.param("mysql", "other_mysql", id="mysql-mysql", marks=PROOF),
    pytest.param("mysql", "mariadb", id="mysql-mariadb", marks=PROOF),
    pytest.param("postgres_source", "postgres", id="postgres-postgres", marks=PROOF),
]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Callable[..., Pair]]:
    made: list[Pair] = []

    def make(servers: Mapping[str, Server], *lines: str, **options: Any) -> Pair:
        made.append(Pair(tmp_path, servers, lines, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def site_names(node: Any, books: str) -> list[str]:
    return [str(row[0]) for row in node.rows(f"SELECT site FROM {books}.tidelock_site ORDER BY site")]


@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_a_pair_from_its_first_row_to_its_end(
    eu: str, us: str, request: pytest.FixtureRequest, pair: Callable[..., Pair]
) -> None:
    servers = {"eu": request.getfixturevalue(eu), "us": request.getfixturevalue(us)}
    both = pair(servers, "eu-us", permit={"after": "3s"})
    both["us"].send("DROP TABLE note")
    both["eu"].write(range(6))
    refused = both.command("run")
    assert refused.code == 1 and "were not made equal yet" in refused.err
    begun = both.begin("eu")
    assert begun.code == 0, begun.out + begun.err
    assert both["us"].notes() == both["eu"].notes() and len(both["us"].notes()) == 4
    both.start()
    both.write(range(6, 12))
    until(both.equal, "equal rows")
    shown = json.loads(both.command("status", "--json").out)
    assert [(feed["activity"], feed["opening"], feed["permit"]) for feed in shown["feeds"]] == [
        ("running", "open", "open")
    ] * 2
    assert both.begin("eu").out.count("is open already") == 1
    both.come_to_rest()
    assert both.came_back() == {}
    both["us"].write([12])
    gone = both.command("remove", "us", "--apply")
    assert gone.code == 0, gone.out + gone.err
    assert both["us"].notes() == both["eu"].notes(), "what was written at the end has gone on"
    for node in both.nodes.values():
        assert site_names(node, both.books) == []
        if isinstance(node.server, Postgres):
            assert node.rows("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == []
            assert node.rows("SELECT pubname FROM pg_publication") == []
