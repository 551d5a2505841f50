"""A server that cannot now: too many connections, a full disk, read-only.  The feed waits, says for what, and goes on."""

from collections.abc import Callable
from typing import Any

import pytest

from bench.rig import Rig, until
from bench.servers import MariaDb, Postgres, Server
from bench.servers.place import free_port
from bench.tidelock import Process, sample

ROWS = 50


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

    def hindered(self, process: Process, *words: str, at: str = "target") -> None:
        def said() -> bool:
            process.check()
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
        server.execute("GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX ON *.* TO writer")
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
    assert rig.differences() == 0


@pytest.mark.parametrize("maker", ["make_postgres", "make_mariadb"])
def test_too_many_connections_at_the_target(
    maker: str, mariadb: MariaDb, make_rig: Callable[..., Rig], request: pytest.FixtureRequest
) -> None:
    server: Server = request.getfixturevalue(maker)()
    rig = make_rig(mariadb, server, "crowd", lanes=2)
    account(rig, server)
    trial = Trial(rig)
    postgres = isinstance(server, Postgres)
    if postgres:
        server.execute("CREATE ROLE writer LOGIN PASSWORD 'w' SUPERUSER")
        rig.target_url = server.url(user="writer", password="w")
    process = rig.run()
    trial.write()
    trial.arrived(process)
    limit = "ALTER ROLE writer CONNECTION LIMIT {}" if postgres else "SET GLOBAL max_connections = {}"
    end = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'writer'"
        if postgres
        else "KILL USER writer"
    )
    others: list[Any] = []
    if postgres:
        server.execute("ALTER ROLE writer NOSUPERUSER CONNECTION LIMIT 0")
    else:
        server.execute("SET GLOBAL max_connections = 10")
        others = [server.connect() for _ in range(10)]
    server.execute(end)
    trial.write()
    trial.hindered(process, "too many connections", "Too many connections")
    process.stop()
    process = rig.run()
    until(said(rig, "tried again in"), "the start waits", 60)
    process.check()
    for other in others:
        other.close()
    server.execute(limit.format(100))
    trial.arrived(process)
    process.stop()
    assert rig.differences() == 0
