"""A checkpoint names the log that it belongs to: no other is read on from there, be it ever so like it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from bench.harness import session
from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.servers.kafka import Kafka
from bench.harness.tidelock import TidelockFailed
from bench.harness.workers import Workers
from tidelock.adapters.mysql.binlog.history import confirm, witnessed
from tidelock.adapters.mysql.binlog.log_ends import current_position, mariadb_gtids
from tidelock.adapters.mysql.binlog.reader import BinlogReader
from tidelock.adapters.mysql.connection import Address, connect
from tidelock.adapters.ports.source_errors import LogGap, OtherHistory, PurgedPosition
from tidelock.engine.model.records import Position

COPY_SECONDS = 180.0
RESET = {"mariadb": "RESET MASTER", "mysql": "RESET BINARY LOGS AND GTIDS"}


@pytest.fixture(scope="module")
def sources() -> Iterator[Callable[[str], Server]]:
    """Servers whose logs are reset: the others must not share them."""
    with ExitStack() as stack:
        started: dict[str, Server] = {}

        def get(scheme: str) -> Server:
            if scheme not in started:
                started[scheme] = stack.enter_context(MariaDb() if scheme == "mariadb" else MySql())
            return started[scheme]

        yield get


def _insert(rig: Rig, first: int, last: int) -> None:
    rig.at_source(*(f"INSERT INTO account VALUES ({n}, 'of {n}')" for n in range(first, last + 1)))


def _stopped_feed(make_rig: Callable[..., Rig], source: Server, target: Server, name: str, **options: object) -> Rig:
    """A feed that has taken some rows and was ended."""
    rig = make_rig(source, target, name, **options)
    rig.table("account", "id int PRIMARY KEY, name varchar(40)")
    _insert(rig, 1, 10)
    rig.catch_up()
    return rig


def _checkpoint(rig: Rig) -> list[Any]:
    stored = rig.rows(f"SELECT position FROM tidelock.tidelock_checkpoint WHERE feed='{rig.name}'")
    found: list[Any] = json.loads(stored[0][0])
    return found


def _forget_proof(rig: Rig) -> None:
    """As a version before stored it."""
    words = json.dumps(_checkpoint(rig)[:4])
    rig.at_target(f"UPDATE tidelock.tidelock_checkpoint SET position = '{words}' WHERE feed='{rig.name}'")


def _assert_halted(rig: Rig, *words: str) -> None:
    assert rig.catch_up_code() == 4, rig.said()[-2000:]
    said = rig.said()
    for word in ("is not the one", "tidelock resync", *words):
        assert word in said, said[-2000:]


@pytest.mark.parametrize(
    ("scheme", "rows"),
    [
        pytest.param("mariadb", 30, id="mariadb-longer"),
        pytest.param("mysql", 3, id="mysql-shorter"),
        pytest.param("mariadb", 3, id="mariadb-shorter", marks=pytest.mark.proof),
        pytest.param("mysql", 30, id="mysql-longer", marks=pytest.mark.proof),
    ],
)
def test_a_log_that_was_reset_halts(
    sources: Callable[[str], Server], postgres: Postgres, make_rig: Callable[..., Rig], scheme: str, rows: int
) -> None:
    source = sources(scheme)
    rig = _stopped_feed(make_rig, source, postgres, "reset")
    source.execute(RESET[scheme])
    _insert(rig, 11, 10 + rows)
    _assert_halted(rig)


@pytest.mark.parametrize("scheme", [pytest.param("mariadb", marks=pytest.mark.proof), "mysql"])
def test_a_log_that_was_reset_before_the_first_row_halts(
    sources: Callable[[str], Server], postgres: Postgres, make_rig: Callable[..., Rig], scheme: str
) -> None:
    """`init` fixes where the feed begins; then the log is reset, and longer than it was."""
    source = sources(scheme)
    rig = make_rig(source, postgres, "init", start="now")
    rig.table("account", "id int PRIMARY KEY, name varchar(40)")
    said = rig.command("init", "@", "--apply")
    assert said.code == 0, said
    source.execute(RESET[scheme])
    _insert(rig, 1, 30)
    assert rig.catch_up_code() == 1  # `check` comes before a first run
    assert "is not the one" in rig.said() and "tidelock resync" in rig.said()


@pytest.mark.parametrize("scheme", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_a_checkpoint_of_an_older_version_is_adopted_with_a_word(
    sources: Callable[[str], Server], postgres: Postgres, make_rig: Callable[..., Rig], scheme: str
) -> None:
    source = sources(scheme)
    rig = _stopped_feed(make_rig, source, postgres, "upgrade")
    proof = _checkpoint(rig)[4]
    assert proof
    _forget_proof(rig)
    rig.catch_up()
    assert "does not say which log it belongs to" in rig.said()
    assert json.loads(_checkpoint(rig)[4])[2][:3] == json.loads(proof)[2][:3], "the last transaction is the same"
    rig.assert_exact()
    source.execute(RESET[scheme])
    _insert(rig, 11, 40)
    _assert_halted(rig)


@pytest.mark.parametrize("scheme", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_what_is_ordinary_goes_on(
    make_mariadb: Callable[..., Server],
    make_mysql: Callable[..., Server],
    postgres: Postgres,
    make_rig: Callable[..., Rig],
    scheme: str,
) -> None:
    """Restart, rotation, another checksum, files purged that are behind the checkpoint, its own file among them."""
    source = make_mariadb() if scheme == "mariadb" else make_mysql()
    rig = _stopped_feed(make_rig, source, postgres, "ordinary")
    source.restart()
    rig.reconnect()
    rig.catch_up()  # nothing but a new file
    _insert(rig, 11, 12)
    rig.at_source("SET GLOBAL binlog_checksum=NONE")
    rig.catch_up()
    rig.purge()
    rig.catch_up()
    _insert(rig, 13, 14)
    rig.at_source("FLUSH LOGS", "FLUSH LOGS")
    rig.catch_up()
    rig.assert_exact()
    rig.purge()
    rig.purge()
    _insert(rig, 15, 16)
    rig.catch_up()
    rig.assert_exact()


Make = Callable[..., Server]


@pytest.fixture
def make(make_mariadb: Make, make_mysql: Make) -> Callable[..., Server]:
    return lambda scheme, **options: (make_mariadb if scheme == "mariadb" else make_mysql)(**options)


def _replicate(scheme: str, source: Server, replica: Server) -> None:
    """Until the replica has all that the source has; then it is on its own."""
    if scheme == "mariadb":
        replica.execute(
            f"CHANGE MASTER TO MASTER_HOST='{source.host}', MASTER_PORT={source.port}, MASTER_USER='{source.user}', "
            "MASTER_USE_GTID=slave_pos"
        )
        replica.execute("START SLAVE")
        ((end,),) = source.execute("SELECT @@gtid_binlog_pos")
        assert replica.execute("SELECT MASTER_GTID_WAIT(%s, 30)", end) == [(0,)]
        replica.execute("STOP SLAVE")
    else:
        replica.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='{source.host}', SOURCE_PORT={source.port}, "
            f"SOURCE_USER='{source.user}', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1"
        )
        replica.execute("START REPLICA")
        ((end,),) = source.execute("SELECT @@GLOBAL.gtid_executed")
        assert replica.execute("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 30)", end) == [(0,)]
        replica.execute("STOP REPLICA")


def _turn_to(rig: Rig, source: Server) -> None:
    rig.source, rig.source_url = source, source.url()
    rig.reconnect()


@pytest.mark.parametrize("scheme", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_a_failover_to_a_replica_goes_on_and_another_server_halts(
    make: Callable[..., Server], postgres: Postgres, make_rig: Callable[..., Rig], scheme: str
) -> None:
    """The replica's log has other files, offsets and commit times, and the same transactions; so has its replica's.
    The other server has the name, the tables and more transactions, and other ones."""
    first, second, third = (make(scheme) for _ in range(3))
    for server in (first, second, third):
        server.execute(RESET[scheme])
    rig = _stopped_feed(make_rig, first, postgres, "failover")
    _replicate(scheme, first, second)
    second.execute("FLUSH LOGS")
    _replicate(scheme, second, third)
    _turn_to(rig, second)
    _insert(rig, 11, 14)
    rig.catch_up()
    rig.assert_exact()
    _replicate(scheme, second, third)
    _turn_to(rig, third)
    rig.catch_up()
    for _ in range(2):  # nothing but new files there, behind a transaction that was read at the second
        rig.at_source("FLUSH LOGS")
        rig.catch_up()
    _insert(rig, 15, 18)
    rig.catch_up()
    rig.assert_exact()

    other = make(scheme, extra=[f"--server-id={third.port}"])
    other.execute(RESET[scheme])
    other.execute(f"CREATE DATABASE {rig.schema}")
    _turn_to(rig, other)
    rig.at_source("CREATE TABLE account (id int PRIMARY KEY, name varchar(40))")
    _insert(rig, 101, 140)
    _assert_halted(rig)


def _backed_up(rig: Rig, folder: Path) -> Path:
    rig.source.stop()
    backup = folder / "backup"
    subprocess.run(["cp", "-a", str(rig.source.data), str(backup)], check=True)
    rig.source.start()
    rig.reconnect()
    return backup


def _put_back(rig: Rig, backup: Path) -> None:
    rig.source.kill()
    subprocess.run(["rm", "-rf", str(rig.source.data)], check=True)
    subprocess.run(["cp", "-a", str(backup), str(rig.source.data)], check=True)
    rig.source.start()
    rig.reconnect()


@pytest.mark.parametrize(
    ("running", "scheme"),
    [
        pytest.param(False, "mariadb", id="stopped-mariadb"),
        pytest.param(True, "mysql", id="running-mysql", marks=pytest.mark.proof),
        pytest.param(False, "mysql", id="stopped-mysql", marks=pytest.mark.proof),
        pytest.param(True, "mariadb", id="running-mariadb"),
    ],
)
def test_a_source_put_back_from_a_backup_halts(
    make: Callable[..., Server],
    postgres: Postgres,
    make_rig: Callable[..., Rig],
    tmp_path: Path,
    scheme: str,
    running: bool,
) -> None:
    """The same server id and UUID, the same file, and then another history, as long and longer."""
    source = make(scheme)
    rig = _stopped_feed(make_rig, source, postgres, "backup")
    backup = _backed_up(rig, tmp_path)
    _insert(rig, 11, 20)
    rig.catch_up()
    run = rig.run() if running else None
    if run is not None:
        rig.at_source("INSERT INTO account VALUES (21, 'last')")
        until(lambda: rig.rows("SELECT id FROM account WHERE id = 21") != [], "the row at the target")
    _put_back(rig, backup)
    _insert(rig, 111, 150)
    if run is None:
        _assert_halted(rig)
    else:
        assert run.code(60) == 4, rig.said()[-2000:]
        assert "is not the one" in rig.said()


def _killed_behind_its_checkpoint(rig: Rig, first: int, last: int) -> None:
    """A run brings these rows to the target and is killed; its checkpoint cannot be stored, so only receipts tell."""
    checkpoint = _checkpoint(rig)
    postgres = isinstance(rig.target, Postgres)
    on = "BEFORE UPDATE ON tidelock.tidelock_checkpoint FOR EACH ROW"
    if postgres:
        rig.at_target(
            f"CREATE FUNCTION {rig.schema}.held() RETURNS trigger LANGUAGE plpgsql "
            "AS $$ BEGIN RAISE 'held' USING ERRCODE = '55P03'; END $$",
            f"CREATE TRIGGER {rig.name} {on} WHEN (OLD.feed = '{rig.name}') EXECUTE FUNCTION {rig.schema}.held()",
        )
    else:
        held = "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'held'"
        rig.at_target(
            f"CREATE TRIGGER tidelock.{rig.name} {on} IF OLD.feed = '{rig.name}' THEN {held}; END IF"
        )
    run = rig.run()
    _insert(rig, first, last)
    until(lambda: rig.rows(f"SELECT id FROM account WHERE id = {last}") != [], "the last row at the target")
    run.kill()
    rig.at_target(
        f"DROP TRIGGER {rig.name} ON tidelock.tidelock_checkpoint" if postgres else f"DROP TRIGGER tidelock.{rig.name}"
    )
    assert rig.receipts() and _checkpoint(rig) == checkpoint


@pytest.mark.parametrize(
    ("scheme", "rows"),
    [
        pytest.param("mariadb", 3, id="mariadb-shorter"),
        pytest.param("mysql", 30, id="mysql-longer", marks=pytest.mark.proof),
        pytest.param("mariadb", 30, id="mariadb-longer", marks=pytest.mark.proof),
        pytest.param("mysql", 3, id="mysql-shorter", marks=pytest.mark.proof),
    ],
)
def test_a_source_put_back_to_between_checkpoint_and_receipts_halts(
    make: Callable[..., Server],
    postgres: Postgres,
    mariadb: Server,
    make_rig: Callable[..., Rig],
    tmp_path: Path,
    scheme: str,
    rows: int,
) -> None:
    """The place of the checkpoint is there as it was; the receipts' transactions bear the GTIDs of others now."""
    source, target = make(scheme), mariadb if scheme == "mysql" else postgres
    rig = _stopped_feed(make_rig, source, target, "receipts")
    _insert(rig, 11, 12)
    backup = _backed_up(rig, tmp_path)
    _killed_behind_its_checkpoint(rig, 13, 20)
    _put_back(rig, backup)
    _insert(rig, 113, 112 + rows)
    _assert_halted(rig, "; here is")
    assert "`tidelock resync FEED`" in rig.command("status", "@", "--json").json["halted"]["alarm"][2]
    if scheme == "mariadb" and rows > 10:  # its way out, literally, as `test_resync.py` of a log begun anew
        said = rig.command("resync", "@", "--yes")
        assert said.code == 0, said
        rig.catch_up(COPY_SECONDS)
        rig.assert_exact()


@pytest.mark.parametrize("scheme", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_receipts_of_a_killed_run_after_a_failover(
    make: Callable[..., Server], postgres: Postgres, make_rig: Callable[..., Rig], scheme: str
) -> None:
    """A replica that lacks what is at the target already halts the feed; once it has all that, the feed goes on."""
    first, second = make(scheme), make(scheme)
    for server in (first, second):
        server.execute(RESET[scheme])
    rig = _stopped_feed(make_rig, first, postgres, "receipts")
    _replicate(scheme, first, second)
    _killed_behind_its_checkpoint(rig, 11, 20)
    _turn_to(rig, second)
    _assert_halted(rig, "is not in the log", "a replica that is behind")
    _replicate(scheme, first, second)
    _insert(rig, 21, 24)
    rig.catch_up()
    rig.assert_exact()


def _inside_a_transaction(endpoint: Address) -> tuple[Position, Position]:
    """The place where the log begins, and one behind some rows of its first transaction."""
    connection = connect(endpoint)
    file = current_position(connection).file
    connection.close()
    start = witnessed(endpoint, Position(file, 4))
    reader = BinlogReader(
        endpoint,
        server_id=4711,
        wanted=lambda _table: True,
        is_marker=lambda _table: False,
        start=start,
        chunk_rows=50,
    )
    with closing(reader):
        inside = next(chunk.last for chunk in reader.chunks() if chunk.transactions)
    assert inside.rows == 50
    return start, inside


@pytest.mark.parametrize(("scheme", "second"), [("mariadb", 0), ("mariadb", 1), ("mysql", 1)])
def test_a_place_inside_a_transaction_is_known_by_what_was_read_of_it(
    sources: Callable[[str], Server], scheme: str, second: int
) -> None:
    """Another transaction of the same length has the GTID now.  In the same second too, as the session's clock stands:
    files are begun, and transactions committed, when it says."""
    source = sources(scheme)
    endpoint = Address(source.host, source.port, source.user)
    source.execute("CREATE OR REPLACE DATABASE inside" if scheme == "mariadb" else "CREATE DATABASE inside")
    writer = session.connect(source.url("inside"))
    writer.send("CREATE TABLE t (id int PRIMARY KEY, name varchar(40))")

    def begin_anew(first: int, later: int) -> None:
        writer.send(f"TRUNCATE t; SET TIMESTAMP=1790000000; {RESET[scheme]}")
        writer.send(f"SET TIMESTAMP={1790000000 + later}; BEGIN")
        for n in range(first, first + 200):
            writer.send(f"INSERT INTO t VALUES ({n}, 'of {n}')")
        writer.send("COMMIT")

    begin_anew(1000, 0)
    start, inside = _inside_a_transaction(endpoint)
    confirm(endpoint, inside)
    confirm(endpoint, start, [inside])
    begin_anew(2000, second)
    if scheme == "mariadb":
        confirm(endpoint, start)  # up to there nothing tells the two logs apart
        found = "an event of .* ends at byte" if not second else "is in the place of"
        for question in (lambda: confirm(endpoint, inside), lambda: confirm(endpoint, start, [inside])):
            with pytest.raises(OtherHistory, match=found):
                question()
    else:
        with pytest.raises(OtherHistory):
            confirm(endpoint, inside)
    writer.close()


def test_a_log_without_gtids_is_known_by_its_bytes(
    make_mysql: Make, postgres: Postgres, make_rig: Callable[..., Rig]
) -> None:
    source = make_mysql(extra=["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"])
    rig = _stopped_feed(make_rig, source, postgres, "offsets")
    rig.catch_up()
    source.execute("FLUSH LOGS")
    rig.catch_up()
    _insert(rig, 11, 12)
    rig.catch_up()
    rig.assert_exact()
    source.execute("RESET BINARY LOGS AND GTIDS")
    source.execute("FLUSH LOGS")
    _insert(rig, 13, 60)
    _assert_halted(rig)


def test_an_event_longer_than_a_packet_hides_no_position(
    make_mariadb: Make, postgres: Postgres, make_rig: Callable[..., Rig]
) -> None:
    """BINLOG_GTID_POS answers NULL behind it: the file is read as a replica reads it."""
    source = make_mariadb(extra=["--max-allowed-packet=1M"])
    rig = make_rig(source, postgres, "huge", start="now")
    rig.table("account", "id int PRIMARY KEY, name varchar(40)")
    rig.at_source("CREATE TABLE huge (id int PRIMARY KEY, body longtext)")
    rig.at_source("INSERT INTO huge VALUES (1, REPEAT('a', 900000))", "UPDATE huge SET body = REPEAT('b', 900000)")
    rig.rules = [{"source": f"{rig.schema}.account"}]
    said = rig.command("init", "@", "--apply")
    assert said.code == 0, said
    _insert(rig, 1, 5)
    rig.catch_up()
    rig.assert_exact()
    connection = connect(Address(source.host, source.port, source.user))
    try:
        assert current_position(connection).gtids == source.execute("SELECT @@gtid_binlog_pos")[0][0]
        with pytest.raises(LogGap, match="ends at"):
            mariadb_gtids(connection, rig.here().partition(":")[0], 2_000_000_000)
        with pytest.raises(PurgedPosition, match="Could not find first log"):
            mariadb_gtids(connection, "binlog.000999", 4)
    finally:
        connection.close()


@pytest.mark.proof
@pytest.mark.parametrize("rows", [pytest.param(40, id="longer"), pytest.param(3, id="shorter")])
def test_workers_halt_where_the_log_was_reset(
    make_mariadb: Make, postgres: Postgres, kafka: Kafka, make_rig: Callable[..., Rig], rows: int
) -> None:
    source = make_mariadb()
    rig = make_rig(source, postgres, "workers", log=kafka.url())
    rig.table("account", "id int PRIMARY KEY, name varchar(40)")
    _insert(rig, 1, 10)
    with Workers(rig, ["w1"]) as workers:
        workers.work_off()
        rig.assert_exact()
        source.execute("RESET MASTER")
        _insert(rig, 11, 10 + rows)
        with pytest.raises(TidelockFailed, match="exit code 4"):
            workers.work_off()
        assert "is not the one" in rig.said()
        if rows > 10:
            _assert_the_way_out_of_workers(rig, workers)


def _assert_the_way_out_of_workers(rig: Rig, workers: Workers) -> None:
    _, _, hint, *_ = rig.command("status", "@", "--json").json["halted"]["alarm"]
    assert "end all its workers, `tidelock resync FEED`" in hint, hint
    workers.copy_anew()
    _insert(rig, 101, 110)
    with Workers(rig, ["w2"]) as workers:
        workers.work_off()
    rig.assert_exact()
