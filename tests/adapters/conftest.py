"""Fixtures that several modules of this folder begin with."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any
from zlib import crc32

import pytest

from bench.harness.lake import HIVE, SPARK, Lake, killed_at
from bench.harness.logical import Log, log
from bench.harness.rig import Rig
from bench.harness.servers import Postgres, Server
from bench.harness.workload.mix import Mix
from tidelock.adapters.config.loader import load
from tidelock.adapters.hive.opening import opened

KILLED_AT = "behind a table in the metastore"  # at each step, and amid mending another death, in the proof


# Each test of these modules, or folders of them, runs at one kind of server, or pair of kinds, in turn, and at the
# others in the proof.  So `make test` sees each kind in each module, and not in each test.
IN_TURN = frozenset(
    (
        *("mysql_sink", "mysql_copying", "test_binlog_values.py", "test_run_values.py", "test_postgres_types.py"),
        *("test_partial_rows.py", "test_copy_reading.py", "test_two_phase.py", "test_runs.py", "test_schema.py"),
        *("test_grants.py", "test_copy_unkeyed.py", "test_verify.py", "test_verify_since.py", "test_repair.py"),
        *("test_whole_tables.py", "test_postgres_check.py", "test_check.py", "test_operator.py", "test_upgrade.py"),
        *("test_run_schema_changes.py", "test_run_schema_forms.py", "test_run_column_changes.py"),
        *("test_run_postgres_commands.py", "test_run_postgres_columns.py", "test_run_shadow_tables.py"),
        *("test_run_operator.py", "test_run_hindered.py", "test_run_orphans.py", "test_run_statements.py"),
        *("test_run_refused.py", "test_copied_cycles.py", "test_arbiter.py", "test_target_away.py"),
        *("test_workloads.py", "test_servers.py", "test_run_feed.py", "test_cli.py"),
        *("test_postgres_source.py", "test_postgres_start.py", "test_postgres_changed.py", "test_copy_homes.py"),
        "test_postgres_verify.py",
    )
)
TELL_APART = ("mysql_sink", "mysql_copying")  # what a test here says of one kind alone, it does at both
KINDS = frozenset(("mariadb", "mysql", "postgres", "postgres_source"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    functions: dict[str, dict[tuple[str, ...], list[pytest.Function]]] = {}
    for item in items:
        rooms = {item.path.name, item.path.parent.name}
        if not rooms & IN_TURN or not isinstance(item, pytest.Function) or item.get_closest_marker("proof"):
            continue
        if rooms & set(TELL_APART) and "mysql" in source_of(item.function):
            continue
        if kinds := kinds_of(item):
            functions.setdefault(item.nodeid.partition("[")[0], {}).setdefault(kinds, []).append(item)
    for name, by_kinds in functions.items():
        turn = sorted(by_kinds)[crc32(name.encode()) % len(by_kinds)]
        for kinds, cases in by_kinds.items():
            for case in cases if kinds != turn else ():
                case.add_marker(pytest.mark.proof)


@functools.cache
def source_of(function: Callable[..., Any]) -> str:
    return inspect.getsource(function)


def kinds_of(item: pytest.Function) -> tuple[str, ...]:
    """The kinds of server that it is given, by the names of its parameters' values."""
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    words = [word for one in given for word in (one if isinstance(one, tuple) else (one,)) if isinstance(word, str)]
    return tuple(word for word in words if word.removeprefix("make_").removeprefix("other_") in KINDS)


@pytest.fixture(scope="session")
def left(
    tmp_path_factory: pytest.TempPathFactory, mariadb: Server, postgres: Server, worker_spark: Any
) -> Iterator[Rig]:
    """Rig with what the command left behind in a warehouse when it was killed.  Its PostgreSQL end is not used."""
    worker_spark.close()
    folder = tmp_path_factory.mktemp("hive")
    rig = Rig(mariadb, postgres, folder, "lake", hive=HIVE, spark=SPARK)
    rig.target_url = f"hive://{folder}/warehouse"
    work = rig.make(Mix())
    try:
        rig.load(work, 300)
        killed_at(rig, KILLED_AT)
        rig.load(work, 300, seed=2)
        yield rig
    finally:
        worker_spark.close()
        rig.close()


@pytest.fixture
def lake(left: Rig, worker_spark: Any) -> Lake:
    """The warehouse of `left`, in a session that many modules share."""
    return Lake(worker_spark.open("warehouse", lambda: opened(load(left.feed))).spark, left.folder)


@pytest.fixture
def shop_log(postgres_source: Postgres) -> Iterator[Log]:
    """The log of a fresh database with the tables `t` and `u`, from where they are made on."""
    database = postgres_source.database("shop")
    postgres_source.execute_script(
        "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY, v text);", database=database
    )
    with log(postgres_source, database) as made:
        yield made


@pytest.fixture
def durable_targets(request: pytest.FixtureRequest) -> Iterator[None]:
    """Our servers leave out waits for the disk, and `check` would say so each time."""
    names = [name for name in ("mysql", "mariadb") if name in request.fixturenames]
    servers = [request.getfixturevalue(name) for name in names]
    for server in servers:
        server.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    yield
    for server in servers:
        server.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
