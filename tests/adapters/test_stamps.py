"""Sites without an arbiter: the row with the greater stamp stays everywhere (`conflicts: stamp`).

The histories have the numbers of docs/explanation/conflicts.md.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.harness.network import Network, Node
from bench.harness.rig import tidelock, until
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.session import Flavor, Session
from bench.harness.tidelock import Process

PROOF = pytest.mark.proof
STAMP = {"stamp": {"time": "tl_time", "site": "tl_site"}}
FUTURE = 4_000_000_000_000_000
"""Microseconds: a time that no clock here has reached."""
Made = Callable[..., Network]


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Made]:
    made: list[Network] = []

    def make(servers: Mapping[str, Server], *edges: str, table: str = "") -> Network:
        """With columns and triggers, as `init` makes them; the feeds have begun."""
        network = Network(tmp_path, servers, edges)
        made.append(network)
        for node in network.nodes.values() if table else ():
            node.send(table)
        for feed in network.feeds.values():
            feed.options["conflicts"] = STAMP
            said = feed.command("init", "--apply")
            assert said.code == 0, said.out + said.err
        return network

    yield make
    for one in made:
        one.close()


def stamped(node: Node, table: str = "note") -> list[tuple[Any, ...]]:
    """All rows, with their stamps."""
    columns = "CONCAT(id, ''), word, CONCAT(n, ''), " if table == "note" else "CONCAT(id, ''), "
    return node.rows(f"SELECT {columns}CONCAT(tl_time, ''), tl_site FROM {table} ORDER BY id")


def as_feeds_do(node: Node) -> Session:
    """A session of which the triggers take no notice."""
    session = node.connect()
    session.send("SET tidelock.apply = on" if session.flavor is Flavor.POSTGRES else "SET @tidelock_apply = 1")
    return session


def at(node: Node, *rows: tuple[Any, ...]) -> None:
    """Write rows as they are, with their stamps."""
    with contextlib.closing(as_feeds_do(node)) as session:
        session.send("INSERT INTO note VALUES " + ", ".join(map(str, rows)))


def waits(node: Node) -> bool:
    """Does a session there wait for another?"""
    if node.database:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    else:
        waiting = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    return bool(node.rows(waiting))


@contextlib.contextmanager
def begun(node: Node, *statements: str, level: str = "READ COMMITTED") -> Iterator[Session]:
    """An application's transaction with these statements, open until the block ends."""
    with contextlib.closing(node.connect()) as session:
        if session.flavor is Flavor.POSTGRES:
            session.send(f"BEGIN ISOLATION LEVEL {level}")
        else:
            session.send(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
            session.send("START TRANSACTION WITH CONSISTENT SNAPSHOT" if "REPEAT" in level else "BEGIN")
        for statement in statements:
            session.send(statement)
        yield session
        session.send("COMMIT")


def caught_up(network: Network, *edges: str) -> None:
    for edge in edges:
        said = network.feeds[edge].command("run", "--until-caught-up")
        assert said.code == 0, said.out + said.err


PAIRS = [
    pytest.param("mariadb", "postgres_source", id="mariadb-postgres"),
    pytest.param("mysql", "other_mysql", id="mysql-mysql", marks=PROOF),
    pytest.param("postgres_source", "mysql", id="postgres-mysql", marks=PROOF),
]


@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_what_has_the_greater_stamp_stays(eu: str, us: str, request: pytest.FixtureRequest, network: Made) -> None:
    """Rows 15 to 19 are those histories, and a key that changes; each is written at both sites while no feed runs."""
    pair = network({"eu": request.getfixturevalue(eu), "us": request.getfixturevalue(us)}, "eu>us", "us>eu")
    eu_, us_ = pair["eu"], pair["us"]
    known = [(id_, "made", 0, time, "eu") for id_, time in ((15, 10), (17, 10), (19, FUTURE), (20, 1))]
    at(eu_, *known)
    at(us_, *known, (16, "older", 0, 20, "us"), (18, "us", 0, 30, "us"), (22, "us", 0, 30, "us"))
    at(eu_, (16, "dead", 0, 21, "eu"), (18, "eu", 0, 30, "eu"), (22, "other", 0, 30, "zz"))
    with contextlib.closing(as_feeds_do(us_)) as session:
        session.send("UPDATE note SET word = 'older', tl_time = 11, tl_site = 'us' WHERE id = 15")
    eu_.send("UPDATE note SET word = 'gone' WHERE id = 15", "UPDATE note SET word = 'made' WHERE id = 15")
    eu_.send("DELETE FROM note WHERE id IN (16, 17)", "UPDATE note SET id = 21, word = 'moved' WHERE id = 20")
    us_.send("UPDATE note SET word = 'later' WHERE id IN (17, 19)")
    caught_up(pair, "eu>us", "us>eu")
    expected = [("15", "made"), ("17", "later"), ("18", "us"), ("19", "later"), ("21", "moved"), ("22", "other")]
    assert [row[:2] for row in stamped(us_)] == expected
    assert stamped(eu_) == stamped(us_)
    assert stamped(eu_, "note_tombstones") == stamped(us_, "note_tombstones")
    assert {row[0] for row in stamped(us_, "note_tombstones")} == {"16", "17", "20"}
    assert stamped(us_)[3][3] == str(FUTURE + 1), "above what it has overwritten, whatever the clock says"


@pytest.mark.proof
@pytest.mark.parametrize("us", ["postgres_source", "mysql"])
def test_a_feed_writes_first_and_looks_then(
    us: str, mariadb: MariaDb, request: pytest.FixtureRequest, network: Made
) -> None:
    """21: a change waits for an application's delete, or a tombstone for its insert; both come to see the other."""
    pair = network({"eu": mariadb, "us": request.getfixturevalue(us)}, "eu>us", "us>eu")
    feed = pair.feeds["eu>us"]
    feed.run()
    ahead = time.time_ns() // 1000 + 3_000_000
    at(pair["eu"], (8, "ahead", 0, ahead, "eu"))
    until(lambda: len(stamped(pair["us"])) == 1, "a row that is ahead of the clock")
    assert time.time_ns() // 1000 > ahead, "it waits until the clock has passed it"
    pair["eu"].send("INSERT INTO note (id, word, n) VALUES (1, 'made', 0), (2, 'made', 0)")
    until(lambda: len(stamped(pair["us"])) == 3, "rows")
    with begun(pair["us"], "DELETE FROM note WHERE id = 1"):
        at(pair["eu"], (9, "after", 0, 1, "eu"))
        with contextlib.closing(as_feeds_do(pair["eu"])) as session:
            session.send("UPDATE note SET word = 'older', tl_time = tl_time + 1 WHERE id = 1")
        until(lambda: waits(pair["us"]), "a change that waits for the delete")
    until(lambda: "9" in {row[0] for row in stamped(pair["us"])}, "the change")
    with contextlib.closing(as_feeds_do(pair["us"])) as session:
        session.send("DELETE FROM note WHERE id = 2")  # as if the row had not come yet
    with begun(pair["us"], "INSERT INTO note (id, word, n) VALUES (2, 'early', 0)"):
        pair["eu"].send("DELETE FROM note WHERE id = 2")
        until(lambda: waits(pair["us"]), "a tombstone that waits for the insert")
    at(pair["eu"], (10, "after", 0, 1, "eu"))
    until(lambda: "10" in {row[0] for row in stamped(pair["us"])}, "the tombstone")
    caught_up(pair, "us>eu")
    until(lambda: stamped(pair["us"]) == stamped(pair["eu"]), "equal rows")
    assert [row[0] for row in stamped(pair["us"])] == ["8", "9", "10"]


@pytest.mark.parametrize("site", ["postgres_source", "mariadb", pytest.param("mysql", marks=PROOF)])
@pytest.mark.parametrize("level", ["READ COMMITTED", pytest.param("REPEATABLE READ", marks=PROOF)])
def test_an_applications_insert_is_stamped_above_a_delete_that_it_waited_for(
    site: str, level: str, request: pytest.FixtureRequest, network: Made, mysql: MySql, other_mysql: MySql
) -> None:
    """21a: it takes its time before it waits.  Where the row cannot be stamped again, the transaction is to be.

    At MySQL and MariaDB who looks for a tombstone waits for it; so the row is locked before there is one."""
    other = other_mysql if site == "mysql" else mysql
    node = network({"a": request.getfixturevalue(site), "b": other}, "a>b")["a"]
    at(node, (1, "ahead", 0, FUTURE, "b"))
    refused: list[Exception] = []

    def insert() -> None:
        try:
            with begun(node, "SELECT 1", level=level) as session:
                session.send("INSERT INTO note (id, word, n) VALUES (1, 'new', 0)")
        except Exception as error:  # of whichever driver
            refused.append(error)

    writer = threading.Thread(target=insert)
    late = not node.database and level == "READ COMMITTED"
    delete = "DELETE FROM note WHERE id = 1"
    with begun(node, "SELECT 1 FROM note WHERE id = 1 FOR UPDATE" if late else delete) as session:
        writer.start()
        until(lambda: waits(node), "an insert that waits")
        if late:
            session.send(delete)
    writer.join(60)
    rows = stamped(node)
    if rows:
        assert not refused
    else:
        assert "run the transaction again" in str(refused[0]) or "could not serialize" in str(refused[0])
        refused.clear()
        insert()
        rows = stamped(node)
    assert [row[:2] for row in rows] == [("1", "new")] and not refused
    assert int(rows[0][3]) == FUTURE + 2, "above the tombstone"


class Writer(threading.Thread):
    """An application that writes rows of a few keys, and runs again what fails for others'."""

    def __init__(self, node: Node, seed: int, changes: int) -> None:
        super().__init__()
        self.errors: list[str] = []
        self._session, self._random, self._changes = node.connect(), random.Random(f"{node.site}{seed}"), changes

    def run(self) -> None:
        with contextlib.closing(self._session):
            for n in range(self._changes):
                self._change(n)

    def _change(self, n: int) -> None:
        key, other = self._random.sample(range(12), 2)
        statement = self._random.choice((
            f"INSERT INTO note (id, word, n) VALUES ({key}, 'new', {n})",
            f"UPDATE note SET n = {n} WHERE id IN ({key}, {other})",
            f"UPDATE note SET n = {n}, word = 'set' WHERE id = {key}",
            f"DELETE FROM note WHERE id = {key}",
            f"UPDATE note SET id = {other} WHERE id = {key}",
        ))  # fmt: skip
        try:
            self._session.send(statement)
        except Exception as error:
            words = str(error).lower()
            if not any(known in words for known in ("duplicate", "deadlock", "serialize", "run the transaction again")):
                self.errors.append(f"{statement}: {error}")


def equal_after(
    network: Network, changes: int, seed: int, writers: int = 1, meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Writes at all sites at once; then all hold the same rows and tombstones."""
    at_work = [Writer(node, seed + 100 * n, changes) for n in range(writers) for node in network.nodes.values()]
    for writer in at_work:
        writer.start()
    meanwhile()
    for writer in at_work:
        writer.join(600)
    assert not [error for writer in at_work for error in writer.errors]
    nodes = list(network.nodes.values())

    def same() -> bool:
        for feed in network.feeds.values():
            assert feed.process is not None
            feed.process.check()
        return all(
            stamped(node, table) == stamped(nodes[0], table) for node in nodes for table in ("note", "note_tombstones")
        )

    try:
        until(same, "equal rows", 120)
    except BaseException:
        for node in nodes:
            print(node.site, stamped(node), stamped(node, "note_tombstones"), sep="\n")
        raise
    network.come_to_rest()


def test_a_ring_of_three(mariadb: MariaDb, postgres_source: Postgres, mysql: MySql, network: Made) -> None:
    ring = network({"a": mariadb, "b": postgres_source, "c": mysql}, "a>b", "b>c", "c>a")
    ring.run()
    equal_after(ring, changes=150, seed=1)


@PROOF
@pytest.mark.parametrize("seed", range(3))
def test_a_mesh_of_two_with_kills(mariadb: MariaDb, postgres_source: Postgres, network: Made, seed: int) -> None:
    pair = network({"a": mariadb, "b": postgres_source}, "a>b", "b>a")

    def kill() -> None:
        for feed in pair.feeds.values():
            feed.kill()
            feed.run()

    pair.run()
    for part in range(4):
        equal_after(pair, changes=300, seed=10 * seed + part, writers=2, meanwhile=kill)
        pair.run()


ODD = (
    ("b bit(12)", "b'101'", "b'111100001111'"), ("e enum('x','y')", "'x'", "'y'"), ("s set('p','q')", "'p'", "'p,q'"),
    ("f float", "1.1", "0.3"), ("d double", "1e300", "0.1"), ("m decimal(30,10)", "1.5", "12345678901234567890.123"),
    ("t time(6)", "'-10:00:00.5'", "'800:59:59.000001'"), ("y year", "2001", "1999"), ("v varbinary(9)", "'a'", "x''"),
    ("g geometry", "ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(3 4)')"), ("n int", "1", "NULL"),
    ("l longtext", "'a'", "'ü'"), ("ts timestamp(6) NULL", "'2001-01-01'", "'2020-02-02 02:02:02.000002'"),
    ("u bigint unsigned", "1", "18446744073709551615"), ("bin binary(3)", "x'01'", "x'ff00ff'"),
    ("j json", "'[1]'", """'{"a": "ü"}'"""),
)  # fmt: skip


@PROOF
@pytest.mark.parametrize(("a", "b"), [("mysql", "other_mysql"), ("mysql", "mariadb")])
def test_values_of_every_type_are_what_they_were(
    a: str, b: str, request: pytest.FixtureRequest, network: Made
) -> None:
    """A row that is there is overwritten by a statement that asks of each column which value stays."""
    names = [column.split(" ")[0] for column, _, _ in ODD]
    table = f"CREATE TABLE odd (id int PRIMARY KEY, {', '.join(column for column, _, _ in ODD)})"
    pair = network({"a": request.getfixturevalue(a), "b": request.getfixturevalue(b)}, "a>b", table=table)
    pair["a"].send(f"INSERT INTO odd (id, {', '.join(names)}) VALUES (1, {', '.join(old for _, old, _ in ODD)})")
    caught_up(pair, "a>b")
    pair["a"].send(f"UPDATE odd SET {', '.join(f'{n} = {new}' for n, (_, _, new) in zip(names, ODD, strict=True))}")
    caught_up(pair, "a>b")
    of = ", ".join("HEX(ST_AsWKB(g))" if n == "g" else f"HEX({n})" if n in ("b", "v", "bin") else n for n in names)
    told = of.removesuffix("j") + "REPLACE(j, ' ', '')"
    found = [node.rows(f"SELECT {told} FROM odd") for node in pair.nodes.values()]
    assert found[0] == found[1] and found[0][0][0] == "F0F"


@pytest.mark.parametrize("us", ["postgres_source", pytest.param("mysql", marks=PROOF)])
def test_tombstones_go_when_nothing_older_can_come(
    us: str, mariadb: MariaDb, request: pytest.FixtureRequest, network: Made
) -> None:
    """20: what a feed has not brought yet is older than a tombstone; and a slow clock stamps above those that went."""
    pair = network({"eu": mariadb, "us": request.getfixturevalue(us)}, "eu>us", "us>eu")
    eu_, us_ = pair["eu"], pair["us"]
    files = [str(feed.file) for feed in pair.feeds.values()]
    refused = tidelock("tombstones", files[0])
    assert refused.code == 1 and "nothing comes from us to eu" in " ".join(refused.err.split())
    at(eu_, (1, "made", 0, 5, "eu"), (2, "ahead", 0, FUTURE, "eu"))
    eu_.send("DELETE FROM note")
    at(us_, (1, "older", 0, 4, "us"))
    purge = Process(["tombstones", *files], pair.folder / "tombstones.log")
    until(lambda: "round 1 of 2" in (pair.folder / "tombstones.log").read_text(), "the first round")
    pair.run()

    def over() -> bool:
        for node in (eu_, us_):  # a checkpoint is stored soon where rows flow
            node.send("UPDATE note SET n = n + 1 WHERE id = 9")
        return not purge.running

    eu_.send("INSERT INTO note (id, word, n) VALUES (9, 'busy', 0)")
    until(over, "rounds", 300)
    assert purge.code(0) == 0
    assert [row[0] for row in stamped(eu_, "note_tombstones")] == ["2"], "a floor ahead of the clock would stay so"
    until(lambda: [row[0] for row in stamped(us_, "note_tombstones")] == ["1", "2"], "what came later stays")
    assert [[row[0] for row in stamped(node)] for node in (eu_, us_)] == [["9"], ["9"]]
    assert int(eu_.rows(f"SELECT CONCAT(floor, '') FROM {pair.books}.tidelock_site WHERE own = 1")[0][0]) > 5
    for node in (eu_, us_):
        node.send(f"UPDATE {pair.books}.tidelock_site SET floor = {FUTURE} WHERE own = 1")
    eu_.send("INSERT INTO note (id, word, n) VALUES (3, 'new', 0)")
    us_.send("INSERT INTO note (id, word, n) VALUES (4, 'new', 0)", "DELETE FROM note WHERE id = 4")
    pair.come_to_rest()
    assert stamped(us_)[0][3] == str(FUTURE + 1) and stamped(eu_, "note_tombstones")[-1][1] == str(FUTURE + 2)


def test_what_stamps_need_is_made_and_looked_after(mariadb: MariaDb, postgres_source: Postgres, network: Made) -> None:
    """A table that one site lacks, a trigger that is gone, one that is disabled, tables that cannot have stamps."""
    pair = network({"eu": mariadb, "us": postgres_source}, "eu>us")
    feed, eu_, us_ = pair.feeds["eu>us"], pair["eu"], pair["us"]
    eu_.send("CREATE TABLE late (id int PRIMARY KEY, word varchar(9))")
    assert feed.command("init", "--apply").code == 0
    us_.send("INSERT INTO late VALUES (1, 'x')")
    assert us_.rows("SELECT tl_site FROM late WHERE tl_time > 0") == [("us",)]
    caught_up(pair, "eu>us")
    eu_.send("DROP TRIGGER late_tl_look")
    us_.send("ALTER TABLE late DISABLE TRIGGER tidelock_bury")
    for said in (feed.command("check"), feed.command("run", "--until-caught-up")):
        words = " ".join(f"{said.out}{said.err}".split())
        assert said.code == 1
        assert "late has no trigger late_tl_look as stamps need it" in words
        assert "late has no trigger tidelock_bury as stamps need it" in words
    printed = feed.command("init").out
    assert "DELIMITER //\nCREATE TRIGGER" in printed and "CREATE OR REPLACE TRIGGER tidelock_bury" in printed
    assert feed.command("init", "--apply").code == 0
    caught_up(pair, "eu>us")
    for node in pair.nodes.values():
        node.send("CREATE TABLE twice (id int PRIMARY KEY, u int UNIQUE)", "CREATE TABLE bare (id int)")
    assert "has the unique key" in " ".join(feed.command("check").out.split())
    assert "stamps need a primary key" in " ".join(feed.command("init").err.split())
    refused = feed.command("resync")
    assert refused.code == 1 and "not copied over a site's own" in " ".join(refused.err.split())
