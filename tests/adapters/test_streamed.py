"""`consistency: transaction` with a transaction that is larger than the room for rows.

It is applied as it comes, in one transaction of the target, of which nobody there sees a part.
"""

import contextlib
import threading
from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, Postgres, Server
from bench.harness.servers.kafka import Kafka
from bench.harness.session import Session, connect
from bench.harness.tidelock import Process
from bench.harness.workers import Workers

ROWS = 40_000
MIDDLE = 8_000
TARGETS = ["postgres", "mariadb_target", "mysql"]


@pytest.fixture
def mariadb_target(make_mariadb: Callable[..., MariaDb]) -> MariaDb:
    return make_mariadb()


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


def at(*targets: str) -> pytest.MarkDecorator:
    """These targets; all others in the proof."""
    others = [pytest.param(one, marks=pytest.mark.proof) for one in TARGETS if one not in targets]
    return pytest.mark.parametrize("target", [*targets, *others], indirect=True)


def made(make_rig: Callable[..., Rig], source: Server, target: Server, **options: object) -> Rig:
    rig = make_rig(source, target, "streamed", lanes=4, consistency="transaction", batch_rows=500, **options)
    columns = "id bigint PRIMARY KEY, v bigint UNIQUE, body varchar(100)"
    rig.table("item", columns)
    rig.table("note", "id bigint PRIMARY KEY, v bigint UNIQUE")
    rig.at_source("INSERT INTO note VALUES (1, 1), (2, 2)")
    if "log" not in options:
        rig.catch_up()
    return rig


def giant(rig: Rig, rows: int = ROWS, *between: str) -> None:
    """One transaction.  Two unique values are swapped in it, by way of a third, with thousands of rows in between."""
    half = rows // 2
    fill = "INSERT INTO item SELECT seq, seq, REPEAT('x', 100) FROM seq_{}_to_{}"
    rig.at_source(
        "BEGIN; UPDATE note SET v = 0 WHERE id = 1; "
        + fill.format(1, half)
        + "; UPDATE note SET v = 1 WHERE id = 2; "
        + "".join(f"{statement}; " for statement in between)
        + fill.format(half + 1, rows)
        + "; UPDATE note SET v = 2 WHERE id = 1; DELETE FROM item WHERE id % 10 = 0; COMMIT"
    )


def seen_at(session: Session, schema: str) -> tuple[int, str]:
    """Rows of `item`, and the values of `note`, of one moment."""
    one, two = (f"(SELECT CONCAT(v, '') FROM {schema}.note WHERE id = {number})" for number in (1, 2))
    ((count, first, second),) = session.rows(f"SELECT CONCAT(count(*), ''), {one}, {two} FROM {schema}.item")
    return int(count), f"{first} {second}"


BEFORE, AFTER = (0, "1 2"), (ROWS - ROWS // 10, "2 1")
LATER = (AFTER[0] + 1, AFTER[1])  # a row was inserted behind it
BAD = 12_001
LATE = 30_001


def visible(rig: Rig) -> tuple[int, str]:
    return seen_at(rig._target, rig.schema)


def until_all_is_there(rig: Rig, process: Process) -> None:
    """Raises TidelockFailed where the run ends before, AssertionError where it is late, both with what it said."""

    def arrived() -> bool:
        process.check()
        return visible(rig) == AFTER

    try:
        until(arrived, "all of it at the target", 60.0)
    except AssertionError as error:
        raise AssertionError(f"{error}:\n{process.said}") from None


def under_way(rig: Rig) -> bool:
    """Has the target taken a good part of the transaction, and committed none?"""
    if isinstance(rig.target, Postgres):
        bytes_taken = rig.rows(f"SELECT pg_relation_size('{rig.schema}.item')::text")[0][0]
        return int(bytes_taken) > MIDDLE * 150
    session = connect(rig.target.url())
    session.send("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
    taken = int(session.rows(f"SELECT CONCAT(count(*), '') FROM {rig.schema}.item")[0][0])
    session.close()
    return taken > MIDDLE


class Reader(threading.Thread):
    """Looks at the target again and again.  `seen`: what it saw."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(daemon=True)
        self.seen: set[tuple[int, str]] = set()
        self._rig = rig
        self._ended = threading.Event()

    def run(self) -> None:
        session = connect(self._rig.target.url())
        while not self._ended.wait(0.01):  # counting without a rest would take the processor from what is looked at
            self.seen.add(seen_at(session, self._rig.schema))
        session.close()

    def end(self) -> set[tuple[int, str]]:
        self._ended.set()
        self.join()
        return self.seen


@at("postgres")
def test_a_reader_of_the_target_sees_all_of_it_or_nothing_and_the_statement_after_it_waits(
    make_rig: Callable[..., Rig], mariadb: Server, target: Server
) -> None:
    rig = made(make_rig, mariadb, target)
    giant(rig)
    rig.at_source("ALTER TABLE item ADD COLUMN more int", "INSERT INTO item VALUES (-1, -1, 'new', 7)")
    reader = Reader(rig)
    reader.start()
    rig.catch_up()
    assert {BEFORE} < reader.end() | {visible(rig)} <= {BEFORE, AFTER, LATER}
    assert visible(rig) == LATER
    rig.assert_exact()


@pytest.mark.proof
@at("mariadb_target")
def test_killed_or_told_to_stop_in_the_middle_all_of_it_is_there_or_nothing_and_the_next_run_begins_again(
    make_rig: Callable[..., Rig], mariadb: Server, target: Server
) -> None:
    rig = made(make_rig, mariadb, target)
    giant(rig)
    process = rig.run()
    until(lambda: under_way(rig), "a part of it at the target")
    process.kill()
    assert visible(rig) == BEFORE
    rig.at_target("TRUNCATE TABLE item")  # waits for the end of the rollback, and gives back the room that it takes
    process = rig.run()
    until(lambda: under_way(rig), "a part of it at the target, again")
    process.stop()  # in time
    assert visible(rig) in (BEFORE, AFTER)
    rig.catch_up()
    assert visible(rig) == AFTER
    rig.assert_exact()


@pytest.mark.proof
@at("mysql")
def test_a_bad_row_in_the_middle_is_parked_with_what_follows_it_and_the_rest_is_applied(
    make_rig: Callable[..., Rig], mariadb: Server, target: Server
) -> None:
    rig = made(make_rig, mariadb, target)
    rig.at_target(f"ALTER TABLE {rig.schema}.item ADD CONSTRAINT narrow CHECK (v <> {BAD})")
    giant(rig, ROWS, f"UPDATE item SET body = 'later' WHERE id IN ({BAD}, {BAD + 1})")
    reader = Reader(rig)
    reader.start()
    assert rig.catch_up_code() == 4
    assert reader.end() | {visible(rig)} == {BEFORE, (AFTER[0] - 1, AFTER[1])}
    assert rig.parked() == 2
    assert rig.rows(f"SELECT body FROM {rig.schema}.item WHERE id = {BAD + 1}") == [("later",)]
    rig.at_target(f"ALTER TABLE {rig.schema}.item DROP CONSTRAINT narrow")
    assert rig.command("rows", "retry", "@", "--all").code == 0
    rig.catch_up()
    assert rig.parked() == 0 and rig.equal()


@pytest.mark.proof
@pytest.mark.parametrize("flavor", ["postgres", "mariadb"])
def test_the_target_restarts_in_the_middle_and_the_feed_begins_again_by_itself(
    flavor: str,
    make_rig: Callable[..., Rig],
    mariadb: Server,
    make_postgres: Callable[..., Postgres],
    make_mariadb: Callable[..., MariaDb],
) -> None:
    target: Postgres | MariaDb = make_postgres() if flavor == "postgres" else make_mariadb()
    rig = made(make_rig, mariadb, target)
    blocker = connect(target.url())
    blocker.send(f"BEGIN; INSERT INTO {rig.schema}.item (id, v) VALUES ({LATE}, {LATE})")  # nothing passes this row
    process = rig.run()
    rig.at_source("INSERT INTO note VALUES (3, 3)")
    until(lambda: len(rig.rows(f"SELECT id FROM {rig.schema}.note")) == 3, "a row by the run")
    giant(rig)  # comes while the run reads: what lies there when it begins may be taken whole
    until(lambda: under_way(rig), "a part of it at the target")
    target.kill()
    with contextlib.suppress(Exception):
        blocker.close()
    target.start()
    rig.reconnect()
    assert visible(rig) == BEFORE
    until_all_is_there(rig, process)  # begun again, or, where the commit's answer was lost too, by another machine
    process.stop()
    rig.catch_up()
    rig.assert_exact()


@pytest.mark.proof
def test_the_source_restarts_in_the_middle_and_the_transaction_goes_on(
    make_rig: Callable[..., Rig], make_mariadb: Callable[..., MariaDb], postgres: Server
) -> None:
    source = make_mariadb(durable=True)
    rig = made(make_rig, source, postgres)
    giant(rig)
    process = rig.run()
    until(lambda: under_way(rig), "a part of it at the target")
    source.kill()
    source.start()
    until_all_is_there(rig, process)
    process.stop()
    assert "begins again" not in rig.said()
    rig.reconnect()
    rig.catch_up()
    rig.assert_exact()


@pytest.mark.proof
def test_by_way_of_kafka(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Kafka) -> None:
    rig = made(make_rig, mariadb, postgres, log=kafka.url(), partitions=1)
    with Workers(rig, ["w1"]) as fleet:
        fleet.start()
        fleet.until_caught_up()
        giant(rig)
        reader = Reader(rig)
        reader.start()
        fleet.until_caught_up()
        seen = reader.end() | {visible(rig)}
        fleet.stop()
    assert seen == {BEFORE, AFTER}
    rig.assert_exact()
