"""What decoding a binlog costs: CPU microseconds a row, of the decoder alone and of the reader with its socket.

    python -m bench.decode [--rows 200000] [mariadb|mysql …]

The load is 300-byte rows of eight columns (bigint key, unique varchar, decimal, datetime(6), json, int, text, tinyint),
first in transactions of 1,000 rows (*bulk*), then of one row (*single*).  *decoder*: the events are in memory.
*reader*: everything from the socket's bytes to chunks, on a live server.  Budgets: 3.5 and 9 µs for MariaDB.
"""

from __future__ import annotations

import argparse
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import pymysql

from adapters.mysql import connection as server
from adapters.mysql.assembly import Assembly
from adapters.mysql.binlog import BinlogReader
from adapters.mysql.connection import Endpoint
from adapters.mysql.decoder import Decoder
from adapters.mysql.gtid import GtidSet, MariaDbGtids, MySqlGtids
from adapters.mysql.packets import PacketStream, dump
from adapters.mysql.tables import Tables
from bench.servers.mariadb import MariaDb
from bench.servers.mysql import MySql
from engine.records import Position, SourceChunk, TableName

SERVER_ID: Final = 990_001
BULK_ROWS: Final = 1_000
_COLUMNS: Final = (
    "id bigint PRIMARY KEY, code varchar(40) UNIQUE, amount decimal(12,2), at datetime(6), doc json, n int, note text,"
    " flag tinyint"
)


class Span(msgspec.Struct, frozen=True):
    """A stretch of the log with `rows` rows."""

    name: str
    start: Position
    end: Position
    rows: int


def row(number: int) -> str:
    sign = "" if number % 3 else "-"
    clock = f"{number % 24:02d}:{number % 60:02d}:{number * 7 % 60:02d}.{number % 1_000_000:06d}"
    return (
        f"({number},'code-{number:09d}-{number * 7919 % 100_003}',{sign}{number * 37 % 1_000_000 / 100},"
        f"'2024-0{1 + number % 9}-{1 + number % 28:02d} {clock}',"
        f'\'{{"a": {number}, "b": "text {number}", "c": [1, 2.5, null]}}\','
        f"{number},'{'some note text about the row ' * 4}{number}',{number % 100})"
    )


def load(connection: pymysql.Connection[Any], rows: int) -> list[Span]:
    """Writes both loads and says where they are in the log."""
    server.rows(connection, "CREATE DATABASE IF NOT EXISTS decode_bench")
    server.rows(connection, "SET GLOBAL sync_binlog=0, GLOBAL innodb_flush_log_at_trx_commit=0")
    spans = []
    for name, size in (("bulk", BULK_ROWS), ("single", 1)):
        server.rows(connection, f"DROP TABLE IF EXISTS decode_bench.{name}")
        server.rows(connection, f"CREATE TABLE decode_bench.{name} ({_COLUMNS}) CHARSET utf8mb4")
        start = server.current_position(connection)
        for first in range(0, rows, size):
            values = ",".join(row(number) for number in range(first, min(first + size, rows)))
            server.rows(connection, f"INSERT INTO decode_bench.{name} VALUES {values}")
        spans.append(Span(name, start, server.current_position(connection), rows))
    return spans


def captured(endpoint: Endpoint, span: Span) -> bytes:
    """The span's packets, read ahead so that only decoding is timed."""
    connection = server.connect(endpoint)
    server.rows(connection, "SET @master_binlog_checksum=@@global.binlog_checksum, @mariadb_slave_capability=4")
    if not server.flavor(connection).is_mariadb:
        server.rows(connection, "SET @source_binlog_checksum=@@global.binlog_checksum")
    dump(connection, struct.pack("<IHI", span.start.offset, 3, SERVER_ID) + span.start.file.encode())
    stream = PacketStream(connection, 30.0)
    packets = []
    while True:
        packet = stream.packet()
        if packet is None:
            stream.wait()
            continue
        b, p, end = packet
        if b[p] or int.from_bytes(b[p + 14 : p + 18], "little") > span.end.offset:
            break
        packets.append(b[p - 4 : end])
    connection.close()
    return b"".join(packets)


def cpu_seconds(work: Callable[[], Iterator[SourceChunk]]) -> tuple[float, int]:
    """CPU time and rows of one run."""
    rows = 0
    start = time.process_time()
    for chunk in work():
        for transaction in chunk.transactions:
            rows += len(transaction.rows)
    return time.process_time() - start, rows


def decoded(packets: bytes, span: Span, gtids: GtidSet) -> Iterator[SourceChunk]:
    tables = Tables(_of_bench, lambda table: False, lambda table: {})
    assembly = Assembly(tables, span.start, gtids, 500)
    decoder = Decoder(tables, assembly, span.start, checksums=True)
    at = 0
    while at < len(packets):
        # What the hot loop leaves (a rotation, a format description) goes the general way, as in the reader.
        if (then := decoder.run(packets, at)) == at:
            length = int.from_bytes(packets[at : at + 3], "little")
            then = at + 4 + length
            decoder.event(packets, at + 5, then)
        at = then
        yield from assembly.ready
        assembly.ready.clear()
    assembly.flush()
    yield from assembly.ready


def read(
    endpoint: Endpoint,
    start: Position,
    end: Position,
    *,
    wanted: Callable[[TableName], bool],
    is_marker: Callable[[TableName], bool] = lambda table: False,
    chunk_rows: int = 500,
) -> Iterator[SourceChunk]:
    """What a reader hands out up to `end`, a place in the log of the server itself."""
    reader = BinlogReader(
        endpoint, server_id=SERVER_ID, wanted=wanted, is_marker=is_marker, start=start, chunk_rows=chunk_rows
    )
    try:
        for chunk in reader.chunks():
            yield chunk
            if chunk.last.order >= end.order:
                return
    finally:
        reader.close()


def _of_bench(table: TableName) -> bool:
    return table.schema == "decode_bench"


def measure(endpoint: Endpoint, rows: int) -> Iterator[tuple[str, str, float]]:
    """(load, what was timed, µs a row)."""
    connection = server.connect(endpoint)
    is_mariadb = server.flavor(connection).is_mariadb
    for span in load(connection, rows):
        gtids = MariaDbGtids if is_mariadb else MySqlGtids
        packets = captured(endpoint, span)
        for name, work in (
            ("decoder", lambda: decoded(packets, span, gtids(span.start.gtids))),  # noqa: B023
            ("reader", lambda: read(endpoint, span.start, span.end, wanted=_of_bench)),  # noqa: B023
        ):
            runs = [cpu_seconds(work) for _ in range(3)]
            assert all(count == span.rows for _, count in runs), f"{runs} rows of {span.rows}"
            yield span.name, name, min(seconds for seconds, _ in runs) / span.rows * 1e6
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="*", help="mariadb, mysql (both)")
    parser.add_argument("--rows", type=int, default=200_000)
    options = parser.parse_args()
    known: dict[str, type[MariaDb | MySql]] = {"mariadb": MariaDb, "mysql": MySql}
    for name in options.servers or known:
        if name not in known:
            parser.error(f"{name} is none of {', '.join(known)}")
        with known[name]() as source:
            endpoint = Endpoint(source.host, source.port, source.user, source.password)
            for load_name, timed, cost in measure(endpoint, options.rows):
                print(f"{name:8s} {load_name:7s} {timed:8s} {cost:6.2f} µs a row", flush=True)


if __name__ == "__main__":
    main()
