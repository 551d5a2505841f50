"""Fixtures that several modules of this folder begin with."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from bench.harness.lake import HIVE, SPARK, Lake, killed_at
from bench.harness.logical import Log, log
from bench.harness.rig import Rig
from bench.harness.servers import Postgres, Server
from bench.harness.workload.mix import Mix
from tidelock.adapters.config.loader import load
from tidelock.adapters.hive.opening import opened

KILLED_AT = "behind a table in the metastore"  # at each step, and amid mending another death, in the proof


# Each test of these modules, or folders of them, runs at one kind of server, in turn, and at the other in the proof; at
# both, if it tells them apart.
IN_TURN = ("mysql_sink", "mysql_copying")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    functions: dict[object, int] = {}
    for item in items:
        named = {item.path.name, item.path.parent.name} & set(IN_TURN)
        if named and isinstance(item, pytest.Function):
            number = functions.setdefault(item.function, len(functions))
            kind = kind_of(item)
            if kind and kind != KINDS[number % 2] and "mysql" not in inspect.getsource(item.function):
                item.add_marker(pytest.mark.proof)


KINDS = ("mariadb", "mysql")


def kind_of(item: pytest.Function) -> str:
    """The kind of server that it is given, '' if it is given none."""
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return next((one.removeprefix("make_") for one in given if one in (*KINDS, "make_mariadb", "make_mysql")), "")


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
