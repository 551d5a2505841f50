"""`tidelock pair`: sites are made equal and opened, run, paused, grown and taken apart by one file."""

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.harness.network import Direction
from bench.harness.pair_file import Pair
from bench.harness.rig import until
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.tidelock import Process

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


@PROOF
@pytest.mark.parametrize(("eu", "us"), [("mariadb", "postgres_source"), ("postgres_source", "mysql")])
def test_an_init_that_is_killed_goes_on(
    eu: str, us: str, request: pytest.FixtureRequest, pair: Callable[..., Pair]
) -> None:
    """Killed once it has begun, once the way back has its place, in the middle of the copy, and while it compares."""
    servers = {"eu": request.getfixturevalue(eu), "us": request.getfixturevalue(us)}
    both = pair(servers, "eu-us", permit={"after": "3s"}, copy={"chunk_rows": 1000})
    there, back = both.feeds["eu>us"], both.feeds["us>eu"]
    both["eu"].send(
        "INSERT INTO note SELECT a.n * 100 + b.n, 'old', 0 FROM "
        + ", ".join(f"({' UNION ALL '.join(f'SELECT {n} AS n' for n in range(100))}) AS {name}" for name in "ab")
    )
    moments: list[tuple[str, Callable[[], bool]]] = [
        ("a state", lambda: state(both, there) == "copying"),
        ("a place of the way back", lambda: back.begun),
        ("some rows", lambda: bool(both["us"].notes())),
        ("all rows", lambda: len(both["us"].notes()) >= 10_000),
    ]
    for number, (what, reached) in enumerate(moments):
        begun = Process(["pair", "init", str(both.file), "--from", "eu", "--apply"], both.output)
        until(reached, what)
        assert not both["us"].notes() or back.begun, "the way back has its place before there are rows"
        os.kill(begun.pid, signal.SIGKILL)
        assert begun.code(10) == -signal.SIGKILL
        both["eu"].write([number])
    last = both.begin("eu")
    assert last.code == 0, last.out + last.err
    assert both["us"].notes() == both["eu"].notes()
    both.start()
    both.write(range(6, 12))
    both.come_to_rest()
    assert both.came_back() == {}


def state(both: Pair, feed: Direction) -> str:
    """What `init` has noted of a feed."""
    with contextlib.suppress(Exception):
        found = feed.target.rows(f"SELECT state FROM {both.books}.tidelock_pair WHERE feed = '{feed.name}'")
        return str(found[0][0]) if found else ""
    return ""


@PROOF
def test_a_star_of_three_and_one_more(
    mariadb: MariaDb, mysql: MySql, postgres_source: Postgres, other_mysql: MySql, pair: Callable[..., Pair]
) -> None:
    servers = {"eu": mariadb, "us": postgres_source, "asia": mysql, "africa": other_mysql}
    star = pair(servers, "eu-us", "eu-asia", "eu-africa", permit={"after": "3s"})
    hidden = star.lines.pop()
    africa = star.nodes.pop("africa")
    late = {edge: star.feeds.pop(edge) for edge in ("eu>africa", "africa>eu")}
    star["eu"].write(range(6))
    begun = star.begin("eu")
    assert begun.code == 0, begun.out + begun.err
    star.start()
    star.write(range(6, 12))
    until(star.equal, "equal rows", 60)
    star.supervisor.stop()
    star.lines.append(hidden)
    star.nodes["africa"] = africa
    star.feeds |= late
    added = star.command("add", "africa", "--from", "eu", "--apply")
    assert added.code == 0, added.out + added.err
    assert africa.notes() == star["eu"].notes()
    star.start()
    star.write(range(12, 18))
    until(star.equal, "equal rows", 60)
    star.come_to_rest()
    assert star.came_back() == {}
    gone = star.command("remove", "us", "--apply")
    assert gone.code == 0, gone.out + gone.err
    assert site_names(star["us"], star.books) == []
    assert site_names(star["eu"], star.books) == ["africa", "asia", "eu"]


@PROOF
def test_a_killed_feed_comes_back_and_a_halted_one_leaves_the_others(
    mariadb: MariaDb, postgres_source: Postgres, pair: Callable[..., Pair]
) -> None:
    both = pair({"eu": mariadb, "us": postgres_source}, "eu-us")
    assert both.begin("eu").code == 0
    run = both.start()
    until(lambda: all(alive(both, feed) for feed in both.feeds.values()), "two runs")
    there = both.feeds["eu>us"]
    os.kill(alive(both, there), signal.SIGKILL)
    both.write(range(3))
    until(both.equal, "equal rows", 60)
    assert "killed by signal 9" in both.said()
    both["eu"].send("ALTER TABLE note MODIFY word varchar(40)")
    until(lambda: "ended with exit code 4" in both.said(), "a halt")
    both["us"].send("UPDATE note SET word = 'us' WHERE id = 2000001")
    until(lambda: ("us",) in both["eu"].rows("SELECT word FROM note"), "a row of the other way")
    run.signal(signal.SIGTERM)
    assert run.code(30) == 4


def alive(both: Pair, feed: Direction) -> int:
    """Returns the process that runs a feed; 0 where none does."""
    with contextlib.suppress(Exception):
        found = feed.target.rows(
            f"SELECT CONCAT(pid, '') FROM {both.books}.tidelock_runs WHERE feed = '{feed.name}' AND beat_at IS NOT NULL"
        )
        return int(found[0][0]) if found else 0
    return 0
