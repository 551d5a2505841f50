"""The reader on real logs: chunks, positions, resume, rotation, large and compressed transactions, statements."""

import contextlib
import itertools
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.harness.decode import SERVER_ID, read
from bench.harness.servers import MariaDb, MySql
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog import decoder as decoder_module
from tidelock.adapters.mysql.binlog import log_ends
from tidelock.adapters.mysql.binlog.event_handlers import EventHandlers
from tidelock.adapters.mysql.binlog.reader import BinlogReader
from tidelock.adapters.mysql.connection import Address
from tidelock.adapters.ports.source_errors import Unreachable
from tidelock.engine.model.log_batch import SourceChunk, SourceTransaction
from tidelock.engine.model.records import Position, RowChange, TableName

Origin = MariaDb | MySql


def endpoint_of(origin: Origin) -> Address:
    return Address(origin.host, origin.port, origin.user, origin.password)


class Source:
    def __init__(self, origin: Origin, prefix: str = "binlog_reader") -> None:
        self.endpoint = endpoint_of(origin)
        self.database = origin.database(prefix)
        self.session = server.connect(self.endpoint)
        self.is_mariadb = server.flavor(self.session).is_mariadb
        self.run(f"USE {self.database}")

    def run(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        return server.rows(self.session, sql, *args)

    def here(self) -> Position:
        return log_ends.current_position(self.session)

    def read(
        self,
        start: Position,
        end: Position | None = None,
        *,
        chunk_rows: int = 500,
        wanted: Callable[[TableName], bool] | None = None,
        is_marker: Callable[[TableName], bool] = lambda table: False,
    ) -> list[SourceChunk]:
        return list(
            read(
                self.endpoint,
                start,
                end or self.here(),
                wanted=wanted or (lambda table: table.schema == self.database),
                is_marker=is_marker,
                chunk_rows=chunk_rows,
            )
        )


@pytest.fixture(
    params=[
        pytest.param("mariadb-compiled", marks=pytest.mark.proof),  # feeds of all other tests read so
        "mariadb-python",
        "mysql-compiled",
        pytest.param("mysql-python", marks=pytest.mark.proof),
    ]
)
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Source]:
    """A server, and the form of the code that takes usual events."""
    kind, _, form = request.param.partition("-")
    if form == "python":
        monkeypatch.setattr(decoder_module, "UsualEvents", None)
    made = Source(request.getfixturevalue(kind))
    yield made
    made.session.close()


def transactions(chunks: list[SourceChunk]) -> list[SourceTransaction]:
    return [transaction for chunk in chunks for transaction in chunk.transactions]


def rows(chunks: list[SourceChunk]) -> list[RowChange]:
    return [row for transaction in transactions(chunks) for row in transaction.rows]


def after(chunks: list[SourceChunk]) -> list[Any]:
    return [row.after for row in rows(chunks)]


def file_only(position: Position) -> Position:
    return Position(position.file, position.offset, position.rows)


def fill(source: Source) -> Position:
    """Transactions of 1 to 9 rows, one of 200, an update and a delete of some; returns where they begin."""
    source.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    start = source.here()
    number = itertools.count()
    for size in (*range(1, 10), 200, 1):
        values = ",".join(f"({next(number)}, 'v')" for _ in range(size))
        source.run(f"INSERT INTO t VALUES {values}")
    source.run("UPDATE t SET v = 'w' WHERE id < 20")
    source.run("DELETE FROM t WHERE id < 10")
    return start


def test_transactions_know_where_they_end_and_who_they_are(source: Source) -> None:
    start = fill(source)
    read_all = transactions(source.read(start))
    assert [len(transaction.rows) for transaction in read_all] == [*range(1, 10), 200, 1, 20, 10]
    assert all(transaction.complete and transaction.ordinals == len(transaction.rows) for transaction in read_all)
    assert [row.ordinal for row in read_all[8].rows] == list(range(9))
    numbers = [transaction.number for transaction in read_all]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    (identity,) = {transaction.source for transaction in read_all}
    if source.is_mariadb:
        assert identity in [gtid.rpartition("-")[0] for gtid in start.gtids.split(",")]
    else:
        assert identity in start.gtids
    assert all(abs(transaction.commit_us / 1e6 - time.time()) < 60 for transaction in read_all)
    for transaction, then in itertools.pairwise(read_all):
        assert after(source.read(Position(transaction.file, transaction.end)))[: len(then.rows)] == [
            row.after for row in then.rows
        ]


def test_resume_from_every_chunk_repeats_and_loses_nothing(source: Source) -> None:
    """By file and offset and by GTID; also inside the transaction of 200 rows, which comes in parts."""
    start = fill(source)
    whole = source.read(start, chunk_rows=16)
    assert any(not transaction.complete for transaction in transactions(whole))
    expected = [(t.source, t.number, row) for t in transactions(whole) for row in t.rows]
    taken = 0
    for chunk in whole:
        taken += sum(len(transaction.rows) for transaction in chunk.transactions)
        for place in (chunk.last, file_only(chunk.last)):
            rest = source.read(place, whole[-1].last, chunk_rows=16)
            got = [(t.source, t.number, row) for t in transactions(rest) for row in t.rows]
            assert [_renumbered(one) for one in got] == [_renumbered(one) for one in expected[taken:]], chunk.last
            assert rest[-1].last.gtids == whole[-1].last.gtids


def _renumbered(found: tuple[str, int, RowChange]) -> tuple[object, ...]:
    """Shape numbers are a reader's own."""
    identity, number, row = found
    return identity, number, row.before, row.after, row.ordinal


def test_a_large_transaction_comes_in_parts(source: Source) -> None:
    source.run("CREATE TABLE large (id INT PRIMARY KEY, v VARCHAR(90))")
    source.run("CREATE TABLE other (id INT PRIMARY KEY)")
    start = source.here()
    source.run("INSERT INTO large VALUES (-1, '')")
    source.run("BEGIN")
    source.run("INSERT INTO other VALUES (1), (2), (3)")
    for first in range(0, 3000, 500):
        source.run("INSERT INTO large VALUES " + ",".join(f"({n}, REPEAT('x', 80))" for n in range(first, first + 500)))
    source.run("COMMIT")
    source.run("INSERT INTO large VALUES (-2, '')")
    chunks = source.read(start, chunk_rows=300, wanted=lambda table: table.table == "large")
    single, *parts, last = transactions(chunks)
    assert (len(single.rows), len(last.rows)) == (1, 1)
    assert [part.complete for part in parts] == [False] * (len(parts) - 1) + [True]
    assert len(parts) >= 5 and all(len(part.rows) <= 600 for part in parts)
    assert len({(part.source, part.number) for part in parts}) == 1
    ordinal = 0
    for part in parts:
        assert part.first_ordinal == ordinal
        ordinal += part.ordinals
    assert ordinal == 3003, "rows of the table that nobody wants count too"
    assert [row.ordinal for part in parts for row in part.rows] == list(range(3, 3003))
    inside = [chunk.last for chunk in chunks if chunk.last.rows]
    assert {(place.file, place.offset) for place in inside} == {(single.file, single.end)}
    assert [place.rows for place in inside] == [part.first_ordinal + part.ordinals for part in parts[:-1]]
    assert {place.gtids for place in inside} == {_gtids_after(chunks, single)}


def _gtids_after(chunks: list[SourceChunk], transaction: SourceTransaction) -> str:
    return next(chunk.last.gtids for chunk in chunks if transaction in chunk.transactions)


def test_a_ddl_statement_is_a_chunk_of_its_own(source: Source) -> None:
    start = source.here()
    source.run("CREATE TABLE d (id INT PRIMARY KEY)")
    source.run("INSERT INTO d VALUES (1)")
    source.run("ALTER TABLE d ADD COLUMN v INT DEFAULT 5")
    source.run("INSERT INTO d VALUES (2, 2)")
    source.run("TRUNCATE TABLE d")
    chunks = [chunk for chunk in source.read(start) if chunk.transactions]
    kinds = [[t.ddl.statement.split()[0].upper() if t.ddl else t.rows[0].after for t in c.transactions] for c in chunks]
    assert kinds == [["CREATE"], [(1,)], ["ALTER"], [(2, 2)], ["TRUNCATE"]]
    ddl = chunks[0].transactions[0]
    assert ddl.ddl is not None and ddl.ddl.schema == source.database and ddl.ddl.number == ddl.number
    shapes = {number: shape for chunk in chunks for number, shape in chunk.shapes.items()}
    assert [len(shape.columns) for shape in shapes.values()] == [1, 2]
    assert rows(chunks)[0].table != rows(chunks)[1].table, "a new table map, a new number"


def test_create_table_select_is_a_statement_and_then_its_rows(source: Source) -> None:
    source.run("CREATE TABLE s (id INT PRIMARY KEY)")
    source.run("INSERT INTO s VALUES (1), (2), (3)")
    start = source.here()
    source.run("CREATE TABLE copy AS SELECT * FROM s")
    statement, copied = transactions(chunks := source.read(start))
    assert statement.ddl is not None and "copy" in statement.ddl.statement
    assert (statement.first_ordinal, statement.ordinals, statement.complete) == (0, 1, False)
    assert (copied.first_ordinal, copied.ordinals, copied.complete, copied.number) == (1, 3, True, statement.number)
    between = next(chunk.last for chunk in chunks if chunk.transactions)
    assert between.rows == 1
    resumed = transactions(source.read(between))
    assert [t.ddl for t in resumed] == [None] and [row.after for row in resumed[0].rows] == [(1,), (2,), (3,)]


def test_accounts_temporary_tables_and_maintenance_only_move_the_position(source: Source) -> None:
    source.run("CREATE TABLE m (id INT PRIMARY KEY)")
    start = source.here()
    source.run("CREATE USER IF NOT EXISTS binlog_reader_tmp@localhost IDENTIFIED BY 'x1Y!zzzz'")
    source.run("GRANT SELECT ON *.* TO binlog_reader_tmp@localhost")
    source.run("DROP USER binlog_reader_tmp@localhost")
    source.run("CREATE TEMPORARY TABLE tmp (id INT)")
    source.run("INSERT INTO tmp VALUES (1)")
    source.run("DROP TEMPORARY TABLE tmp")
    source.run("ANALYZE TABLE m")
    source.run("FLUSH TABLES")
    chunks = source.read(start)
    assert transactions(chunks) == []
    assert chunks[-1].last == source.here()


def test_savepoints_and_nontransactional_tables(source: Source) -> None:
    source.run("CREATE TABLE i (id INT PRIMARY KEY)")
    source.run("CREATE TABLE my (id INT PRIMARY KEY) ENGINE=MyISAM")
    start = source.here()
    for statement in ("BEGIN", "INSERT INTO i VALUES (1)", "SAVEPOINT a", "INSERT INTO i VALUES (2)",
                      "ROLLBACK TO SAVEPOINT a", "INSERT INTO i VALUES (3)", "COMMIT",
                      "INSERT INTO my VALUES (7), (8)", "BEGIN", "INSERT INTO i VALUES (4)", "ROLLBACK"):  # fmt: skip
        source.run(statement)
    assert [[row.after for row in t.rows] for t in transactions(source.read(start))] == [[(1,), (3,)], [(7,), (8,)]]


def test_marker_rows_are_marks_and_unwanted_tables_only_count(source: Source) -> None:
    source.run("CREATE TABLE tidelock_progress (feed VARCHAR(20), batch INT, PRIMARY KEY (feed, batch))")
    source.run("CREATE TABLE w (id INT PRIMARY KEY, v INT)")
    source.run("CREATE TABLE u (id INT PRIMARY KEY, j JSON, b BIT(3), e ENUM('x'), t TIME(3))")
    start = source.here()
    source.run("BEGIN")
    source.run("INSERT INTO tidelock_progress VALUES ('shop', 1), ('shop', 2)")
    source.run("INSERT INTO u VALUES (1, '{}', b'101', 'x', '01:02:03.5'), (2, NULL, NULL, NULL, NULL)")
    source.run("INSERT INTO w VALUES (1, 1)")
    source.run("UPDATE u SET e = NULL")
    source.run("DELETE FROM tidelock_progress WHERE batch = 1")
    source.run("UPDATE w SET v = 2")
    source.run("COMMIT")
    (transaction,) = transactions(
        source.read(
            start,
            wanted=lambda table: table.table == "w",
            is_marker=lambda table: table.table == "tidelock_progress",
        )
    )
    assert [row for _, row in transaction.marks] == [("shop", 1), ("shop", 2)]
    changed = 1  # row 2 of `u` has no label to lose
    assert [(row.ordinal, row.after) for row in transaction.rows] == [(4, (1, 1)), (6 + changed, (1, 2))]
    assert transaction.ordinals == 7 + changed


def test_unwanted_traffic_moves_the_position(source: Source) -> None:
    source.run("CREATE TABLE quiet (id INT PRIMARY KEY)")
    start = source.here()
    source.run("INSERT INTO quiet VALUES (1)")
    chunks = source.read(start, wanted=lambda table: False)
    assert transactions(chunks) == [] and chunks[-1].last == source.here()


def test_an_idle_source_tells_position_and_time(source: Source) -> None:
    source.run("CREATE TABLE IF NOT EXISTS idle (id INT)")
    start = source.here()
    reader = BinlogReader(source.endpoint, server_id=SERVER_ID, wanted=lambda table: True,
                          is_marker=lambda table: False, start=start, heartbeat_seconds=0.2)  # fmt: skip
    chunks = reader.chunks()
    beats = [chunk for chunk in itertools.islice(chunks, 4) if chunk.server_us]
    reader.close()
    assert len(beats) >= 3
    assert all(not chunk.transactions and chunk.last == start for chunk in beats)
    assert all(abs(chunk.server_us / 1e6 - time.time()) < 60 for chunk in beats)


def test_the_first_heartbeat_tells_that_nothing_is_behind_a_gtid(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a start by GTID it tells the place as well, and a run that has caught up ends by it."""
    source.run("CREATE TABLE rest (id INT PRIMARY KEY)")
    start = source.here()
    source.run("INSERT INTO rest VALUES (1)")
    start = source.read(start)[-1].last
    beats: list[int] = []
    handle = EventHandlers._heartbeat

    def counted(self: EventHandlers, b: bytes, p: int, end: int) -> None:
        beats.append(end)
        handle(self, b, p, end)

    monkeypatch.setattr(EventHandlers, "_heartbeat", counted)
    reader = BinlogReader(source.endpoint, server_id=SERVER_ID, wanted=lambda table: True,
                          is_marker=lambda table: False, start=start, heartbeat_seconds=0.2)  # fmt: skip
    with contextlib.closing(reader.chunks()) as chunks:
        told = next(chunks)
    assert told.last == start and told.server_us and len(beats) == 1


def test_a_commit_is_handed_out_at_once(source: Source) -> None:
    """No chunk is held back for more rows."""
    source.run("CREATE TABLE live (id INT PRIMARY KEY)")
    reader = BinlogReader(source.endpoint, server_id=SERVER_ID, wanted=lambda table: table.schema == source.database,
                          is_marker=lambda table: False, start=source.here(), heartbeat_seconds=30)  # fmt: skip
    committed: list[float] = []

    def write() -> None:
        source.run("INSERT INTO live VALUES (1)")
        committed.append(time.monotonic())

    writer = threading.Timer(0.3, write)
    writer.start()
    next(chunk for chunk in reader.chunks() if rows([chunk]))
    came = time.monotonic()
    writer.join()
    assert came - committed[0] < 15, "it waited for the heartbeat, which comes after 30 s"
    reader.close()


def test_rotation(source: Source) -> None:
    source.run("CREATE TABLE r (id INT PRIMARY KEY)")
    start = source.here()
    for number in range(4):
        source.run(f"INSERT INTO r VALUES ({number})")
        source.run("FLUSH BINARY LOGS")
    source.run("INSERT INTO r VALUES (4)")
    for place in (start, file_only(start)):
        end = source.here()
        chunks = source.read(place, end)
        assert after(chunks) == [(0,), (1,), (2,), (3,), (4,)]
        assert len({chunk.last.file for chunk in chunks}) >= 4
        last, now = chunks[-1].last, source.here()
        assert end.order <= last.order <= now.order  # MariaDB notes in the log, a second later, that a file is done
        assert last.gtids == now.gtids


def test_values_of_20_megabytes_span_packets(source: Source) -> None:
    source.run("CREATE TABLE big (id INT PRIMARY KEY, v LONGTEXT CHARACTER SET utf8mb4)")
    source.run("SET GLOBAL max_allowed_packet=1073741824")
    session = server.connect(source.endpoint)
    start = source.here()
    for size in (16_777_100, 16_777_215, 20_000_000, 40_000_000):
        server.rows(session, f"INSERT INTO {source.database}.big VALUES (%s, REPEAT('ab', %s))", size, size // 2)
    server.rows(session, f"INSERT INTO {source.database}.big VALUES (1, 'end')")
    session.close()
    values = [((row.after or ())[0], len((row.after or ())[1])) for row in rows(source.read(start))]
    assert values == [(size, size // 2 * 2) for size in (16_777_100, 16_777_215, 20_000_000, 40_000_000)] + [(1, 3)]


def test_a_start_without_gtids_finds_them(source: Source) -> None:
    start = fill(source)
    chunks = source.read(file_only(start))
    assert chunks[-1].last.gtids == source.here().gtids != ""


def test_earliest_position_holds_the_first_event(mysql: MySql, mariadb: MariaDb) -> None:
    for origin in (mysql, mariadb):
        source = Source(origin)
        earliest = log_ends.earliest_position(source.session)
        assert earliest.offset == 4 and earliest.order <= source.here().order
        source.session.close()


def test_mysql_compressed_transactions(mysql: MySql) -> None:
    source = Source(mysql, "compressed")
    source.run("CREATE TABLE z (id INT PRIMARY KEY, v VARCHAR(200))")
    source.run("SET SESSION binlog_transaction_compression=ON")
    start = source.here()
    source.run("INSERT INTO z VALUES (1, REPEAT('a', 150)), (2, REPEAT('b', 150))")
    source.run("INSERT INTO z VALUES " + ",".join(f"({number}, REPEAT('c', 200))" for number in range(11, 911)))
    source.run("DELETE FROM z WHERE id = 1")
    chunks = source.read(start, chunk_rows=100)
    changes = rows(chunks)
    assert len(changes) == 903 and changes[0].after == (1, "a" * 150)
    assert (changes[-1].before, changes[-1].after) == ((1, "a" * 150), None)
    assert [t.complete for t in transactions(chunks)].count(False) >= 5, "a large one leaves in parts"
    for chunk in chunks:
        assert len(rows(source.read(chunk.last, chunks[-1].last))) == 903 - sum(
            len(rows([earlier])) for earlier in chunks[: chunks.index(chunk) + 1]
        )
    source.session.close()


def test_mysql_tagged_gtids(mysql: MySql) -> None:
    source = Source(mysql, "tagged")
    source.run("CREATE TABLE g (id INT PRIMARY KEY)")
    start = source.here()
    source.run("SET SESSION gtid_next='AUTOMATIC:blue'")
    source.run("INSERT INTO g VALUES (1)")
    source.run("SET SESSION gtid_next='AUTOMATIC'")
    source.run("INSERT INTO g VALUES (2)")
    chunks = source.read(start)
    tagged, plain = transactions(chunks)
    assert tagged.source == f"{plain.source}:blue"
    assert chunks[-1].last.gtids == source.here().gtids
    source.run("INSERT INTO g VALUES (3)")
    for place in (chunks[-1].last, file_only(chunks[-1].last)):
        assert after(source.read(place)) == [(3,)]
    assert source.read(file_only(start))[-1].last.gtids == source.here().gtids
    source.session.close()


def test_mariadb_compressed_events(mariadb: MariaDb) -> None:
    source = Source(mariadb, "compressed")
    source.run("SET GLOBAL log_bin_compress=ON, GLOBAL log_bin_compress_min_len=10")
    try:
        start = source.here()
        source.run(f"CREATE TABLE z (id INT PRIMARY KEY COMMENT '{'long ' * 60}', v VARCHAR(200), n INT)")
        source.run("INSERT INTO z SELECT seq, REPEAT('c', 100), NULL FROM seq_1_to_300")
        source.run("UPDATE z SET n = 5 WHERE id <= 200")
        source.run("DELETE FROM z")
        chunks = source.read(start)
    finally:
        source.run("SET GLOBAL log_bin_compress=OFF")
    create, insert, update, delete = transactions(chunks)
    assert create.ddl is not None and "long long" in create.ddl.statement
    assert [row.after for row in insert.rows] == [(n, "c" * 100, None) for n in range(1, 301)]
    assert [(row.before, row.after) for row in update.rows][199] == ((200, "c" * 100, None), (200, "c" * 100, 5))
    assert len(delete.rows) == 300
    source.session.close()


def test_mariadb_domains(mariadb: MariaDb) -> None:
    """A start by GTID leaves out what the set holds of each domain, in any order in the log."""
    source = Source(mariadb, "domains")
    source.run("CREATE TABLE g (id INT PRIMARY KEY)")
    start = source.here()
    places = []
    for number, domain in enumerate((0, 7, 0, 8, 7, 0, 8)):
        source.run(f"SET SESSION gtid_domain_id={domain}")
        source.run(f"INSERT INTO g VALUES ({number})")
        places.append(source.here())
    source.run("SET SESSION gtid_domain_id=0")
    chunks = source.read(start)
    assert after(chunks) == [(number,) for number in range(7)]
    assert chunks[-1].last.gtids == source.here().gtids, "a set has one spelling, whoever tells it"
    for number, place in enumerate(places):
        assert after(source.read(place)) == [(rest,) for rest in range(number + 1, 7)]
    # A set that is no prefix of the log: domain 7 is known to its end, the others not at all since the start.
    behind = next(part for part in chunks[-1].last.gtids.split(",") if part.startswith("7-"))
    mixed = Position(start.file, start.offset, gtids=f"{start.gtids},{behind}")
    assert after(source.read(mixed)) == [(0,), (2,), (3,), (5,), (6,)]
    source.session.close()


@pytest.mark.parametrize("flavor", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_restart_and_crash_of_the_source(
    flavor: str, make_mariadb: Callable[..., MariaDb], make_mysql: Callable[..., MySql]
) -> None:
    origin: Origin = make_mariadb(durable=True) if flavor == "mariadb" else make_mysql(durable=True)
    source = Source(origin, "restarts")
    source.run("CREATE TABLE t (id INT PRIMARY KEY)")
    start = source.here()
    source.run("INSERT INTO t VALUES (1)")
    reader = BinlogReader(source.endpoint, server_id=SERVER_ID, wanted=lambda table: table.table == "t",
                          is_marker=lambda table: False, start=start)  # fmt: skip
    chunks = reader.chunks()
    while not rows([chunk := next(chunks)]):
        pass
    last = chunk.last
    origin.restart()
    with pytest.raises(Unreachable):
        list(chunks)
    again = server.connect(source.endpoint)
    server.rows(again, "INSERT INTO restarts_1.t VALUES (2)")
    origin.kill()
    origin.start()
    source.session = server.connect(source.endpoint)
    source.run("INSERT INTO restarts_1.t VALUES (3)")
    for place in (last, file_only(last)):
        assert after(source.read(place)) == [(2,), (3,)]


def test_without_gtids_a_transaction_is_its_place(make_mysql: Callable[..., MySql]) -> None:
    source = Source(make_mysql(extra=["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]), "plain")
    start = fill(source)
    assert start.gtids == ""
    chunks = source.read(start, chunk_rows=16)
    first, second = transactions(chunks)[:2]
    assert (first.source, first.number) == (start.file, start.offset)
    assert (second.source, second.number) == (first.file, first.end)
    inside = next(chunk.last for chunk in chunks if chunk.last.rows)
    resumed = transactions(source.read(inside))
    assert (resumed[0].number, resumed[0].first_ordinal) == (inside.offset, inside.rows)
    assert [row.after for row in resumed[1].rows] == [(245, "v")]
    assert chunks[-1].last.gtids == ""


def test_failover_by_gtid(make_mariadb: Callable[..., MariaDb], make_mysql: Callable[..., MySql]) -> None:
    """Two servers with the same transactions at other places of other files."""
    ours, theirs = Source(make_mysql(), "f"), Source(make_mysql(), "f")
    uuid = "11111111-2222-3333-4444-555555555555"
    theirs.run("FLUSH BINARY LOGS")
    theirs.run("FLUSH BINARY LOGS")
    for number in range(1, 7):
        for source in (ours, theirs):
            source.run(f"SET SESSION gtid_next='{uuid}:{number}'")
            source.run("CREATE TABLE t (id INT PRIMARY KEY)" if number == 1 else f"INSERT INTO t VALUES ({number})")
            source.run("SET SESSION gtid_next='AUTOMATIC'")
        if number == 3:
            middle = ours.here()
    (own,) = theirs.run("SELECT @@server_uuid")[0]
    assert after(theirs.read(Position(middle.file, middle.offset, gtids=f"{middle.gtids},{own}:1"))) == [
        (4,),
        (5,),
        (6,),
    ]
    elsewhere = Position(middle.file, middle.offset, rows=1, gtids=f"{middle.gtids},{own}:1")
    assert after(theirs.read(elsewhere)) == [(5,), (6,)]


@pytest.mark.proof
def test_a_silent_server_is_unreachable(mariadb: MariaDb) -> None:
    """A proxy that stops forwarding, as a network does that drops packets."""
    source = Source(mariadb)
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as sockets:
        frozen = threading.Event()
        proxy = threading.Thread(target=_forward, args=(listener, source.endpoint, frozen, sockets), daemon=True)
        proxy.start()
        endpoint = Address("127.0.0.1", listener.getsockname()[1], source.endpoint.user, source.endpoint.password)
        reader = BinlogReader(endpoint, server_id=SERVER_ID, wanted=lambda table: True,
                              is_marker=lambda table: False, start=source.here(), heartbeat_seconds=0.1)  # fmt: skip
        chunks = reader.chunks()
        next(chunks)
        frozen.set()
        begun = time.monotonic()
        with pytest.raises(Unreachable, match="heartbeat"):
            list(chunks)
        assert time.monotonic() - begun > 9
        proxy.join(5)


def _forward(
    listener: socket.socket, endpoint: Address, frozen: threading.Event, sockets: contextlib.ExitStack
) -> None:
    client = sockets.enter_context(listener.accept()[0])
    upstream = sockets.enter_context(socket.create_connection((endpoint.host, endpoint.port)))
    sides = {client: upstream, upstream: client}
    while not frozen.is_set():
        for side in select.select([*sides], [], [], 0.1)[0]:
            sides[side].sendall(side.recv(65536))
