"""Servers that accept and never speak, and wires that fall silent: each command ends, a run goes on when they speak.

`connect_timeout` and `read_timeout` of the URLs are short here; what is silent is silent for good, so no figure of time
is tested but the bound of each command.
"""

import asyncio
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from pymysql.err import OperationalError

from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import MariaDb, Postgres, Server
from bench.harness.servers.kafka import Kafka
from bench.harness.servers.place import free_port
from bench.harness.tidelock import Feed, sample
from bench.harness.wire import Way, Wire
from bench.harness.workers import Workers
from tidelock.adapters.config.url import parse
from tidelock.adapters.kafka.connection import LogError, reach
from tidelock.adapters.mysql.connection import connect, reader_endpoint, rows
from tidelock.adapters.mysql.target.session import StatementFailed, open_session
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source_errors import Unreachable
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS
from tidelock.adapters.postgres.target.session import SessionSettings
from tidelock.adapters.postgres.target.session import TargetSession as PostgresSession
from tidelock.adapters.wiring.session import session

SHORT = "connect_timeout=1&read_timeout=1"
COMMAND_SECONDS = 60.0
COMMANDS = [
    ("check",), ("run",), ("run", "--until-caught-up"), ("status",), ("init",), ("init", "--apply"), ("verify",),
    ("copy",), ("rows", "list"), ("ddl", "show"), ("pause",), ("resume",), ("repair",),
]  # fmt: skip
SOME_COMMANDS = [("check",), ("run",), ("status",), ("init", "--apply"), ("verify",)]  # all others ask only the target


@pytest.fixture(scope="module")
def deaf() -> Iterator[int]:
    """The port of a listener that accepts and never speaks."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        accepted = []

        def accept() -> None:
            while True:
                try:
                    accepted.append(listener.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for one in accepted:
            one.close()


def with_port(url: str, port: int) -> str:
    place = parse(url, Path())
    return url.replace(f":{place.port}/", f":{port}/", 1) + f"?{SHORT}"


@pytest.mark.proof
@pytest.mark.parametrize("end", ["source", "target mysql", "target postgresql"])
def test_every_command_ends(end: str, deaf: int, mariadb: MariaDb, postgres: Postgres, tmp_path: Path) -> None:
    source, target = f"{mariadb.url()}?{SHORT}", f"{postgres.url()}?{SHORT}"
    if end == "source":
        source = with_port(mariadb.url(), deaf)
    else:
        target = with_port((mariadb if end == "target mysql" else postgres).url(), deaf)
    feed = Feed("silent", source, target, "nobody").write(tmp_path)
    commands = COMMANDS if end == "target mysql" else SOME_COMMANDS
    with ThreadPoolExecutor(4) as several:
        all_said = several.map(lambda words: tidelock(*words, str(feed), seconds=COMMAND_SECONDS), commands)
        for words, said in zip(commands, all_said, strict=True):
            assert said.code != 0 or words == ("init",) or end == "source", words  # not all ask the source
            assert "Traceback" not in said.err, words


def test_a_worker_ends_where_kafka_does_not_speak(deaf: int, mariadb: MariaDb, tmp_path: Path) -> None:
    log = {"log": f"kafka://127.0.0.1:{deaf}"}
    feed = Feed("silent", mariadb.url(), mariadb.url(), "nobody", options=log).write(tmp_path)
    said = tidelock("worker", str(feed), seconds=COMMAND_SECONDS)
    assert said.code != 0 and "Traceback" not in said.err


@pytest.mark.proof
async def test_sessions_are_given_up_where_nothing_comes(deaf: int, mariadb: MariaDb) -> None:
    place = parse(with_port(mariadb.url(), deaf), Path())
    with pytest.raises(Unreachable):
        connect(reader_endpoint(place))
    with pytest.raises(OperationalError):
        await open_session(place, 10)
    with pytest.raises(LogError, match=r"127\.0\.0\.1"):
        await reach(parse(f"kafka://127.0.0.1:{deaf}", Path()))


def test_a_statement_that_the_server_works_on_is_waited_for(mariadb: MariaDb) -> None:
    """Three times as long as an answer may be missing."""
    connection = connect(reader_endpoint(parse(f"{mariadb.url()}?{SHORT}", Path())))
    assert rows(connection, "SELECT SLEEP(3)") == [(0,)]
    connection.close()


@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
async def test_a_targets_session_waits_for_work_and_not_for_silence(kind: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(kind)
    with Wire(server.port) as wire:
        place = parse(with_port(server.url(), wire.port), Path())
        if kind == "mariadb":
            session = await open_session(place, 10)
            await session.ask("SELECT SLEEP(3)")
            wire.silence()
            with pytest.raises(StatementFailed):
                await session.ask("SELECT 1")
            assert not session.alive
        else:
            other = await PostgresSession.open(SessionSettings(place, "silence", True, 10))
            await other.run(["SELECT pg_sleep(3)"])
            wire.silence()
            with pytest.raises(SERVER_ERRORS):
                await other.run(["SELECT 1"])
            assert not other.alive


BOTH, ANSWERS = (Way.THERE, Way.BACK), (Way.BACK,)


@pytest.mark.parametrize(
    ("end", "ways"),
    [
        pytest.param("source", BOTH, id="source-both ways"),
        pytest.param("target mariadb", ANSWERS, id="target mariadb-answers only"),
        pytest.param("target postgres", BOTH, id="target postgres-both ways", marks=pytest.mark.proof),
        pytest.param("source", ANSWERS, id="source-answers only", marks=pytest.mark.proof),
        pytest.param("target mariadb", BOTH, id="target mariadb-both ways", marks=pytest.mark.proof),
        pytest.param("target postgres", ANSWERS, id="target postgres-answers only", marks=pytest.mark.proof),
    ],
)
def test_a_run_outlives_a_silence(
    end: str,
    ways: tuple[Way, ...],
    mariadb: MariaDb,
    postgres: Postgres,
    make_mariadb: Callable[..., MariaDb],
    make_rig: Callable[..., Rig],
) -> None:
    """Long enough that connections are given up meanwhile, and new ones do not come about."""
    target: Server = make_mariadb() if end == "target mariadb" else postgres
    rig = make_rig(mariadb, target, "silence", lanes=2, http=f"127.0.0.1:{free_port()}")
    rig.table("t", "id bigint PRIMARY KEY, note text")
    far = mariadb if end == "source" else target
    with Wire(far.port) as wire:
        url = "source_url" if end == "source" else "target_url"
        setattr(rig, url, with_port(getattr(rig, url), wire.port))
        process = rig.run()
        rig.at_source("INSERT INTO t VALUES (1, 'before')")
        until(lambda: len(rig.rows("SELECT id FROM t")) == 1, "the first row", 60)
        wire.silence(*ways)
        rig.at_source("INSERT INTO t VALUES (2, 'meanwhile')")

        def told() -> bool:
            process.check()
            now = sample(rig.options["http"])
            return now is not None and bool(now.hindrances)

        until(told, "the run says that it waits", 60)
        wire.speak()
        until(lambda: len(rig.rows("SELECT id FROM t")) == 2, "the second row", 60)
        process.stop()
        assert not rig.differences().total


class WithoutEnd(Wire):
    """Forwards what the server says, and not that it has closed the connection."""

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, speaks: asyncio.Event) -> None:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
        await asyncio.Event().wait()


async def test_a_server_that_said_farewell_and_not_yet_closed_is_away(postgres: Postgres) -> None:
    """An hour of chaos met it: the driver calls the next statement an internal error, and a run ended with a trace."""
    with WithoutEnd(postgres.port) as wire:
        async with session(parse(with_port(postgres.url(), wire.port), Path())) as target:
            ((pid,),) = await target.fetch("SELECT pg_backend_pid()")
            gone = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}"
            async with session(parse(postgres.url(), Path())) as other:
                await other.fetch(f"SELECT pg_terminate_backend({pid})")
                while (await other.fetch(gone))[0][0]:  # noqa: ASYNC110  the server tells nobody
                    await asyncio.sleep(0.02)
            with pytest.raises(TargetError) as told:
                await target.fetch("SELECT 1")
            assert told.value.unreachable, str(told.value)


# ------------------------------------------------------------------ workers over Kafka


class Trial:
    """One worker that serves `http`, and a table."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        rig.options |= {"http": f"127.0.0.1:{free_port()}", "ready_seconds": 2}
        rig.table("t", "id bigint PRIMARY KEY, note text")

    def ready(self) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.rig.options['http']}/readyz", timeout=5.0) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def arrived(self, rows: int) -> bool:
        return len(self.rig.rows("SELECT id FROM t")) == rows

    @contextmanager
    def silence(self, wire: Wire, words: str) -> Iterator[Workers]:
        """`words`: what `/readyz` says in it.  Before and after rows arrive, and it is ready."""
        with Workers(self.rig, ["w1"]) as workers:
            workers.start()
            self.rig.at_source("INSERT INTO t VALUES (1, 'before')")
            workers.until(lambda: self.arrived(1), "the first row")
            workers.until(lambda: self.ready()[0] == 200, "it is ready")
            wire.silence()
            self.rig.at_source("INSERT INTO t VALUES (2, 'meanwhile')")
            workers.until(lambda: self.ready()[0] == 503 and words in self.ready()[1], "it is not ready any more")
            yield workers
            wire.speak()
            workers.until(lambda: self.arrived(2), "the second row", 120)
            workers.until(lambda: self.ready()[0] == 200, "it is ready again", 120)
            self.rig.at_source("INSERT INTO t VALUES (3, 'after')")
            workers.until(lambda: self.arrived(3), "the third row")
            assert workers.stop() == [0], workers.said()
        assert not self.rig.differences().total


@pytest.mark.parametrize(
    ("end", "told"),
    [
        pytest.param("source", "waits for the source: ", marks=pytest.mark.proof),
        pytest.param("target postgres", "waits for the target: ", marks=pytest.mark.proof),
        pytest.param("target mariadb", "waits for the target: ", marks=pytest.mark.proof),
    ],
)
def test_a_worker_outlives_a_silence(
    end: str,
    told: str,
    mariadb: MariaDb,
    postgres: Postgres,
    kafka: Kafka,
    make_mariadb: Callable[..., MariaDb],
    make_rig: Callable[..., Rig],
) -> None:
    target: Server = make_mariadb() if end == "target mariadb" else postgres
    rig = make_rig(mariadb, target, "silence", lanes=2, log=kafka.url())
    trial = Trial(rig)
    side = end.partition(" ")[0]
    far = mariadb if side == "source" else target
    with Wire(far.port) as wire:
        direct = rig.source_url, rig.target_url
        setattr(rig, f"{side}_url", with_port(getattr(rig, f"{side}_url"), wire.port))
        with trial.silence(wire, f"the {side} has not answered") as workers:
            rig.source_url, rig.target_url = direct  # of who asks for the status
            workers.until(lambda: told in rig.command("status").out, "the status says it", 90)


@pytest.mark.proof
@pytest.mark.parametrize("seconds", [0, pytest.param(75, marks=pytest.mark.proof)])
def test_workers_outlive_a_silent_broker(
    seconds: int, mariadb: MariaDb, postgres: Postgres, make_rig: Callable[..., Rig]
) -> None:
    """For longer than the session of a consumer lives; the proof's, longer than any request is waited for."""
    broker = Kafka()
    with Wire(broker.port) as wire:
        names = f"CLIENT://127.0.0.1:{wire.port},INTERNAL://{broker.internal}"
        broker.extra = [f"advertised.listeners={names}"]
        with broker:
            trial = Trial(make_rig(mariadb, postgres, "broker", lanes=2, log=f"kafka://127.0.0.1:{wire.port}/"))
            with trial.silence(wire, "the log in Kafka has not answered"):
                said = trial.rig.command("status")
                assert f"kafka://127.0.0.1:{wire.port}" in said.out and "Traceback" not in said.err, said
                threading.Event().wait(seconds)
