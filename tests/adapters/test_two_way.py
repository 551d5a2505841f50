"""Feeds between sites that write, two ways, round and on: rows are equal everywhere, and none comes back."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.harness.network import Direction, Network
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
    both.write(range(9))
    until(lambda: both.equal() and not any(map(both.receipts, both.feeds.values())), "checkpoints")
    both.write(range(9, 12))
    both.come_to_rest()
    assert len(both["eu"].notes()) == 16
    assert both.came_back() == {}
    for feed in both.feeds.values():
        assert feed.seen()[-1] is not None, "the sister has stored a checkpoint before"
    assert all(len(feed.carried()) == 28 for feed in both.feeds.values()), "each its own site's changes, once"


@PROOF
@pytest.mark.parametrize(("eu", "us"), [("mariadb", "postgres_source"), ("mysql", "other_mysql")])
def test_two_ways_with_killed_runs(
    eu: str, us: str, request: pytest.FixtureRequest, network: Callable[..., Network]
) -> None:
    both = network({"eu": request.getfixturevalue(eu), "us": request.getfixturevalue(us)}, "eu>us", "us>eu")
    both.run()
    for part in range(6):
        both.write(range(12 * part, 12 * part + 12))
        feed = both.feeds["eu>us" if part % 2 else "us>eu"]
        feed.kill()
        both.write(range(1000 + 3 * part, 1003 + 3 * part))
        feed.run()
    both.come_to_rest()
    assert both.came_back() == {}
    assert len(both["eu"].notes()) == 2 * (48 + 12)


@PROOF
def test_a_ring(mariadb: MariaDb, mysql: MySql, postgres_source: Postgres, network: Callable[..., Network]) -> None:
    ring = network({"a": mariadb, "b": mysql, "c": postgres_source}, "a>b", "b>c", "c>a")
    ring.run()
    ring.write(range(12))
    ring.come_to_rest()
    assert ring.came_back() == {}
    assert len(ring["a"].notes()) == 24


@PROOF
@pytest.mark.parametrize("edges", [("a>b", "b>c"), ("a>b", "b>a", "b>c")], ids=["on", "two ways and on"])
def test_what_a_feed_brings_goes_on(
    edges: tuple[str, ...], mariadb: MariaDb, mysql: MySql, postgres: Postgres, network: Callable[..., Network]
) -> None:
    tree = network({"a": mariadb, "b": mysql, "c": postgres}, *edges)
    tree.run()
    tree["a"].write(range(12))
    tree["b"].write(range(12))
    tree.come_to_rest("bc")
    assert tree.came_back() == {}
    assert len(tree["c"].notes()) == 16
    assert (tree["a"].notes() == tree["b"].notes()) is ("b>a" in edges)


@PROOF
def test_what_came_from_outside_does_not_go_back_between_two(
    mariadb: MariaDb, mysql: MySql, postgres_source: Postgres, network: Callable[..., Network]
) -> None:
    tree = network({"a": mariadb, "b": mysql, "c": postgres_source}, "a>b", "b>c", "c>b")
    tree.run()
    tree.write(range(12))
    until(lambda: len(tree["c"].notes()) == 24, "rows of all sites")
    tree.come_to_rest("bc")
    assert tree.came_back() == {}
    assert tree.carried(tree.feeds["c>b"], tree["a"]) == 0, "what a made has been at b"


@PROOF
def test_own_changes_alone_and_words_that_end_the_way(
    mariadb: MariaDb, mysql: MySql, other_mysql: MySql, postgres: Postgres, network: Callable[..., Network]
) -> None:
    tree = network({"a": mariadb, "b": mysql, "c": postgres, "d": other_mysql}, "a>b", "b>c", "b>d")
    tree.feeds["a>b"].sites["mark"] = ["a-only"]
    tree.feeds["b>c"].sites["forward"] = "own"
    tree.feeds["b>d"].sites["drop"] = ["a-only"]
    tree.run()
    tree["a"].write(range(3))
    tree["b"].write(range(6))
    until(lambda: [len(tree[site].notes()) for site in "abcd"] == [2, 6, 4, 4], "rows of b alone at c and d")
    tree.come_to_rest("cd")
    assert [len(tree[site].notes()) for site in "abcd"] == [2, 6, 4, 4]


def told(network: Network, edge: str, **sites: Any) -> str:
    """What a run of the feed says that is refused, or halts."""
    feed = network.feeds[edge]
    feed.sites = sites
    said = feed.command("run", "--until-caught-up")
    assert said.code != 0, said.out
    return " ".join(f"{said.out}\n{said.err}".split())


def test_a_site_is_one_server_and_a_server_one_site(
    mysql: MySql, mariadb: MariaDb, network: Callable[..., Network]
) -> None:
    """Under another address too; and the statement that the refusal says lets it go on."""
    pair = network({"eu": mysql, "us": mariadb}, "eu>us")
    feed = pair.feeds["eu>us"]
    assert feed.command("run", "--until-caught-up").code == 0, feed.said()
    pair["eu"].host = "localhost"
    assert feed.command("run", "--until-caught-up").code == 0, feed.said()
    assert "is the site eu" in told(pair, "eu>us", source="asia", target="us")
    feed.sites = {"source": "eu", "target": "us"}
    pair["us"].send(f"UPDATE {pair.books}.tidelock_site SET identity = 'another' WHERE site = 'eu'")
    checked = feed.command("check")
    assert checked.code == 1 and "knows the site eu as the server another" in " ".join(checked.out.split())
    refused = told(pair, "eu>us", **feed.sites)
    assert "knows the site eu as the server another" in refused
    pair["us"].send("UPDATE" + refused.partition(": UPDATE")[2])
    assert feed.command("run", "--until-caught-up").code == 0, feed.said()


@PROOF
def test_a_feed_without_sites_stops_at_what_one_with_sites_has_brought(
    mysql: MySql, mariadb: MariaDb, network: Callable[..., Network]
) -> None:
    """And with sites it goes on."""
    pair = network({"eu": mysql, "us": mariadb}, "eu>us", "us>eu")
    back = pair.feeds["us>eu"]
    named, back.sites = back.sites, {}
    pair.run()
    pair["eu"].write([0])
    assert back.process is not None
    assert back.process.code(30) == 4
    assert "this feed names none" in " ".join(back.said().split())
    back.sites = named
    back.run()
    pair["us"].write([0])
    pair.come_to_rest()
    assert pair.came_back() == {}


@PROOF
def test_two_feeds_without_sites_that_go_both_ways_are_told(
    mariadb: MariaDb, postgres_source: Postgres, network: Callable[..., Network]
) -> None:
    """A `server_id` of MariaDB is no proof of which server it is, so that is no error.  With sites there is nothing to
    tell."""
    pair = network({"eu": mariadb, "us": postgres_source}, "eu>us", "us>eu")
    there, back = pair.feeds["eu>us"], pair.feeds["us>eu"]
    there.sites, named = {}, back.sites
    back.sites = {}
    assert there.command("run", "--until-caught-up").code == 0
    pair["eu"].write([0])
    assert there.command("run", "--until-caught-up").code == 0
    assert told_of_the_other_way(back) == [("warning", there.name)]
    back.sites = named
    assert told_of_the_other_way(back) == []


@PROOF
def test_a_feed_the_other_way_of_other_tables_is_none(
    mariadb: MariaDb, mysql: MySql, network: Callable[..., Network]
) -> None:
    """The tables that it has run with are known."""
    pair = network({"eu": mariadb, "us": mysql}, "eu>us", "us>eu")
    there, back = pair.feeds["eu>us"], pair.feeds["us>eu"]
    there.sites = back.sites = {}
    schema = pair.schema
    there.tables = [{"source": f"{schema}.*"}]
    assert there.command("run", "--until-caught-up").code == 0
    pair["eu"].write([0])
    assert there.command("run", "--until-caught-up").code == 0
    assert told_of_the_other_way(back) == [("warning", there.name)]
    back.tables = [{"source": f"{schema}.*", "target": f"{schema}_other.*"}]
    assert told_of_the_other_way(back) == [], "it writes to tables that the other one does not read"


def told_of_the_other_way(feed: Direction) -> list[tuple[str, str]]:
    findings = feed.command("check", "--json").json["findings"]
    return [(one["level"], one["message"].split()[1]) for one in findings if one["kind"] == "other-way"]


@PROOF
def test_two_feeds_without_sites_do_not_begin_at_a_postgres_that_one_of_them_writes_to(
    mysql: MySql, postgres_source: Postgres, network: Callable[..., Network]
) -> None:
    pair = network({"eu": mysql, "us": postgres_source}, "eu>us", "us>eu")
    there, back = pair.feeds["eu>us"], pair.feeds["us>eu"]
    there.sites = back.sites = {}
    assert there.command("run", "--until-caught-up").code == 0
    said = back.command("run", "--until-caught-up")
    assert said.code == 1 and f"feed {there.name} writes to" in " ".join(said.err.split()), said
    assert "Name sites in both feeds" in said.err
    back.options["log"] = "kafka://127.0.0.1:1"
    (of_workers,) = [one for one in back.command("check", "--json").json["findings"] if one["kind"] == "other-way"]
    assert of_workers["level"] == "error" and "feeds of workers cannot" in of_workers["hint"]


@PROOF
def test_a_source_that_does_not_log_receipts_is_not_read(
    mysql: MySql, make_mariadb: Callable[..., MariaDb], network: Callable[..., Network]
) -> None:
    """Changes would go round: they look like its own.  Once the server logs the receipts, all goes on."""
    server = make_mariadb(extra=["--binlog-ignore-db=ignored"])
    pair = network({"eu": mysql, "us": server}, "eu>us", "us>eu")
    pair.books = "ignored"
    for feed in pair.feeds.values():
        feed.options["schema"] = "ignored"
    refused = told(pair, "us>eu", **pair.feeds["us>eu"].sites)
    assert "receipts in ignored.tidelock_progress" in refused
    assert "are not in its log" in refused
    server.extra = []
    server.restart()
    pair["us"].reconnect()
    pair.run()
    pair.write(range(3))
    pair.come_to_rest()
    assert pair.came_back() == {}


@PROOF
def test_idle_feeds_leave_each_other_alone(mysql: MySql, mariadb: MariaDb, network: Callable[..., Network]) -> None:
    """A checkpoint is no news to the feed that reads it."""
    pair = network({"eu": mysql, "us": mariadb}, "eu>us", "us>eu")
    pair.run()
    pair.write(range(3))
    until(pair.equal, "equal rows")
    until(lambda: all(pair.receipts(feed) == 0 for feed in pair.feeds.values()), "no receipts")
    saved = [pair.saved(feed) for feed in pair.feeds.values()]
    beats = [pair.beats(feed) for feed in pair.feeds.values()]
    until(lambda: all(pair.beats(f) > b + 12 for f, b in zip(pair.feeds.values(), beats, strict=True)), "12 s of life")
    assert [pair.saved(feed) for feed in pair.feeds.values()] == saved


@PROOF
@pytest.mark.parametrize(
    ("paths", "words"),
    [
        pytest.param(["asia eu"], "was here before", id="was here before"),
        pytest.param(["asia", "asia"], "more than one receipt", id="more than one receipt"),
    ],
)
def test_a_mark_that_cannot_be(
    paths: list[str], words: str, mysql: MySql, mariadb: MariaDb, network: Callable[..., Network]
) -> None:
    """Somebody's transaction with a receipt of a site that has the change already, or two; then as its advice says."""
    pair = network({"eu": mysql, "us": mariadb}, "eu>us")
    feed = pair.feeds["eu>us"]
    pair.run()
    pair["eu"].write(range(3))
    until(pair.equal, "equal rows")
    columns = "feed, grp, epoch, batch, covered, origin, path, marks, seen"
    receipts = [
        f"INSERT INTO {pair.books}.tidelock_progress ({columns}) "
        f"VALUES ('other', 0, 1, {number}, '', 'asia', '{path}', '', '')"
        for number, path in enumerate(paths)
    ]
    pair["eu"].send("BEGIN", *receipts, "INSERT INTO note VALUES (7, 'theirs', 7)", "COMMIT")
    assert feed.process is not None
    assert feed.process.code(30) == 4
    assert words in " ".join(feed.said().split())
    assert feed.command("resync", "--yes").code == 0
    feed.run()
    until(pair.equal, "equal rows")
    assert ("7", "theirs", "7") in pair["us"].notes()
