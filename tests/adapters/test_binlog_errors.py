"""Refusals of the reader, on real logs: each error says what happened, where, and what to do."""

import contextlib
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.harness.decode import Span, captured, read
from bench.harness.servers import MariaDb, MySql
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog import decoder as decoder_module
from tidelock.adapters.mysql.binlog import log_ends
from tidelock.adapters.mysql.binlog.assembly import Assembly
from tidelock.adapters.mysql.binlog.decoder import LogDecoder
from tidelock.adapters.mysql.binlog.tables import Tables
from tidelock.adapters.mysql.connection import Address
from tidelock.adapters.mysql.errors import DamagedLog, UnknownEvent
from tidelock.adapters.mysql.gtid import NoGtids
from tidelock.adapters.ports.source_errors import (
    AccessDenied,
    LogGap,
    PurgedPosition,
    SourceError,
    Unreachable,
    UnsuitableLog,
)
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Position

Origin = MariaDb | MySql


class Source:
    def __init__(self, origin: Origin) -> None:
        self.endpoint = Address(origin.host, origin.port, origin.user, origin.password)
        self.database = origin.database("binlog_errors")
        self.session = server.connect(self.endpoint)
        self.is_mariadb = server.flavor(self.session).is_mariadb
        self.run(f"USE {self.database}")
        self.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), w INT)")

    def run(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        return server.rows(self.session, sql, *args)

    def read(self, start: Position, wanted: bool = True, endpoint: Address | None = None) -> list[SourceChunk]:
        return list(
            read(
                endpoint or self.endpoint,
                start,
                log_ends.current_position(self.session),
                wanted=lambda table: wanted and table.schema == self.database,
            )
        )

    def here(self) -> Position:
        return log_ends.current_position(self.session)


@pytest.fixture(params=["compiled", "python"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Form of the code that takes usual events."""
    if request.param == "python":
        monkeypatch.setattr(decoder_module, "UsualEvents", None)


@pytest.fixture(params=["mariadb", "mysql"])
def source(request: pytest.FixtureRequest, form: None) -> Iterator[Source]:
    made = Source(request.getfixturevalue(request.param))
    yield made
    made.session.close()


def test_a_wrong_password(source: Source) -> None:
    wrong = Address(source.endpoint.host, source.endpoint.port, "root", "not-the-password")
    with pytest.raises(AccessDenied) as caught:
        source.read(source.here(), endpoint=wrong)
    assert "GRANT REPLICATION SLAVE" in caught.value.hint
    assert "not-the-password" not in f"{caught.value} {wrong} {wrong!r}"


def test_an_account_that_may_not_read_the_log(source: Source) -> None:
    source.run("CREATE USER IF NOT EXISTS nobody@'127.0.0.1' IDENTIFIED BY 'pW-1234567'")
    poor = Address(source.endpoint.host, source.endpoint.port, "nobody", "pW-1234567")
    with pytest.raises(AccessDenied, match="REPLICATION SLAVE"):
        source.read(source.here(), endpoint=poor)


def test_nobody_listens() -> None:
    with pytest.raises(Unreachable, match="cannot be reached"):
        server.connect(Address("127.0.0.1", 1, "root"))


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_a_purged_position(flavor: str, make_mariadb: Callable[..., MariaDb], make_mysql: Callable[..., MySql]) -> None:
    source = Source(make_mariadb() if flavor == "mariadb" else make_mysql())
    start = source.here()
    source.run("INSERT INTO t VALUES (1, '', 1)")
    source.run("FLUSH BINARY LOGS")
    source.run("FLUSH BINARY LOGS")
    for _ in range(100):  # MariaDB keeps a file until a checkpoint that it logs in the background
        source.run(f"PURGE BINARY LOGS TO '{source.here().file}'")
        if len(source.run("SHOW BINARY LOGS")) == 1:
            break
        time.sleep(0.1)
    for place in (start, Position(start.file, start.offset)):
        with pytest.raises(PurgedPosition, match="tidelock resync"):
            source.read(place)
    assert log_ends.earliest_position(source.session).file == source.here().file


def test_images_of_some_columns_only(source: Source) -> None:
    source.run("INSERT INTO t VALUES (1, 'x', 1)")
    source.run("SET SESSION binlog_row_image=MINIMAL")
    start = source.here()
    source.run("UPDATE t SET v = 'y'")
    source.run("INSERT INTO t (id) VALUES (2)")
    source.run("DELETE FROM t")
    with pytest.raises(UnsuitableLog, match=r"binlog_errors_\d+\.t.*binlog_row_image=FULL") as caught:
        source.read(start)
    assert caught.value.position.startswith(start.file)
    assert source.read(start, wanted=False)[-1].last == source.here(), "nobody's rows are counted all the same"


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_no_column_names(flavor: str, make_mariadb: Callable[..., MariaDb], make_mysql: Callable[..., MySql]) -> None:
    extra = ["--binlog-row-metadata=MINIMAL"]
    source = Source(make_mariadb(extra=extra) if flavor == "mariadb" else make_mysql(extra=extra))
    start = source.here()
    source.run("INSERT INTO t VALUES (1, 'x', 1)")
    with pytest.raises(UnsuitableLog, match="SET GLOBAL binlog_row_metadata=FULL"):
        source.read(start)
    assert source.read(start, wanted=False)[-1].last == source.here()


@pytest.mark.parametrize(
    "statement", ["INSERT INTO t VALUES (1, 'x', 1)", "UPDATE t SET w = 2", "DELETE FROM t WHERE id > 5"]
)
def test_rows_changed_by_statement(source: Source, statement: str) -> None:
    source.run("INSERT IGNORE INTO t VALUES (9, '', 9)")
    source.run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    source.run("SET SESSION binlog_format=STATEMENT")
    start = source.here()
    source.run(statement)
    with pytest.raises(UnsuitableLog, match="binlog_format must be ROW"):
        source.read(start)


def test_temporal_types_of_before_5_6(make_mariadb: Callable[..., MariaDb]) -> None:
    """Without fractions they are read; with fractions the log does not describe them."""
    source = Source(make_mariadb(extra=["--mysql56-temporal-format=OFF"]))
    source.run("CREATE TABLE old (id INT PRIMARY KEY, d DATETIME, s TIMESTAMP NULL, c TIME)")
    start = source.here()
    source.run("INSERT INTO old VALUES (1, '2020-01-02 03:04:05', '2020-01-02 03:04:05', '-112:34:56')")
    rows = [row.after for chunk in source.read(start) for t in chunk.transactions for row in t.rows]
    assert rows == [(1, "2020-01-02 03:04:05", "2020-01-02 03:04:05", "-112:34:56")]
    for column in ("DATETIME(6)", "DATETIME(3)", "TIMESTAMP(2)", "TIME(6)"):
        source.run(f"CREATE OR REPLACE TABLE fractions (id INT PRIMARY KEY, d {column})")
        start = source.here()
        source.run("INSERT INTO fractions VALUES (1, '2020-01-02 03:04:05.25')")
        with pytest.raises(DamagedLog, match="event of type 23 cannot be read"):
            source.read(start)


class Log:
    """A span of a real log as packets, to be damaged."""

    def __init__(self, source: Source) -> None:
        start = source.here()
        source.run("INSERT INTO t VALUES (1, 'x', 1)")
        source.run("INSERT INTO t VALUES (2, 'y', 2)")
        raw, at = captured(source.endpoint, Span("damaged", start, source.here(), 2)), 0
        self.start = start
        self.packets = []
        while at < len(raw):
            end = at + 4 + int.from_bytes(raw[at : at + 3], "little")
            self.packets.append(raw[at + 4 : end])
            at = end

    def decode(self) -> int:
        """How many rows come out."""
        tables = Tables(lambda table: True, lambda table: False, lambda table: {})
        assembly = Assembly(tables, self.start, NoGtids(), 500)
        decoder = LogDecoder(tables, assembly, checksums=True)
        for packet in self.packets:
            whole = len(packet).to_bytes(3, "little") + b"\0" + packet
            if decoder.run(whole, 0) == 0:
                decoder.event(packet, 1, len(packet))
        assembly.flush()
        return sum(len(t.rows) for chunk in assembly.ready for t in chunk.transactions)

    def find(self, *types: int) -> int:
        return next(index for index, packet in enumerate(self.packets) if packet[5] in types)

    def change(self, index: int, at: int, value: bytes) -> None:
        """Overwrites bytes of an event and mends its checksum."""
        packet = bytearray(self.packets[index])
        packet[at : at + len(value)] = value
        packet[-4:] = struct.pack("<I", zlib.crc32(packet[1:-4]))
        self.packets[index] = bytes(packet)


ROWS = (23, 30)


def test_the_whole_log_decodes(source: Source) -> None:
    assert Log(source).decode() == 2


def test_an_unknown_event(source: Source) -> None:
    log = Log(source)
    log.change(log.find(*ROWS), 5, bytes([99]))
    with pytest.raises(UnknownEvent, match=f"type 99 is not understood, at {log.start.file}:[0-9]+"):
        log.decode()


def test_an_unknown_event_that_the_log_calls_ignorable(source: Source) -> None:
    log = Log(source)
    index = log.find(*ROWS)
    log.change(index, 18, struct.pack("<H", 0x80))
    log.change(index, 5, bytes([99]))
    assert log.decode() == 1


def test_an_event_is_missing(source: Source) -> None:
    for missing in range(2, len(Log(source).packets) - 1):
        source.run("TRUNCATE TABLE t")
        log = Log(source)
        del log.packets[missing]
        with pytest.raises(LogGap, match="begins at"):
            log.decode()


def test_an_incident(source: Source) -> None:
    log = Log(source)
    log.change(log.find(*ROWS), 5, bytes([26]))
    with pytest.raises(LogGap, match="lost events"):
        log.decode()


def test_damaged_rows(source: Source) -> None:
    """A length inside a row that leads beyond its event."""
    log = Log(source)
    index = log.find(*ROWS)
    place = log.packets[index].index(b"\x01x")
    for length in (0, 5, 255):
        log.change(index, place, bytes([length]))
        with pytest.raises(DamagedLog) as caught:
            log.decode()
        assert caught.value.position.startswith(log.start.file)


def test_damaged_table_maps_never_end_in_another_exception(source: Source) -> None:
    log = Log(source)
    index = log.find(19)
    original = log.packets[index]
    for at in range(28, len(original) - 4):
        for value in (0, 1, 251, 255):
            log.packets[index] = original
            log.change(index, at, bytes([value]))
            with contextlib.suppress(SourceError):
                log.decode()
