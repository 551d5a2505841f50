"""The servers that the other tests stand on: they start, end, come back and leave nothing behind."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.harness.servers import MariaDb, MySql, Postgres, Server, ServerFailed
from tests.shared_servers import SharedServer

KINDS = [MariaDb, MySql, Postgres]
LEAVES = """
import os, signal, sys
from bench.harness.servers import MariaDb, MySql, Postgres
server = {kind}()
server.start()
print(server.pid, server.folder, flush=True)
{end}
"""
ENDS = {
    "sigkill": "os.kill(os.getpid(), signal.SIGKILL)",
    "sigterm": "os.kill(os.getpid(), signal.SIGTERM)",
    "sigint": "os.kill(os.getpid(), signal.SIGINT)",
    "exception": "raise RuntimeError",
    "exit": "sys.exit(0)",
}


def gone(pid: int) -> bool:
    """Tells whether the process has ended; one that nobody reaps (no init in a container) has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.scheme)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with request.param() as running:
        yield running


# The harness does the same for each.
BUT_MYSQL = pytest.mark.parametrize(
    "server",
    [pytest.param(kind, id=kind.scheme, marks=[pytest.mark.proof] * (kind is MySql)) for kind in KINDS],
    indirect=True,
)


@pytest.mark.proof
def test_committed_rows_survive_restart_and_kill_on_the_same_port(server: Server) -> None:
    shop = server.database("shop")
    server.execute("CREATE TABLE account (id int PRIMARY KEY)", database=shop)
    port = server.port
    for number, again in enumerate([server.restart, lambda: (server.kill(), server.start())]):
        server.execute(f"INSERT INTO account VALUES ({number})", database=shop)
        before = server.pid
        again()
        assert gone(before)
        assert (server.port, server.pid != before) == (port, True)
    assert server.execute("SELECT id FROM account ORDER BY id", database=shop) == [(0,), (1,)]


def test_a_killed_postgres_starts_again_though_a_session_was_computing() -> None:
    """A session that computes does not notice the server's end, and keeps its shared memory."""
    with Postgres() as server, ThreadPoolExecutor(1) as pool:
        other = server.connect()
        ((session,),) = other.execute("SELECT pg_backend_pid()", [])
        computing = pool.submit(other.execute, "SELECT count(*) FROM generate_series(1, 10000000000)", [])
        active = f"SELECT 1 FROM pg_stat_activity WHERE pid = {session} AND state = 'active'"
        wait_until(lambda: server.execute(active) == [(1,)])
        try:
            server.kill()
            assert gone(session)
            server.start()
            assert server.execute("SELECT 1") == [(1,)]
            assert computing.exception(30.0) is not None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(session, signal.SIGKILL)
        other.close()


@BUT_MYSQL
def test_close_ends_the_process_and_removes_the_folder(server: Server) -> None:
    pid = server.pid
    server.execute("SELECT 1")
    server.close()
    assert gone(pid)
    assert not server.folder.exists()
    server.close()


def test_unique_violations_are_counted(server: Server) -> None:
    shop = server.database()
    server.execute("CREATE TABLE account (id int PRIMARY KEY, email varchar(64) UNIQUE)", database=shop)
    server.execute("INSERT INTO account VALUES (1, 'lucy')", database=shop)
    assert server.unique_violations() == 0
    for row in ("(1, 'bob')", "(2, 'lucy')"):
        with pytest.raises(Exception, match=r"[Dd]uplicate"):
            server.execute(f"INSERT INTO account VALUES {row}", database=shop)
    assert server.unique_violations() == 2


@BUT_MYSQL
def test_databases_are_fresh_and_scripts_run_in_them(server: Server) -> None:
    one, two = server.database("shop"), server.database("shop")
    assert one != two
    for name in (one, two):
        server.execute_script("CREATE TABLE item (id int); INSERT INTO item VALUES (1), (2)", database=name)
        assert server.execute("SELECT count(*) FROM item", database=name) == [(2,)]


@pytest.mark.parametrize("kind", ["mariadb", "mysql", "postgres"])
def test_databases_of_a_test_go_with_it_and_those_of_its_module_stay(
    kind: str, request: pytest.FixtureRequest
) -> None:
    server: Server = request.getfixturevalue(kind)
    shared, of_the_module = SharedServer(server), server.database("kept")
    shared.begin()
    made = server.database("made")
    if isinstance(server, Postgres):  # which holds its database
        server.execute("SELECT pg_create_logical_replication_slot('made', 'pgoutput')", database=made)
    held = server.connect(made)
    shared.end()
    held.close()
    assert of_the_module in server.databases() and made not in server.databases()


@BUT_MYSQL
def test_a_dropped_session_is_replaced(server: Server) -> None:
    postgres = server.scheme == "postgresql"
    own = "SELECT pg_backend_pid()" if postgres else "SELECT connection_id()"
    ((session,),) = server.execute(own)
    other = server.connect()
    other.execute(f"SELECT pg_terminate_backend({session})" if postgres else f"KILL {session}", [])
    other.close()

    def replaced() -> bool:
        try:
            return server.execute(own) != [(session,)]
        except Exception:  # PostgreSQL ends a session after it has said so
            return False

    wait_until(replaced)


@pytest.mark.parametrize(
    "end", [pytest.param(end, marks=[pytest.mark.proof] * (end not in ("sigkill", "exit"))) for end in ENDS]
)
def test_nothing_outlives_its_owner(end: str) -> None:
    assert_leaves_nothing("Postgres", end)


@pytest.mark.parametrize("kind", ["MariaDb", "MySql"])
def test_nothing_outlives_a_killed_owner(kind: str) -> None:
    assert_leaves_nothing(kind, "sigkill")


def assert_leaves_nothing(kind: str, end: str) -> None:
    owner = subprocess.run(
        [sys.executable, "-c", LEAVES.format(kind=kind, end=ENDS[end])],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    pid, folder = owner.stdout.split()
    wait_until(lambda: gone(int(pid)) and not Path(folder).exists())


def test_a_server_that_cannot_start_says_why() -> None:
    server = MariaDb(extra=["--no-such-option"])
    with pytest.raises(ServerFailed, match="no-such-option"):
        server.start()
    server.close()


def test_a_server_killed_behind_our_back_is_seen(make_postgres: Callable[..., Postgres]) -> None:
    server = make_postgres()
    os.kill(server.pid, signal.SIGQUIT)
    wait_until(lambda: not server.running)
    server.restart()
    assert server.execute("SELECT 1") == [(1,)]


async def test_statements_run_inside_an_event_loop(postgres: Postgres, mariadb: MariaDb) -> None:
    assert postgres.execute("SELECT $1::int + 1", 41) == [(42,)]
    assert mariadb.execute("SELECT %s + 1", 41) == [(42,)]


def test_source_logs_are_complete(mariadb: MariaDb, mysql: MySql, postgres: Postgres) -> None:
    for server in (mariadb, mysql):
        asked = "@@log_bin, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata, @@character_set_server"
        assert server.execute(f"SELECT {asked}") == [(1, "ROW", "FULL", "FULL", "utf8mb4")]
    assert mysql.execute("SELECT @@gtid_mode") == [("ON",)]
    assert mariadb.execute("SELECT @@gtid_strict_mode") == [(1,)]
    assert postgres.execute("SHOW wal_level") == [("logical",)]


def test_copies_are_servers_of_their_own(mysql: MySql, make_mysql: Callable[..., MySql]) -> None:
    other = make_mysql(extra=["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"])
    asked = "SELECT @@server_uuid, @@server_id"
    assert {*mysql.execute(asked)[0]}.isdisjoint(other.execute(asked)[0])
    assert other.execute("SELECT @@gtid_mode") == [("OFF",)]


def test_passwords_are_checked(mariadb: MariaDb, mysql: MySql, postgres: Postgres) -> None:
    for server in (mariadb, mysql):
        server.execute("CREATE USER reader@localhost IDENTIFIED BY 'right'")
    postgres.execute("CREATE USER reader PASSWORD 'right'")
    for server in (mariadb, mysql, postgres):
        session = server.connect(user="reader", password="right")
        assert session.execute("SELECT 1", []) == [(1,)]
        session.close()
        with pytest.raises(Exception, match=r"(?i)denied|password"):
            server.connect(user="reader", password="wrong")
