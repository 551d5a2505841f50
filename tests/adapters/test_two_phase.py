"""XA transactions in two phases on real logs: the rows come where the log commits them, wherever they were prepared."""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.harness.decode import SERVER_ID, read
from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, MySql, Postgres
from tidelock.adapters.config.url import parse
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog import decoder as decoder_module
from tidelock.adapters.mysql.binlog import log_ends
from tidelock.adapters.mysql.binlog import prepares as prepares_module
from tidelock.adapters.mysql.connection import Address
from tidelock.adapters.ports.capture_messages import CaptureOrder, Failed
from tidelock.adapters.ports.source_errors import PurgedPosition
from tidelock.adapters.runtime.progress import Sample, one_line
from tidelock.adapters.web.metrics import metrics
from tidelock.adapters.wiring.capture import CaptureProcess
from tidelock.engine.capture.mapping import Rule
from tidelock.engine.model.log_batch import SourceChunk, SourceTransaction
from tidelock.engine.model.records import Position, TableName

Origin = MariaDb | MySql


class Source:
    """`database` has two tables, `t` and `other`."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.endpoint = Address(origin.host, origin.port, origin.user, origin.password)
        self.database = origin.database("two_phase")
        self.connect()
        self.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(300))")
        self.run("CREATE TABLE other (id INT PRIMARY KEY)")

    def connect(self) -> None:
        self.session = server.connect(self.endpoint)
        self.run(f"USE {self.database}")

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        return [server.rows(self.session, sql) for sql in statements][-1]

    def prepare(self, xid: str, *statements: str) -> None:
        """In a session of its own: one that has prepared can do nothing else, and others only when it is gone."""
        session = server.connect(self.endpoint)
        number = session.thread_id()
        for sql in (f"USE {self.database}", f"XA START {xid}", *statements, f"XA END {xid}", f"XA PREPARE {xid}"):
            server.rows(session, sql)
        session.close()
        until(lambda: all(id_ != number for id_, *_ in self.run("SHOW PROCESSLIST")), "the end of the session")

    def here(self) -> Position:
        return log_ends.current_position(self.session)

    def read(
        self,
        start: Position,
        *,
        chunk_rows: int = 500,
        wanted: str = "t",
        is_marker: Callable[[TableName], bool] = lambda table: False,
    ) -> list[SourceChunk]:
        return list(
            read(
                self.endpoint,
                start,
                self.here(),
                wanted=lambda table: table == TableName(self.database, wanted),
                is_marker=is_marker,
                chunk_rows=chunk_rows,
            )
        )


def transactions(chunks: list[SourceChunk]) -> list[SourceTransaction]:
    return [one for chunk in chunks for one in chunk.transactions]


def keys(chunks: list[SourceChunk]) -> list[int]:
    return [row.after[0] for one in transactions(chunks) for row in one.rows if row.after is not None]


@pytest.fixture(params=["compiled", "python"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Form of the code that takes usual events."""
    if request.param == "python":
        monkeypatch.setattr(decoder_module, "UsualEvents", None)


@pytest.fixture(params=["kept", "read again"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place where a prepared transaction waits: in memory, or in the log if it is too large for that."""
    if request.param == "read again":
        monkeypatch.setattr(prepares_module, "KEPT_BYTES", 0)


@pytest.fixture(params=["mariadb", "mysql"])
def source(request: pytest.FixtureRequest, form: None) -> Iterator[Source]:
    made = Source(request.getfixturevalue(request.param))
    yield made
    made.session.close()


@pytest.fixture(params=["mariadb", "mysql"])
def own(
    request: pytest.FixtureRequest, make_mariadb: Callable[..., MariaDb], make_mysql: Callable[..., MySql]
) -> Callable[..., Source]:
    """A source whose server is the test's own."""
    make = make_mariadb if request.param == "mariadb" else make_mysql
    options = {"mariadb": "--log-bin-compress=ON", "mysql": "--binlog-transaction-compression=ON"}
    return lambda compressed=False: Source(make(extra=[options[request.param]] if compressed else []))


@pytest.mark.usefixtures("memory")
def test_the_rows_come_where_they_are_committed(source: Source) -> None:
    """Interleaved with each other and with others; one is rolled back, one has only rows of another table."""
    start = source.here()
    other = "INSERT INTO other VALUES (2)"  # what comes last does not decide whether rows are wanted
    source.prepare("'a'", "INSERT INTO t VALUES (1, 'x'), (2, 'y')", "UPDATE t SET v = 'z' WHERE id = 2", other)
    source.prepare("'b','branch',7", "INSERT INTO t VALUES (3, 'x')")
    source.prepare("'a','b'", "INSERT INTO t VALUES (4, 'rolled back')")
    source.prepare("'others'", "INSERT INTO other VALUES (1)")
    source.run("INSERT INTO t VALUES (5, 'between')")
    source.run("XA COMMIT 'b','branch',7")
    source.run("XA ROLLBACK 'a','b'", "XA COMMIT 'others'")
    before_a = source.here()
    source.run("XA COMMIT 'a'", "INSERT INTO t VALUES (6, 'after')")
    found = source.read(start)
    assert keys(found) == [5, 3, 1, 2, 2, 6]
    committed = transactions(found)
    numbers = [one.number for one in committed]
    assert numbers == sorted(numbers) and len(set(numbers)) == 4, "each has the identity of its commit"
    (a,) = (one for one in committed if len(one.rows) == 3)
    assert [row.ordinal for row in a.rows] == [0, 1, 2] and a.ordinals == 4 and a.complete
    assert (a.file, a.end) > (before_a.file, before_a.offset)
    assert found[-1].last == source.here()


@pytest.mark.usefixtures("memory")
def test_one_phase_is_a_transaction(source: Source) -> None:
    start = source.here()
    source.run("XA START 'b'", "INSERT INTO t VALUES (1, '')", "XA END 'b'", "XA COMMIT 'b' ONE PHASE")
    source.run("XA START 'c'", "INSERT INTO t VALUES (2, '')", "XA END 'c'", "XA ROLLBACK 'c'")
    assert keys(source.read(start)) == [1]


def test_it_is_found_again_from_every_place(source: Source) -> None:
    """A reader that begins between prepare and commit, or in the middle of the rows, finds them in the log."""
    start = source.here()
    places = [start]
    for n in range(3):
        values = ",".join(f"({n * 100 + i}, REPEAT('x', 200))" for i in range(40))
        source.prepare(f"'it','{n}'", f"INSERT INTO t VALUES {values}", f"DELETE FROM t WHERE id = {n * 100}")
        places.append(source.here())
        if n == 1:
            source.run("FLUSH BINARY LOGS")
    for n in (1, 0, 2):
        source.run(f"XA COMMIT 'it','{n}'")
        places.append(source.here())
    whole = source.read(start, chunk_rows=16)
    assert [row.ordinal for one in transactions(whole) for row in one.rows] == [*range(41)] * 3
    assert any(chunk.last.rows for chunk in whole), "it comes in parts"
    expected = [image for one in transactions(whole) for image in images(one)]
    for place in places:
        if place.order <= places[3].order:
            assert [image for one in transactions(source.read(place)) for image in images(one)] == expected
    taken = 0
    for chunk in whole:
        taken += sum(len(one.rows) for one in chunk.transactions)
        for place in (chunk.last, Position(chunk.last.file, chunk.last.offset, chunk.last.rows)):
            rest = source.read(place, chunk_rows=16)
            assert [image for one in transactions(rest) for image in images(one)] == expected[taken:]
            assert rest[-1].last.gtids == whole[-1].last.gtids


def images(transaction: SourceTransaction) -> list[tuple[object, ...]]:
    return [(transaction.source, transaction.number, r.before, r.after, r.ordinal) for r in transaction.rows]


@pytest.mark.parametrize("compressed", [pytest.param(False, marks=pytest.mark.proof), True])
def test_the_server_restarts_and_the_log_goes_on_in_other_files(
    own: Callable[..., Source], compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = own(compressed)
    if compressed:
        monkeypatch.setattr(prepares_module, "KEPT_BYTES", 0)
    start = source.here()
    source.prepare("'old'", "INSERT INTO t VALUES (1, REPEAT('x', 300))")
    source.run("INSERT INTO t VALUES (2, '')", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    source.prepare("'young'", "INSERT INTO t VALUES (3, '')")
    between = source.here()
    source.session.close()
    source.origin.restart()
    source.connect()
    assert len(source.run("XA RECOVER")) == 2
    source.run("XA COMMIT 'old'", "XA COMMIT 'young'")
    assert keys(source.read(start)) == [2, 1, 3]
    assert keys(source.read(between)) == [1, 3]
    # The name is free again: the last one prepared counts.
    source.prepare("'old'", "INSERT INTO t VALUES (4, '')")
    again = source.here()
    source.run("XA COMMIT 'old'")
    assert keys(source.read(again)) == [4]
    source.session.close()


def test_the_log_of_the_prepare_is_purged(own: Callable[..., Source]) -> None:
    source = own()
    source.prepare("'gone'", "INSERT INTO t VALUES (1, '')")
    start = source.here()
    source.run("XA COMMIT 'gone'", "FLUSH BINARY LOGS")
    with_its_log = keys(source.read(start))
    assert with_its_log == [1]
    source.prepare("'gone'", "INSERT INTO t VALUES (2, '')")
    source.run("FLUSH BINARY LOGS")
    start = source.here()

    def purged() -> bool:
        source.run(f"PURGE BINARY LOGS TO '{source.here().file}'")
        return len(source.run("SHOW BINARY LOGS")) == 1

    until(purged, "the log of the prepare is gone")  # MariaDB first logs a checkpoint in the background
    source.run("XA COMMIT 'gone'")
    with pytest.raises(PurgedPosition, match=r"X'676f6e65',X'',1 is committed.*prepared before") as caught:
        source.read(start)
    assert caught.value.position.startswith(start.file)
    source.session.close()


def test_the_receipt_of_a_replicated_one(source: Source) -> None:
    """The mark tells the loop filter, in the first part alone."""
    source.run("CREATE TABLE tidelock_progress (id INT PRIMARY KEY)")
    start = source.here()
    marks = "INSERT INTO tidelock_progress VALUES (9)"
    source.prepare("'marked'", marks, "INSERT INTO t VALUES (1, '')", "INSERT INTO t VALUES (2, '')")
    source.run("XA COMMIT 'marked'")
    parts = transactions(source.read(start, chunk_rows=1, is_marker=lambda table: table.table == "tidelock_progress"))
    assert [len(part.marks) for part in parts if part.rows] == [1, 0]
    assert [row.after[0] for part in parts for row in part.rows if row.after] == [1, 2]


class Held:
    """Two-phase transactions of a rig's schema, each prepared in a session of its own."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    def prepare(self, xid: str, *statements: str) -> None:
        with contextlib.closing(self.rig.source.connect(self.rig.schema)) as session:
            for sql in (f"XA START '{xid}'", *statements, f"XA END '{xid}'", f"XA PREPARE '{xid}'"):
                session.execute(sql, ())


@pytest.mark.parametrize(("kind", "consistency"), [("mariadb", "row"), ("mysql", "transaction")])
def test_a_feed_is_killed_between_prepare_and_commit(
    kind: str, consistency: str, make_rig: Callable[..., Rig], postgres: Postgres, request: pytest.FixtureRequest
) -> None:
    """Its checkpoint is behind the prepares by then; a new log file lies between, and another feed's rows."""
    rig = make_rig(request.getfixturevalue(kind), postgres, "prepared", lanes=4, batch_rows=50, consistency=consistency)
    rig.table("account", "id bigint PRIMARY KEY, v int UNIQUE")
    rig.table("entry", "id bigint PRIMARY KEY, account bigint")
    held = Held(rig)
    rig.at_source("INSERT INTO account VALUES (1, 1), (2, 2), (3, 3)")
    held.prepare("swap", "UPDATE account SET v = -1 WHERE id = 1", "UPDATE account SET v = 1 WHERE id = 2")
    many = ",".join(f"({n}, 1)" for n in range(700))
    held.prepare("many", f"INSERT INTO entry VALUES {many}", "DELETE FROM entry WHERE id < 9")
    held.prepare("undone", "DELETE FROM account WHERE id = 3")
    rig.catch_up()
    assert rig.rows(f"SELECT CAST(count(*) AS text) FROM {rig.schema}.entry") == [("0",)]
    rig.at_source("FLUSH BINARY LOGS", "INSERT INTO account VALUES (4, 4)")
    process = rig.run()
    until(lambda: rig.rows(f"SELECT CAST(count(*) AS text) FROM {rig.schema}.account") == [("4",)], "row 4")
    process.kill()
    rig.at_source("XA COMMIT 'many'", "XA ROLLBACK 'undone'")
    process = rig.run()
    until(lambda: rig.rows(f"SELECT CAST(count(*) AS text) FROM {rig.schema}.entry") == [("691",)], "the rows of many")
    process.kill()
    rig.at_source("XA COMMIT 'swap'", "UPDATE account SET v = 7 WHERE id = 3", "INSERT INTO account VALUES (5, 2)")
    rig.catch_up()
    rig.assert_exact()


async def test_a_prepare_without_an_answer_is_told(source: Source) -> None:
    """By the capture process, and that it is answered then, and from there in words and as a metric."""
    start = source.here()
    source.prepare("'forgotten'", "INSERT INTO t VALUES (1, '')")
    order = CaptureOrder(
        parse(source.origin.url(), Path()), SERVER_ID, (Rule(pattern := f"{source.database}.*", pattern),), "tidelock",
        "", start, heartbeat_seconds=0.1, patience_seconds=0.0,
    )  # fmt: skip
    capture = CaptureProcess(order.source)
    try:
        await capture.begin(order)
        async with asyncio.timeout(30):
            while not capture.unanswered.xid:
                assert not isinstance(await capture.next(), Failed)
            assert capture.unanswered.xid == "X'666f72676f7474656e',X'',1"
            source.run("XA ROLLBACK 'forgotten'")
            while capture.unanswered.xid:
                assert not isinstance(await capture.next(), Failed)
    finally:
        await capture.stop()


OLD = "SET TIMESTAMP = UNIX_TIMESTAMP() - 700"
"""The log says then that what follows was prepared so long ago."""


@pytest.mark.proof
@pytest.mark.parametrize(
    "kinds", [("mariadb", "postgres"), pytest.param(("mysql", "mariadb"), marks=pytest.mark.proof)], ids="-".join
)
def test_status_tells_of_a_prepare_without_an_answer(
    kinds: tuple[str, str], make_rig: Callable[..., Rig], request: pytest.FixtureRequest
) -> None:
    """By what the run leaves at the target: it serves no `http`."""
    rig = make_rig(*map(request.getfixturevalue, kinds), "forgotten")
    rig.table("account", "id bigint PRIMARY KEY, v int")

    def told() -> str:
        process.check()
        said = rig.command("status", "@", "--json").json
        assert (said["prepared_seconds"] >= 700) is bool(said["prepared"])
        return str(said["prepared"])

    process = rig.run()
    Held(rig).prepare("forgotten", OLD, "INSERT INTO account VALUES (1, 1)")
    until(lambda: told() == "X'666f72676f7474656e',X'',1", "the status tells it")
    words = r"XA X'666f72676f7474656e',X'',1 is prepared at the source for 1[12] min"
    assert re.search(words, rig.command("status").out)
    rig.at_source("XA COMMIT 'forgotten'")
    until(lambda: not told(), "it is answered")
    assert "prepared" not in rig.command("status").out
    Held(rig).prepare("again", OLD, "INSERT INTO account VALUES (2, 2)")
    until(lambda: bool(told()), "the status tells the next one")
    process.stop()
    assert not rig.command("status", "@", "--json").json["prepared"], "nobody reads the log"
    rig.at_source("XA COMMIT 'again'")
    rig.catch_up()
    rig.assert_exact()


def test_how_an_unanswered_prepare_is_shown() -> None:
    sample = Sample(state="running", prepared="X'61',X'',1", prepared_seconds=660.0)
    assert "XA X'61',X'',1 is prepared at the source for 11 min" in one_line(sample)
    assert 'tidelock_prepared_seconds{feed="shop"} 660.0' in metrics(sample, "shop")
    assert "prepared" not in one_line(Sample()) + metrics(Sample(), "shop")
