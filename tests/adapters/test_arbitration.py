"""A sink that decides about a change: asked twice it decides once, and what it tells is so when it commits."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeAlias

import msgspec
import pytest

from bench.harness.rig import until
from bench.harness.servers import Postgres, Server
from bench.harness.session import Session, connect
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.mysql.target.sink import MySqlSink
from tidelock.adapters.postgres.target import arbitration
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.batch.checked_steps import image_steps, image_steps_in_order
from tidelock.engine.batch.merge import Ranks
from tidelock.engine.batch.parked_rows import parked_row
from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.conflict_options import GroupWords, TableWords
from tidelock.engine.model.records import Column, Kind, Position, Row, Shape, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, Decided, TakenOver
from tidelock.engine.protocol.steps import DecideChange, RowsToTell, Step

PROOF = pytest.mark.proof
SERVERS = ["postgres", "mariadb", pytest.param("mysql", marks=PROOF)]
ADDED = TableWords("arbiter", groups=(GroupWords(("n",), "delta"),))


class Arbiter:
    """A target with a table of a key, a unique value and a number, and a sink there."""

    def __init__(self, server: Server) -> None:
        self.postgres = isinstance(server, Postgres)
        self.server, self.database = server, server.database("arbiter")
        self.books = "books" if self.postgres else f"{self.database}_books"
        self.session = self.another()
        for statement in create_statements("postgres" if self.postgres else "mysql", self.books):
            self.session.send(statement)
        self.name = TableName("public" if self.postgres else self.database, "t")
        self.session.send("CREATE TABLE t (id int PRIMARY KEY, u varchar(20) UNIQUE, n int)")
        options = SinkOptions(
            "up", schema=self.books, lanes=2, sites=Sites("us", "eu"), arbitrates=True, lock_timeout_seconds=30
        )
        make = PostgresSink if self.postgres else MySqlSink
        self.sink: Any = make(server.url(self.database), options)
        self.counters = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Begin work of the sink, in a thread of its own."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def take_over(self) -> TakenOver:
        return self.begin(self.sink.take_over([self.name], Position("bin.000001", 4))).result()

    def apply(self, batch: ApplyBatch) -> Any:
        return self.begin(self.sink.apply(batch)).result()

    def close(self) -> None:
        self.begin(self.sink.close()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.session.close()

    def another(self) -> Session:
        return connect(self.server.url(self.database))

    def own(self) -> None:
        taken = self.take_over()
        columns = (Column("id", Kind.INT), Column("u", Kind.TEXT), Column("n", Kind.INT))
        self.epoch = taken.epoch
        self.table = Binding(0, Shape(TableName("src", "t"), columns, ("id",)), taken.tables[self.name])

    def batch(self, **more: Any) -> ApplyBatch:
        return ApplyBatch(EffectId(self.epoch, next(self.counters)), 0, [], b"covered", 1, **more)

    def question(self, before: Row | None, after: Row | None, words: TableWords = ADDED) -> DecideChange:
        change = Change(self.table, before, after, "0-1", next(self.counters), 0)
        parked = parked_row(change, "differs", EffectId(1, 1), 0)
        return DecideChange(self.table, before, after, words, parked)

    def changes(self, *images: tuple[Row | None, Row | None]) -> list[Change]:
        return [Change(self.table, *pair, "0-1", next(self.counters), 0) for pair in images]

    def suspects(self, steps: list[Step]) -> list[Row]:
        """The keys that are told of a batch which is refused."""
        batch = ApplyBatch(EffectId(self.epoch, next(self.counters)), 0, steps, b"covered", 1, scan=True)
        answer = self.apply(batch)
        assert isinstance(answer, BatchFailed), answer
        assert all(table == self.name for table, _ in answer.suspects)
        return sorted(key for _, key in answer.suspects)

    def rows(self) -> list[tuple[Any, ...]]:
        return self.session.rows("SELECT CONCAT(id, ''), u, CONCAT(n, '') FROM t ORDER BY id")

    def count(self, table: str) -> int:
        return int(self.session.rows(f"SELECT CONCAT(count(*), '') FROM {self.books}.tidelock_{table}")[0][0])

    def waits(self) -> bool:
        """Does a session wait for a lock of another?"""
        if self.postgres:
            return bool(self.session.rows("SELECT 1 FROM pg_locks WHERE NOT granted"))
        return bool(self.session.rows("SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"))


Made: TypeAlias = Callable[[str], Arbiter]


@pytest.fixture
def made(request: pytest.FixtureRequest) -> Iterator[Made]:
    found: list[Arbiter] = []

    def make(server: str) -> Arbiter:
        found.append(Arbiter(request.getfixturevalue(server)))
        return found[-1]

    yield make
    for one in found:
        one.close()


@pytest.mark.parametrize("server", SERVERS)
def test_the_same_question_is_decided_once(server: str, made: Made) -> None:
    """As after a connection that was lost while it committed."""
    at = made(server)
    at.own()
    at.session.send("INSERT INTO t VALUES (1, 'a', 110), (2, 'b', 0)")
    adds = at.batch(decide=(at.question((1, "a", 100), (1, "a", 101)),))
    merged = BatchCommitted(adds.id, decided=(Decided(False, (("update_origin_differs", "merge"),)),))
    assert at.apply(adds) == merged
    parks = at.batch(decide=(at.question((2, "b", 1), (2, "b", 2), TableWords()),))
    parked = BatchCommitted(parks.id, decided=(Decided(True, (("update_origin_differs", "park"),)),))
    assert at.apply(parks) == parked
    assert at.apply(parks) == parked
    again = at.apply(adds)
    assert isinstance(again, BatchCommitted) and not again.decided[0].parked
    assert at.rows() == [("1", "a", "111"), ("2", "b", "0")]
    assert (at.count("parked"), at.count("conflicts")) == (1, 1)


@pytest.mark.parametrize("server", SERVERS)
def test_what_several_decisions_tell_is_told_as_it_stands_after_the_last(server: str, made: Made) -> None:
    at = made(server)
    at.own()
    at.session.send("INSERT INTO t VALUES (1, 'q', 110), (2, 'b', 0)")
    questions = (
        at.question((1, "a", 100), (1, "a", 101), TableWords("arbiter")),  # row 1 stays, and is told
        at.question((2, "b", 1), (2, "b", 2), TableWords()),
        at.question(None, (3, "q", 0), TableWords("arrival")),  # row 1 goes
    )
    batch = at.batch(decide=questions)
    differs, exists = "update_origin_differs", "insert_exists"
    kept, parked = Decided(False, ((differs, "verdict"),)), Decided(True, ((differs, "park"),))
    answer = BatchCommitted(batch.id, decided=(kept, parked, Decided(False, ((exists, "write"),))))
    assert at.apply(batch) == answer
    assert at.apply(batch).decided[:2] == answer.decided[:2], "asked again it decides no more"
    assert at.rows() == [("2", "b", "0"), ("3", "q", "0")]
    assert (at.count("parked"), at.count("conflicts")) == (1, 3)
    if not at.postgres:
        told = at.session.rows(f"SELECT row_key, image IS NULL FROM {at.books}.tidelock_verdicts ORDER BY ordinal")
        read = [(msgspec.msgpack.decode(bytes(key)), int(gone)) for key, gone in told]
        assert read == [({"id": "1"}, 1), ({"id": "2"}, 0)]


@pytest.mark.parametrize("server", SERVERS)
def test_that_there_is_no_row_is_told_only_while_nobody_can_insert_one(
    server: str, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arbitration, "LOCK_SECONDS", 30)
    at = made(server)
    at.own()
    at.session.send("INSERT INTO t VALUES (2, 'b', 0)")
    holder, writer = at.another(), at.another()
    holder.send("BEGIN")
    if at.postgres:  # who writes waits behind us, once row 1 was looked for and not found
        holder.send("LOCK TABLE t IN ROW EXCLUSIVE MODE")
    else:
        holder.rows("SELECT u FROM t WHERE id = 2 FOR UPDATE")
    batch = at.batch(told=(RowsToTell(at.table, [(1,), (2,)]),))
    telling = at.begin(at.sink.apply(batch))
    until(at.waits, "the look at row 2, or the lock of the table")
    writer.send("SET lock_timeout = '200ms'" if at.postgres else "SET SESSION innodb_lock_wait_timeout = 1")
    with pytest.raises(Exception, match=r"(?i)lock"):
        writer.send("INSERT INTO t VALUES (1, 'a', 0)")
    holder.send("ROLLBACK")
    assert telling.result() == BatchCommitted(batch.id)
    writer.send("INSERT INTO t VALUES (1, 'a', 0)")
    holder.close()
    writer.close()


@pytest.mark.parametrize("server", ["mariadb", pytest.param("mysql", marks=PROOF)])
def test_a_row_is_told_as_the_servers_own_log_has_it(server: str, made: Made) -> None:
    at = made(server)
    kinds = {
        "id": (Kind.DECIMAL, "decimal(10,2)"), "latin": (Kind.TEXT, "varchar(9) CHARACTER SET latin1"),
        "bytes": (Kind.BINARY, "varbinary(9)"), "f": (Kind.DOUBLE, "double"), "bits": (Kind.BIT, "bit(9)"),
        "at": (Kind.DATETIME, "datetime(3)"), "word": (Kind.ENUM, "enum('x','y')"), "nothing": (Kind.INT, "int"),
    }  # fmt: skip
    columns_told = ", ".join(f"{name} {type_}" for name, (_, type_) in kinds.items())
    at.session.send("DROP TABLE t")
    at.session.send(f"CREATE TABLE t ({columns_told}, PRIMARY KEY (id))")
    taken = at.take_over()
    columns = tuple(Column(name, kind, scale=2 if name == "id" else 0) for name, (kind, _) in kinds.items())
    at.epoch, at.table = taken.epoch, Binding(0, Shape(TableName("src", "t"), columns), taken.tables[at.name])
    moment = "2026-01-02 03:04:05.060"
    at.session.send(f"INSERT INTO t VALUES (1.5, 'ü', x'00ff', 0.1, b'101', '{moment}', 'y', NULL)")
    batch = at.batch(told=(RowsToTell(at.table, [("1.50",), ("7.00",)]),))
    assert at.apply(batch) == BatchCommitted(batch.id)
    (key, image), (other, none) = at.session.rows(
        f"SELECT row_key, image FROM {at.books}.tidelock_verdicts ORDER BY ordinal"
    )
    assert msgspec.msgpack.decode(bytes(key)) == {"id": "1.50"}
    assert msgspec.msgpack.decode(bytes(image)) == {
        "id": "1.50", "latin": b"\xfc", "bytes": b"\x00\xff", "f": "0.1", "bits": "5", "at": moment, "word": "y",
        "nothing": None,
    }  # fmt: skip
    assert (msgspec.msgpack.decode(bytes(other)), none) == ({"id": "7.00"}, None)


@pytest.mark.parametrize("server", SERVERS)
def test_a_batch_that_is_refused_is_told_with_the_rows_in_conflict(server: str, made: Made) -> None:
    at = made(server)
    at.own()
    at.session.send("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 9), (4, 'd', 4), (6, 'held', 6)")
    at.session.send("INSERT INTO t VALUES (8, NULL, 9), (9, '', 9)")
    changes = at.changes(
        ((1, "a", 1), (1, "a", 2)),
        ((2, "b", 1), (2, "b", 2)),  # it is another
        ((3, "c", 1), (3, "c", 2)),  # it is not there
        (None, (4, "dd", 4)),  # it is there
        (None, (5, "held", 5)),  # another row has its value
        ((8, None, 8), None),  # it is another
        ((9, "", 9), None),
        (None, (7, None, 7)),
        ((7, None, 7), (7, "new", 7)),
        ((1, "a", 2), (1, "aa", 3)),
    )
    ranks = Ranks({at.name: at.table.target}, {})
    in_conflict = [(2,), (3,), (4,), (5,), (8,)]
    assert at.suspects(image_steps(changes, ranks)) == in_conflict
    assert at.suspects(image_steps_in_order(changes)) == in_conflict
    moves = at.changes(((9, "", 9), (2, "i", 9)), ((6, "held", 6), (10, "h", 6)), ((10, "h", 6), (11, "b", 6)))
    assert at.suspects(image_steps_in_order(moves)) == [(2,), (11,)], "a key, and a value"
    assert len(at.rows()) == 6


@pytest.mark.parametrize("server", ["mariadb"])
def test_keys_that_this_server_does_not_join_are_looked_for_one_by_one(server: str, made: Made) -> None:
    at = made(server)
    at.session.send("DROP TABLE t")
    at.session.send("CREATE TABLE t (id varchar(9) CHARACTER SET latin1 PRIMARY KEY, n int)")
    at.session.send("INSERT INTO t VALUES ('ü', 1), ('ö', 9), ('ä', 1)")
    taken = at.take_over()
    shape = Shape(TableName("src", "t"), (Column("id", Kind.TEXT), Column("n", Kind.INT)))
    at.epoch, at.table = taken.epoch, Binding(0, shape, taken.tables[at.name])
    changes = at.changes((("ü", 1), ("ü", 2)), (("ö", 1), ("ö", 2)), (None, ("ä", 1)), (None, ("ß", 1)))
    assert at.suspects(image_steps_in_order(changes)) == [("ä",), ("ö",)]
