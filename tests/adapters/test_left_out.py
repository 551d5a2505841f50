"""A log that leaves changes out as its server's settings say is not read, and `check` says so before."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, MySql, Postgres, Server

ACCOUNT = "id int PRIMARY KEY, name varchar(40)"
PERIOD = (
    ", s timestamp(6) GENERATED ALWAYS AS ROW START, e timestamp(6) GENERATED ALWAYS AS ROW END, "
    "PERIOD FOR SYSTEM_TIME (s, e)"
)
Make = Callable[..., Server]


@pytest.fixture
def make(make_mariadb: Callable[..., MariaDb], make_mysql: Callable[..., MySql]) -> Make:
    return lambda scheme, **options: (make_mariadb if scheme == "mariadb" else make_mysql)(**options)


def restarted(rig: Rig, *options: str) -> None:
    rig.source.extra = [*rig.source.extra, *options]
    rig.source.restart()
    rig.reconnect()


def rows(rig: Rig) -> int:
    return int(rig.rows("SELECT count(*)::text FROM account")[0][0])


def assert_refused(rig: Rig, *words: str) -> None:
    """`check` and a run say the same, with what to do."""
    checked = rig.command("check")
    assert checked.code == 1, checked
    before = len(rig.said())
    assert rig.catch_up_code() == 4, rig.said()[before:]
    said = rig.said()[before:]
    for word in (*words, "is not in the log", "tidelock resync"):
        assert word in checked.out + checked.err, checked
        assert word in said, said


@pytest.mark.parametrize("option", ["binlog-ignore-db", pytest.param("binlog-do-db", marks=pytest.mark.proof)])
@pytest.mark.parametrize("scheme", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_a_database_that_is_not_logged(
    make: Make, postgres: Postgres, make_rig: Callable[..., Rig], scheme: str, option: str
) -> None:
    """The server is restarted with the option between two runs; the rows of a database beside it are none of ours."""
    rig = make_rig(make(scheme), postgres, "unlogged")
    rig.table("account", ACCOUNT)
    rig.catch_up()
    left = rig.schema if option == "binlog-ignore-db" else "elsewhere"
    restarted(rig, f"--{option}={left}")
    rig.at_source("INSERT INTO account VALUES (1, 'never logged')")
    assert_refused(rig, f"does not log the database {rig.schema}", option.replace("-", "_"))
    assert rows(rig) == 0


def test_other_databases_that_are_not_logged_are_no_matter(
    make_mariadb: Callable[..., MariaDb], postgres: Postgres, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(make_mariadb(extra=["--binlog-ignore-db=elsewhere"]), postgres, "logged")
    rig.table("account", ACCOUNT)
    rig.at_source("INSERT INTO account VALUES (1, 'logged')")
    rig.catch_up()
    rig.assert_exact()


def test_a_server_that_is_restarted_so_under_a_run(
    make_mariadb: Callable[..., MariaDb], postgres: Postgres, make_rig: Callable[..., Rig]
) -> None:
    """The reader that connects again asks again."""
    rig = make_rig(make_mariadb(), postgres, "under")
    rig.table("account", ACCOUNT)
    process = rig.run()
    rig.at_source("INSERT INTO account VALUES (1, 'one')")
    until(lambda: rows(rig) == 1, "a row")
    restarted(rig, f"--binlog-ignore-db={rig.schema}")
    rig.at_source("INSERT INTO account VALUES (2, 'two')")
    assert process.code(60.0) == 4, rig.said()
    assert "does not log the database" in rig.said()


def _replicates(scheme: str, replica: Server, source: Server) -> None:
    if scheme == "mariadb":
        replica.execute(
            f"CHANGE MASTER TO MASTER_HOST='{source.host}', MASTER_PORT={source.port}, MASTER_USER='{source.user}'"
        )
        replica.execute("START SLAVE")
        return
    replica.execute(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='{source.host}', SOURCE_PORT={source.port}, "
        f"SOURCE_USER='{source.user}', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1"
    )
    replica.execute("START REPLICA")


@pytest.mark.parametrize("scheme", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_a_replica_that_does_not_log_what_it_applies(
    make: Make, postgres: Postgres, make_rig: Callable[..., Rig], scheme: str
) -> None:
    """MariaDB's default.  Its rows change, its log ends nowhere else, and a feed would be caught up for ever."""
    option = "log-slave-updates" if scheme == "mariadb" else "log-replica-updates"
    first, replica = make(scheme), make(scheme, extra=[f"--{option}=OFF"])
    first.execute("RESET MASTER" if scheme == "mariadb" else "RESET BINARY LOGS AND GTIDS")
    rig = make_rig(replica, postgres, "replica")
    rig.table("account", ACCOUNT)
    rig.at_source("INSERT INTO account VALUES (1, 'its own')")
    rig.catch_up()
    assert rows(rig) == 1
    first.execute(f"CREATE DATABASE IF NOT EXISTS {rig.schema}")
    first.execute(f"CREATE TABLE {rig.schema}.account ({ACCOUNT})")
    first.execute(f"INSERT INTO {rig.schema}.account VALUES (2, 'from its source')")
    rig.at_source("SET sql_log_bin=0", "DROP TABLE account", f"DROP DATABASE {rig.schema}", "SET sql_log_bin=1")
    _replicates(scheme, replica, first)
    until(lambda: _count(replica, rig.schema) == 1, "a row at the replica")
    rig.reconnect()
    assert_refused(rig, option.replace("-", "_") + "=OFF")
    assert rows(rig) == 1
    ended = ("STOP ALL SLAVES", "RESET SLAVE ALL") if scheme == "mariadb" else ("STOP REPLICA", "RESET REPLICA ALL")
    assert f"if it is no replica any more: {'; '.join(ended)}" in rig.said()
    for statement in ended:
        replica.execute(statement)
    rig.reconnect()
    resynced(rig)


@pytest.mark.parametrize("scheme", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_a_server_that_wrote_no_log_for_a_while(
    make: Make, postgres: Postgres, make_rig: Callable[..., Rig], scheme: str
) -> None:
    """Under a run, which halts, and between two, of which the second is refused: its next log begins behind the last
    one, as if nothing was missing."""
    rig = make_rig(make(scheme), postgres, "off")
    rig.table("account", ACCOUNT)
    rig.at_source("INSERT INTO account VALUES (1, 'one'), (2, 'two')")
    process = rig.run()
    until(rig.equal, "the first rows")
    before = rig.source.extra
    for run in ("goes on", "begins"):
        restarted(rig, "--skip-log-bin")
        rig.at_source(f"UPDATE account SET name = '{run}' WHERE id = 1", f"INSERT INTO account VALUES (9, '{run}')")
        assert process.code(60.0) == 4 if run == "goes on" else rig.catch_up_code() == 1, rig.said()
        assert "`tidelock resync FEED`" in rig.command("status", "@", "--json").json["halted"]["alarm"][2]
        rig.source.extra = before
        restarted(rig)
        rig.at_source("INSERT INTO account VALUES (8, 'logged again')")
        resynced(rig)
        rig.at_source("DELETE FROM account WHERE id > 7")
        rig.catch_up()
        rig.assert_exact()


def resynced(rig: Rig) -> None:
    """The log goes on as if nothing was missing, so no run does before all is copied."""
    assert rig.catch_up_code() == 1, rig.said()
    assert "changes are not in the source's log" in rig.said().splitlines()[-1], rig.said()
    said = rig.command("resync", "@", "--yes")
    assert said.code == 0, said
    rig.catch_up()
    rig.assert_exact()


def test_mariadb_tells_a_feed_s_user_only_that_it_has_been_a_replica(
    make_mariadb: Callable[..., MariaDb], postgres: Postgres, make_rig: Callable[..., Rig]
) -> None:
    """Who may not ask for its source is told what to grant."""
    first, replica = make_mariadb(), make_mariadb(extra=["--log-slave-updates=OFF"])
    rig = make_rig(replica, postgres, "was")
    rig.table("account", ACCOUNT)
    rig.at_source(
        f"CREATE USER {rig.name}@'%' IDENTIFIED BY 'secret'",
        f"GRANT REPLICATION SLAVE, BINLOG MONITOR, SELECT ON *.* TO {rig.name}@'%'",
    )
    rig.source_url = replica.url(user=rig.name, password="secret")
    rig.catch_up()
    first.execute("RESET MASTER")
    first.execute("CREATE DATABASE elsewhere")
    _replicates("mariadb", replica, first)
    until(lambda: replica.execute("SHOW DATABASES LIKE 'elsewhere'") != [], "a database at the replica")
    replica.execute("STOP ALL SLAVES")
    replica.execute("RESET SLAVE ALL")
    assert_refused(rig, "is or was a replica", "GRANT SLAVE MONITOR ON *.* to the feed's user")
    rig.at_source(f"GRANT SLAVE MONITOR ON *.* TO {rig.name}@'%'", "INSERT INTO account VALUES (1, 'its own')")
    resynced(rig)


@pytest.mark.parametrize("period", ["", PERIOD], ids=["hidden", "shown"])
def test_a_system_versioned_table(
    mariadb: MariaDb, postgres: Postgres, make_rig: Callable[..., Rig], period: str
) -> None:
    """An update is logged as the new row and the former one: as rows of one key the older one would stay, and so would
    rows that are deleted."""
    rig = make_rig(mariadb, postgres, "versioned")
    rig.at_source(f"CREATE TABLE history ({ACCOUNT}{period}) WITH SYSTEM VERSIONING")
    rig.start_at = rig.here()
    rig.table("account", ACCOUNT)
    checked = rig.command("check")
    assert checked.code == 1 and "history" in checked.out and "is system-versioned" in checked.out, checked
    found = re.search(r"ALTER TABLE [^;]+ DROP SYSTEM VERSIONING;", checked.out)
    assert found is not None
    if period:  # those columns go with it, which the server says
        rig.at_source("SET SESSION system_versioning_alter_history=KEEP")
    rig.at_source(found[0].replace(";", ", DROP PERIOD FOR SYSTEM_TIME, DROP s, DROP e" if period else ""))
    assert "is system-versioned" not in rig.command("check").out


def test_a_table_that_gets_versions_under_a_feed(
    mariadb: MariaDb, postgres: Postgres, make_rig: Callable[..., Rig]
) -> None:
    """The operator has passed the statement; the next reader asks again."""
    rig = make_rig(mariadb, postgres, "later")
    rig.table("account", ACCOUNT)
    rig.at_source("INSERT INTO account VALUES (1, 'one')")
    rig.catch_up()
    rig.at_source("ALTER TABLE account ADD SYSTEM VERSIONING", "UPDATE account SET name = 'new'")
    assert rig.catch_up_code() == 4, rig.said()
    assert "is system-versioned" in rig.said()


def _count(server: Server, schema: str) -> int:
    try:
        return int(server.execute(f"SELECT count(*) FROM {schema}.account")[0][0])
    except Exception:  # not there yet
        return 0
