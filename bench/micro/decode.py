"""Decoding a recorded log: per event shape and per column type, of MariaDB and MySQL 9.

*decode*: from packets in memory to chunks.  *read*: the same from a socket on, which a thread fills: all that the
capture process does before the capture machine.  *capture*: from packets in memory to frames for the engine's process:
decode, loop filter, map, filter, encode.  *column*: decode of one value, in rows with eight columns of its type.
Bytes are those of the log, where MariaDB's holds each statement's text beside its rows.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
import pymysql

from adapters.mysql.assembly import Assembly
from adapters.mysql.capture_process import classified
from adapters.mysql.decoder import Decoder
from adapters.mysql.gtid import GtidSet, MariaDbGtids, MySqlGtids, NoGtids
from adapters.mysql.packets import PacketStream
from adapters.mysql.tables import Tables
from bench.micro import recording
from bench.micro.case import Case, Factory
from bench.micro.recording import COLUMNS_OF_A_TYPE, Stretch, recorded
from engine.capture import CaptureMachine
from engine.effects import Publish
from engine.events import SourceRead
from engine.mapping import Mapping, Rule
from engine.records import SourceChunk

CHUNK_ROWS: Final = 500
PASSES: Final = 10
COLUMN_PASSES: Final = 20
SHAPES: Final = (
    "account/mix",
    "account/one-row transactions",
    "account/bulk inserts",
    "account/bulk updates",
    "account/bulk deletes",
    "eight/bulk inserts",
    "eight/one-row transactions",
)
SILENCE_SECONDS: Final = 10.0


def decoded(stretch: Stretch, tables: Tables) -> Iterator[SourceChunk]:
    """The stretch's chunks; `tables` keeps what was compiled for its tables from one pass to the next."""
    assembly, decoder = _machines(stretch, tables)
    packets, at = stretch.packets, 0
    while at < len(packets):
        # What the hot loop leaves (a rotation, a format description) goes the general way, as in the reader.
        if (then := decoder.run(packets, at)) == at:
            then = at + 4 + int.from_bytes(packets[at : at + 3], "little")
            decoder.event(packets, at + 5, then)
        at = then
        yield from assembly.ready
        assembly.ready.clear()
    assembly.flush()
    yield from assembly.ready


def read(stretch: Stretch, tables: Tables) -> Iterator[SourceChunk]:
    """The same through a socket and the stream that the reader has on it."""
    assembly, decoder = _machines(stretch, tables)
    with _served(stretch.packets) as connection:
        stream = PacketStream(connection, SILENCE_SECONDS)
        with contextlib.suppress(EOFError):
            while True:
                stream.at = decoder.run(stream.buffer, stream.at)
                if not assembly.ready:
                    if (packet := stream.packet()) is not None:
                        b, p, end = packet
                        decoder.event(b, p + 1, end)
                    else:
                        assembly.flush()
                        yield from assembly.ready
                        assembly.ready.clear()
                        stream.wait()
                yield from assembly.ready
                assembly.ready.clear()
    assembly.flush()
    yield from assembly.ready


@contextlib.contextmanager
def _served(packets: bytes) -> Iterator[pymysql.Connection[Any]]:
    """What `PacketStream` needs of a connection, its other end written by a thread and then closed."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs:
            theirs.sendall(packets)

    thread = threading.Thread(target=serve)
    thread.start()
    with ours:
        yield cast("pymysql.Connection[Any]", SimpleNamespace(_sock=ours))
    thread.join()


def captured(stretch: Stretch, tables: Tables) -> int:
    """Bytes of the frames that a capture process would send."""
    span = stretch.span
    machine = CaptureMachine(Mapping([Rule("*.*", "*.*")]), span.start)
    encode = msgspec.msgpack.Encoder().encode
    octets = 0
    for chunk in decoded(stretch, tables):
        for effect in machine.step(0, [SourceRead([classified(chunk, "mariadb")])]):
            if isinstance(effect, Publish):
                octets += len(encode(effect.batch))
    return octets


def _machines(stretch: Stretch, tables: Tables) -> tuple[Assembly, Decoder]:
    start = stretch.span.start
    assembly = Assembly(tables, start, _gtids(start.gtids), CHUNK_ROWS)
    return assembly, Decoder(tables, assembly, start, checksums=True)


def _gtids(text: str) -> GtidSet:
    if not text:
        return NoGtids()
    return MySqlGtids(text) if ":" in text else MariaDbGtids(text)


def tables() -> Tables:
    return Tables(lambda table: table.schema == recording.SCHEMA, lambda table: False, lambda table: {})


def rows_of(stretch: Stretch, way: Callable[[Stretch, Tables], Iterator[SourceChunk]]) -> int:
    return sum(len(transaction.rows) for chunk in way(stretch, tables()) for transaction in chunk.transactions)


def _case(
    server: str, name: str, way: Callable[[Stretch, Tables], object], *, passes: int = PASSES, values: int = 1
) -> Case:
    """`values`: of a row, where it is they that are counted."""
    stretch = recorded(server)[name]
    known = tables()

    def work(_: object) -> None:
        for _ in range(passes):
            way(stretch, known)

    count = stretch.span.rows * passes * values
    return Case(count, work, octets=len(stretch.packets) * passes)


def _drained(way: Callable[[Stretch, Tables], Iterator[SourceChunk]], stretch: Stretch, tables: Tables) -> None:
    for _ in way(stretch, tables):
        pass


def _cases() -> Iterator[tuple[str, Factory]]:
    ways: dict[str, Callable[[Stretch, Tables], object]] = {
        "decode": functools.partial(_drained, decoded),
        "read": functools.partial(_drained, read),
        "capture": captured,
    }
    for name, way in ways.items():
        for server, shape in itertools.product(recording.SERVERS, SHAPES):
            yield f"{name}/{server}, {shape.replace('/', ', ')}", functools.partial(_case, server, shape, way)
    for server, type_ in itertools.product(recording.SERVERS, recording.TYPES):
        make = functools.partial(_case, server, f"column/{type_}", ways["decode"])
        yield f"column/{server}, {type_}", functools.partial(make, passes=COLUMN_PASSES, values=COLUMNS_OF_A_TYPE)


CASES: Final[dict[str, Factory]] = dict(_cases())
