"""Real servers for tests.

`mariadb`, `mysql`, `other_mysql`, `postgres` and `kafka` are started once a worker, when first asked for, and shared:
take a fresh database with `mariadb.database("shop")`, and for topics a feed's name of your own.  A test that restarts,
kills or configures a server makes its own with `make_…`.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from bench.rig import Rig
from bench.servers import MariaDb, MySql, Postgres, Server
from bench.servers.kafka import Kafka
from tidelock.adapters.config.feed import Spark
from tidelock.adapters.spark.session import session

settings.register_profile("no deadline", deadline=None)  # how long an example takes is the machine's business
settings.load_profile("no deadline")

# Java's lives are short in tests: its second compiler and several collectors would take longer than they save.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Whoever ignores it hands that on to what he starts, and a feed under `nohup` goes on when its terminal closes.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest alone begins first: at the end one worker would wait for another that has it."""
    items.sort(key=lambda item: item.name != "test_mypy_strict")


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    with MariaDb() as server:
        yield server


@pytest.fixture(scope="session")
def mysql() -> Iterator[MySql]:
    with MySql() as server:
        yield server


@pytest.fixture(scope="session")
def other_mysql() -> Iterator[MySql]:
    """A target for feeds from `mysql`."""
    with MySql() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    with Kafka() as server:
        yield server


@pytest.fixture(scope="module")
def spark() -> Iterator[object]:
    """Of one module: a process has room for one, and others set theirs up in their own way."""
    with session(Spark(), "tests") as opened:
        yield opened


@pytest.fixture
def own_servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def make_mariadb(own_servers: ExitStack) -> Callable[..., MariaDb]:
    """`make_mariadb(extra=["--max-binlog-size=1M"], durable=True)`: a running server of the test's own."""
    return lambda **options: own_servers.enter_context(MariaDb(**options))


@pytest.fixture
def make_mysql(own_servers: ExitStack) -> Callable[..., MySql]:
    return lambda **options: own_servers.enter_context(MySql(**options))


@pytest.fixture
def make_postgres(own_servers: ExitStack) -> Callable[..., Postgres]:
    return lambda **options: own_servers.enter_context(Postgres(**options))


@pytest.fixture
def make_kafka(own_servers: ExitStack) -> Callable[..., Kafka]:
    """`make_kafka(extra=["message.max.bytes=100000"], security="scram")`."""
    return lambda **options: own_servers.enter_context(Kafka(**options))


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[Callable[..., Rig]]:
    """`make_rig(mariadb, postgres, "name", lanes=4, http="…")`: a schema at both ends, and a feed between them."""
    with ExitStack() as stack:

        def make(source: Server, target: Server, name: str, **options: Any) -> Rig:
            rig = Rig(source, target, tmp_path, name, **options)
            stack.callback(rig.close)
            return rig

        yield make
