"""Real servers for tests.

`mariadb`, `mysql`, `other_mysql`, `postgres` and `postgres_source` are started once a worker, when first asked for, and
shared: take a fresh database with `mariadb.database("shop")`.  `kafka` is one for all workers: for topics take a feed's
name of your own, with a number that no other worker has (`bench.harness.numbers`; a rig's name has one).
A test that restarts, kills or configures a server makes its own with `make_…`.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from bench.harness.forking import interpreters, use_fork_server
from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.servers.kafka import Kafka
from bench.harness.servers.kafka_broker import Broker
from bench.harness.servers.place import files_in_memory
from bench.harness.servers.shared_kafka import shared_kafka
from bench.harness.servers.spark_classes import java_options
from bench.harness.workers import Workers
from tests.shared_servers import RUNNING, kept, shared
from tidelock.adapters.config.feed import Spark
from tidelock.adapters.spark.session import session

settings.register_profile("no deadline", deadline=None)  # how long an example takes is the machine's business
settings.load_profile("no deadline")

os.environ.setdefault("JDK_JAVA_OPTIONS", java_options())

# Python keeps what it compiles, here and in all processes of a test: else each would compile our modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

SMALL = Spark(settings={"spark.sql.shuffle.partitions": "4"})  # as the tables are

# Whoever ignores it hands that on to what he starts, and a feed under `nohup` goes on when its terminal closes.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Nothing of what is collected is garbage; `pytest_collection_finish` sets it going again.
gc.disable()


# Of each line one worker has all: modules that share something costly, a session of Spark, tables that were filled,
# servers of the module's own, a second MySQL or what was parsed, which else each worker would have for itself; those
# whose tests mostly wait: if all workers did at once, nobody would use the processor; and those that only compute, for
# the others' waits.
TOGETHER = (
    ("test_verify.py", "test_verify_since.py", "test_verify_every.py", "test_repair.py", "test_spark_executors.py",
     "test_copy_reading.py", "test_spark_changes.py", "test_postgres_reading.py", "test_postgres_verify.py"),
    ("test_hive.py", "test_hive_copy.py", "test_hive_altered.py"),
    ("test_silence.py", "test_silent_spark.py"),
    ("test_worlds.py", "test_explore_locks.py", "test_explore_chunks.py", "test_explore_fence.py"),
    ("test_copier.py",),
    ("test_kafka_connection.py", "test_check_log.py"),
    ("test_log_identity.py",),
    ("test_resync.py", "test_stamps.py", "test_run_exact.py"),
    ("test_postgres_visible.py", "test_postgres_check.py", "test_postgres_histories.py", "test_forking.py"),
    ("test_mutants.py", "test_two_way_bugs.py", "test_ddl_corpora.py", "test_fast_path.py"),
)
LINES = {module: line for line, modules in enumerate(TOGETHER) for module in modules}


# Modules in which commands are started as users start them: what differs, imports and Python's hashes, is tried there
# with each kind of command and under each kind of load, and where memory or time is measured.
AS_USERS_DO = frozenset(
    (
        *("test_run_exact.py", "test_operator.py", "test_hive.py"),
        *(path.name for path in Path(__file__).parent.joinpath("bench").glob("test_*.py")),
    )
)


class OneByOne(LoadScopeScheduling):
    """A worker gets the next test when it has none, so that none waits for another at the end; or a line's tests."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        line = LINES.get(nodeid.partition("::")[0].rpartition("/")[2])
        return nodeid if line is None else f"line {line}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneByOne:
    return OneByOne(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with tests that take longest, and end with short ones."""
    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: no collection of garbage need look at them again."""
    gc.freeze()
    gc.enable()


def place(item: pytest.Item) -> int:
    if item.name == "test_mypy_strict":
        return 0
    if item.path.name in LINES:
        return 1 + LINES[item.path.name]
    return 1 + len(TOGETHER) + (item.path.parent.name == "engine")


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> Iterator[None]:
    """Commands come from a process that has imported the product, which is started when first asked for."""
    with use_fork_server():
        yield


@pytest.fixture(scope="module", autouse=True)
def as_users_do(request: pytest.FixtureRequest, fork_server: None) -> Iterator[None]:
    """Each command of `AS_USERS_DO` has an interpreter of its own."""
    with interpreters() if request.path.name in AS_USERS_DO else nullcontext():
        yield


@pytest.fixture
def own_interpreters(fork_server: None) -> Iterator[None]:
    """Each command of the test has an interpreter of its own."""
    with interpreters():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Keeps databases of a fixture that a test asks for while it runs, and that is there for longer."""
    with kept() if fixturedef.scope != "function" else nullcontext():
        return (yield)


@pytest.fixture(scope="module", autouse=True)
def logs_of_the_module() -> Iterator[None]:
    yield
    for server in RUNNING:
        server.between_modules()


@pytest.fixture(autouse=True)
def databases_of_the_test() -> Iterator[None]:
    for server in RUNNING:
        server.begin()
    yield
    for server in RUNNING:
        server.end()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Server]:
    with shared(MariaDb) as server:
        yield server


@pytest.fixture(scope="session")
def mysql() -> Iterator[Server]:
    with shared(MySql) as server:
        yield server


@pytest.fixture(scope="session")
def other_mysql() -> Iterator[Server]:
    """A target for feeds from `mysql`."""
    with shared(MySql) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with shared(Postgres) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_source() -> Iterator[Server]:
    """A source for feeds to `postgres`."""
    with shared(Postgres) as server:
        yield server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One for all workers: a Kafka at rest costs what ten databases do.  Name topics and feeds by `numbers()`."""
    ours = tmp_path_factory.getbasetemp()
    with shared_kafka((ours.parent if "PYTEST_XDIST_WORKER" in os.environ else ours) / "kafka") as broker:
        yield broker


class WorkerSpark:
    """Spark in a worker's own process, which has room for one session: started when first asked for, and again after
    somebody had the room."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._name, self._session = "", None

    def open(self, name: str, start: Callable[[], AbstractContextManager[Any]]) -> Any:
        """Returns what `start` gave.  It is asked again only where a session of another name was open since."""
        if self._name != name:
            self.close()
            with same_environment():
                self._session = self._stack.enter_context(start())
            self._name = name
        return self._session

    def close(self) -> None:
        self._name, self._session = "", None
        with same_environment():
            self._stack.close()


@contextmanager
def same_environment() -> Iterator[None]:
    """Take back what a session sets for as long as it is open, which here is longer than any test."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def worker_spark() -> Iterator[WorkerSpark]:
    made = WorkerSpark()
    yield made
    made.close()


@pytest.fixture(scope="module")
def spark(worker_spark: WorkerSpark) -> object:
    """A session that many modules share."""
    return worker_spark.open("tables", lambda: session(SMALL, "tests"))


@pytest.fixture(scope="module")
def room_for_spark(worker_spark: WorkerSpark) -> None:
    """Close what is shared, for tests that start a session in this process in their own way."""
    worker_spark.close()


@pytest.fixture
def own_servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def make_server(own_servers: ExitStack, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Makes a server of a kind that goes with the test.  Its files are in memory, but for those of proofs, which may
    fill gigabytes, and where a disk is what matters (`on_disk`)."""
    small = request.node.get_closest_marker("proof") is None

    def make(kind: Callable[..., Any], *, on_disk: bool = False, **options: Any) -> Any:
        with files_in_memory() if small and not on_disk else nullcontext():
            server = kind(**options)
        return own_servers.enter_context(server)

    return make


@pytest.fixture
def make_mariadb(make_server: Callable[..., Any]) -> Callable[..., MariaDb]:
    """`make_mariadb(extra=["--max-binlog-size=1M"], durable=True)`: a running server of the test's own."""
    return partial(make_server, MariaDb)


@pytest.fixture
def make_mysql(make_server: Callable[..., Any]) -> Callable[..., MySql]:
    return partial(make_server, MySql)


@pytest.fixture
def make_postgres(make_server: Callable[..., Any]) -> Callable[..., Postgres]:
    return partial(make_server, Postgres)


@pytest.fixture
def make_kafka(own_servers: ExitStack) -> Callable[..., Kafka]:
    """`make_kafka(extra=["message.max.bytes=100000"], security="scram")`."""
    return lambda **options: own_servers.enter_context(Kafka(**options))


@pytest.fixture
def make_workers(make_rig: Callable[..., Rig], kafka: Broker) -> Iterator[Callable[..., Workers]]:
    """`make_workers(mariadb, postgres, "name", 3, batch_rows=200)`: a rig, and places for three workers."""
    with ExitStack() as stack:

        def make(source: Server, target: Server, name: str, count: int, **options: Any) -> Workers:
            rig = make_rig(source, target, name, log=kafka.url(), lanes=options.pop("lanes", 2), **options)
            return stack.enter_context(Workers(rig, [f"w{number}" for number in range(1, count + 1)]))

        yield make


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[Callable[..., Rig]]:
    """`make_rig(mariadb, postgres, "name", lanes=4, http="…")`: a schema at both ends, and a feed between them.

    Two lanes, if nothing else is said: each costs a session in each run.
    """
    with ExitStack() as stack:

        def make(source: Server, target: Server, name: str, **options: Any) -> Rig:
            rig = Rig(source, target, tmp_path, name, **{"lanes": 2, **options})
            stack.callback(rig.close)
            return rig

        yield make
