"""A server that cannot now: too many connections, a full disk, read-only.  The feed waits, says why, and goes on."""

import contextlib
import shutil
from collections.abc import Callable

import pytest
from pymysql.err import OperationalError

from bench.harness.namespace import mounting
from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, Postgres, Server
from bench.harness.servers.place import free_port, give
from bench.harness.small_disk import SmallDisk
from bench.harness.tidelock import Process, sample

ROWS = 50
GRANTS = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REPLICATION SLAVE, BINLOG MONITOR"


class Trial:
    """A feed of one table; `hindered`: until a running feed says that it waits, in these words."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.address = f"127.0.0.1:{free_port()}"
        rig.options["http"] = self.address
        rig.table("t", "id bigint PRIMARY KEY, note text")
        self.written = 0

    def write(self, rows: int = ROWS) -> None:
        values = ",".join(f"({self.written + n}, 'x')" for n in range(rows))
        self.rig.at_source(f"INSERT INTO t VALUES {values}")
        self.written += rows

    def hindered(
        self, process: Process, *words: str, at: str = "target", again: Callable[[], None] = lambda: None
    ) -> None:
        def said() -> bool:
            process.check()
            again()
            now = sample(self.address)
            return now is not None and any(
                one.at == at and any(word in one.message for word in words) for one in now.hindrances
            )

        until(said, f"the feed says that it waits for the {at}: {words}", 60)

    def arrived(self, process: Process) -> None:
        def there() -> bool:
            process.check()
            return int(self.rig.rows("SELECT count(*) FROM t")[0][0]) == self.written

        until(there, f"{self.written} rows at the target", 60)


def said(rig: Rig, *words: str) -> Callable[[], bool]:
    return lambda: any(word in rig.said() for word in words)


def read_only(server: Server) -> tuple[str, str, str]:
    """How to make it so, how to end that, and what it says then."""
    if isinstance(server, Postgres):
        change = "ALTER SYSTEM {} default_transaction_read_only{}"
        return change.format("SET", " = on"), change.format("RESET", ""), "read-only"
    return "SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0", "read-only"


def set_to(server: Server, statement: str) -> None:
    server.execute(statement)
    if isinstance(server, Postgres):
        server.execute("SELECT pg_reload_conf()")


def account(rig: Rig, server: Server) -> None:
    """The feed writes as one that may not write to a read-only server."""
    if not isinstance(server, Postgres):
        server.execute("CREATE USER writer IDENTIFIED BY 'w'")
        server.execute(f"GRANT {GRANTS} ON *.* TO writer")
        rig.target_url = server.url(user="writer", password="w")


@pytest.mark.parametrize("maker", ["make_postgres", "make_mariadb"])
def test_a_read_only_target(
    maker: str, mariadb: MariaDb, make_rig: Callable[..., Rig], request: pytest.FixtureRequest
) -> None:
    """In the middle of the work, and again at the start of a run."""
    server: Server = request.getfixturevalue(maker)()
    rig = make_rig(mariadb, server, "readonly", lanes=2)
    account(rig, server)
    trial = Trial(rig)
    forbid, allow, words = read_only(server)
    process = rig.run()
    trial.write()
    trial.arrived(process)
    set_to(server, forbid)
    trial.write()
    trial.hindered(process, words)
    set_to(server, allow)
    trial.arrived(process)
    set_to(server, forbid)
    process.stop()
    trial.write()
    process = rig.run()
    until(said(rig, "tried again in"), "the start waits", 60)
    process.check()
    set_to(server, allow)
    trial.arrived(process)
    process.stop()
    assert not rig.differences().total


def test_too_many_connections_at_postgresql(
    mariadb: MariaDb, make_postgres: Callable[..., Postgres], make_rig: Callable[..., Rig]
) -> None:
    server = make_postgres()
    server.execute("CREATE ROLE writer LOGIN PASSWORD 'w' IN ROLE postgres")
    rig = make_rig(mariadb, server, "crowd", lanes=2)
    rig.target_url = server.url(user="writer", password="w")
    trial = Trial(rig)
    process = rig.run()
    trial.write()
    trial.arrived(process)
    server.execute("ALTER ROLE writer CONNECTION LIMIT 0")
    server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'writer'")
    trial.write()
    trial.hindered(process, "too many connections")
    process.kill()
    process = rig.run()
    until(said(rig, "tried again in"), "the start waits", 60)
    process.check()
    server.execute("ALTER ROLE writer CONNECTION LIMIT 50")
    trial.arrived(process)
    process.stop()
    assert not rig.differences().total


@pytest.mark.parametrize("end", [pytest.param("source", marks=pytest.mark.proof), "target"])
def test_too_many_connections_at_mariadb(
    end: str, make_mariadb: Callable[..., MariaDb], mariadb: MariaDb, make_rig: Callable[..., Rig]
) -> None:
    server = make_mariadb()
    rig = make_rig(*((server, mariadb) if end == "source" else (mariadb, server)), "crowd", lanes=2)
    server.execute("CREATE USER feed IDENTIFIED BY 'f'")
    server.execute(f"GRANT {GRANTS} ON *.* TO feed")
    setattr(rig, f"{end}_url", server.url(user="feed", password="f"))
    trial = Trial(rig)
    process = rig.run()
    trial.write()
    trial.arrived(process)
    others = []

    def crowd() -> None:
        server.execute("KILL USER feed")
        while True:
            try:
                others.append(server.connect())
            except OperationalError:  # one too many
                return

    def crowd_again() -> None:
        """The feed may have been quicker: then it must have something to do once more."""
        crowd()
        trial.write()

    server.execute("SET GLOBAL max_connections = 10")
    trial.hindered(process, "Too many connections", at=end, again=crowd_again)
    process.kill()
    crowd()
    process = rig.run()
    until(said(rig, "tried again in"), "the start waits", 60)
    process.check()
    server.execute("SET GLOBAL max_connections = 100")
    for other in others:
        other.close()
    trial.arrived(process)
    process.stop()
    assert not rig.differences().total


def filled(server: MariaDb) -> int:
    """Fills a tablespace with rows of each size until they are refused; returns how many it has taken."""
    taken = 0
    for size in (1 << 20, 1 << 16, 1 << 10):
        with contextlib.suppress(OperationalError):
            for _ in range(1000):
                server.execute("INSERT INTO ballast.t VALUES (repeat('x', %s))", size)
                taken += 1
    return taken


@pytest.mark.proof
def test_a_full_tablespace_at_mariadb(
    make_mariadb: Callable[..., MariaDb], mariadb: MariaDb, make_rig: Callable[..., Rig]
) -> None:
    """A larger one needs a restart: what is full has no room for the notes of a DROP either.

    A proof, as MariaDB 10.11 now and then answers nothing at all once its own notes have no room: then the feed says
    that the target is silent, and not that it is full.
    """
    limits = "--innodb-file-per-table=0", "--innodb-data-file-path=ibdata1:12M:autoextend:max:"
    server = make_mariadb(extra=[limits[0], f"{limits[1]}40M"])
    rig = make_rig(mariadb, server, "full", lanes=2)
    trial = Trial(rig)
    process = rig.run()
    trial.write()
    trial.arrived(process)
    server.execute("CREATE DATABASE ballast")
    server.execute("CREATE TABLE ballast.t (filling longtext) ENGINE=InnoDB")
    while filled(server):  # what a refused row had taken comes free again, so once is not enough
        pass
    trial.write(5_000)
    trial.hindered(process, "full")
    server.extra = [limits[0], f"{limits[1]}80M"]
    server.restart()
    rig.reconnect()
    trial.arrived(process)
    process.stop()
    assert not rig.differences().total


@mounting
def test_a_full_disk_at_postgresql(
    make_postgres: Callable[..., Postgres], mariadb: MariaDb, make_rig: Callable[..., Rig]
) -> None:
    """The feed's table lies on a small disk of its own."""
    server = make_postgres()
    rig = make_rig(mariadb, server, "full", lanes=2)
    trial = Trial(rig)
    with SmallDisk(server.folder / "small") as disk:
        assert not disk.missing, disk.missing
        (disk.folder / "space").mkdir()
        for folder in (disk.folder, disk.folder / "space"):
            shutil.chown(folder, server.data.owner(), server.data.group())
        server.execute(f"CREATE TABLESPACE small LOCATION '{disk.folder}/space'")
        server.execute(f"ALTER TABLE {rig.schema}.t SET TABLESPACE small")
        process = rig.run()
        trial.write()
        trial.arrived(process)
        disk.fill()
        trial.write(5_000)
        trial.hindered(process, "No space left on device")
        disk.free()
        trial.arrived(process)
        process.stop()
        assert not rig.differences().total
        server.stop()


@mounting
def test_a_full_disk_at_postgresql_as_a_session_begins(
    make_postgres: Callable[..., Postgres], mariadb: MariaDb, make_rig: Callable[..., Rig]
) -> None:
    """Its file of the catalogue is gone, as after each restart, and a session that cannot write it is refused."""
    server = make_postgres()
    rig = make_rig(mariadb, server, "begins", lanes=2)
    trial = Trial(rig)
    trial.write()
    rig.catch_up()
    with SmallDisk(server.folder / "small") as disk:
        assert not disk.missing, disk.missing
        server.stop()
        base = server.data / "base"
        shutil.move(base, disk.folder)
        base.symlink_to(disk.folder / "base")
        give(disk.folder, server.account)
        server.start()
        rig.reconnect()
        for kept in disk.folder.glob("base/*/pg_internal.init"):
            kept.unlink()
        disk.fill()
        trial.write()
        process = rig.run()
        until(said(rig, "could not write init file"), "a session that is refused", 60)
        until(said(rig, "tried again in"), "the start waits", 60)
        process.check()
        disk.free()
        trial.arrived(process)
        process.stop()
        assert not rig.differences().total
        server.stop()
