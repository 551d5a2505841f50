"""Decoding a recorded log: per event shape and per column type, of MariaDB and MySQL 9.

*decode*: from packets in memory to chunks with rows as tuples.  *images*: the same with rows as row images, where a
table can have them.  *read*: that from a socket on, which a thread fills: all that the capture process does before the
capture machine.  *capture*: from packets in memory to frames for the engine's process: decode, loop filter, map,
filter, encode.  *hand-over*: from those frames to changes that can be planned; *piled*: by way of a pile, where they
would wait for more of their table.  *column*, *image column*: decode of one value, in rows with eight columns of its
type; an image makes its values when it is asked.  Bytes are those of the log, where MariaDB's holds each statement's
text beside its rows.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Final, TypeAlias, cast

import pymysql

from bench.micro import account, recording
from bench.micro.case import Case, Factory
from bench.micro.recording import COLUMNS_OF_A_TYPE, Stretch, recorded
from tidelock.adapters.mysql.binlog.assembly import Assembly
from tidelock.adapters.mysql.binlog.batch_frames import FrameDecoder, FrameEncoder
from tidelock.adapters.mysql.binlog.captured_log import classified
from tidelock.adapters.mysql.binlog.decoder import LogDecoder
from tidelock.adapters.mysql.binlog.packets import PacketStream
from tidelock.adapters.mysql.binlog.tables import Tables
from tidelock.adapters.mysql.gtid import GtidSet, MariaDbGtids, MySqlGtids, NoGtids
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.log.bound_batch import BoundBatch
from tidelock.engine.model.log_batch import LogBatch, SourceChunk
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import Publish
from tidelock.engine.protocol.events import SourceRead

Way: TypeAlias = "Callable[[Stretch, Tables], Iterable[object]]"

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
TABLE: Final = account.binding()  # any will do: what is made of a row is not looked at


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
                stream.hand(decoder.run)
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
    """Yield what `PacketStream` needs of a connection, its other end written by a thread and then closed."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs:
            theirs.sendall(packets)

    thread = threading.Thread(target=serve)
    thread.start()
    with ours:
        yield cast("pymysql.Connection[Any]", SimpleNamespace(_sock=ours))
    thread.join()


def frames(stretch: Stretch, tables: Tables) -> Iterator[tuple[int, bytes]]:
    """Returns what a capture process would send: kind and body of each frame."""
    span = stretch.span
    machine = CaptureMachine(Mapping([Rule("*.*", "*.*")]), span.start)
    encoder = FrameEncoder(lambda: tables.columns)
    for chunk in decoded(stretch, tables):
        for effect in machine.step(0, [SourceRead([classified(chunk, "mariadb")])]):
            if isinstance(effect, Publish):
                yield encoder.frame(effect.batch)


def handed_over(server: str, name: str) -> list[LogBatch]:
    """A stretch's batches as the engine's process gets them."""
    decoder = FrameDecoder()
    sent = frames(recorded(server)[name], tables(images=True))
    return [decoder.batch(kind, memoryview(body)) for kind, body in sent]


def _values(stretch: Stretch, tables: Tables) -> Iterator[SourceChunk]:
    """Every value of every row is asked for."""
    for chunk in decoded(stretch, tables):
        for transaction in chunk.transactions:
            for change in transaction.rows:
                if change.after is not None:
                    tuple(change.after)
        yield chunk


def _machines(stretch: Stretch, tables: Tables) -> tuple[Assembly, LogDecoder]:
    start = stretch.span.start
    assembly = Assembly(tables, start, _gtids(start.gtids), CHUNK_ROWS)
    return assembly, LogDecoder(tables, assembly, checksums=True)


def _gtids(text: str) -> GtidSet:
    if not text:
        return NoGtids()
    return MySqlGtids(text) if ":" in text else MariaDbGtids(text)


def tables(images: bool = False) -> Tables:
    return Tables(lambda table: table.schema == recording.SCHEMA, lambda table: False, lambda table: {}, images)


def _case(server: str, name: str, way: Way, images: bool, *, passes: int = PASSES, values: int = 1) -> Case:
    """`values`: of a row, where it is they that are counted."""
    stretch = recorded(server)[name]
    known = tables(images)

    def work(_: object) -> None:
        for _ in range(passes):
            for _ in way(stretch, known):
                pass

    count = stretch.span.rows * passes * values
    return Case(count, work, octets=len(stretch.packets) * passes)


def _hand_over(server: str, name: str, take: Callable[[LogBatch], None]) -> Case:
    stretch = recorded(server)[name]
    sent = [(kind, memoryview(body)) for kind, body in frames(stretch, tables(images=True))]

    def work(_: object) -> None:
        for _ in range(PASSES):
            decoder = FrameDecoder()
            for kind, body in sent:
                take(decoder.batch(kind, body))

    return Case(stretch.span.rows * PASSES, work, octets=sum(len(body) for _, body in sent) * PASSES)


def _made_changes(batch: LogBatch) -> None:
    """Take the changes of a batch that is planned at once."""
    _lined(batch).changes()


def _piled(batch: LogBatch) -> None:
    """Pile up rows that wait for more of their table, and let them go."""
    lined = _lined(batch)
    pile = lined.pile()
    assert lined.pour(dict.fromkeys(lined.bindings.values(), pile)) == []
    pile.changes(Change)


def _lined(batch: LogBatch) -> BoundBatch:
    return BoundBatch(batch, lambda numbers: dict.fromkeys(numbers, TABLE))


def _cases() -> Iterator[tuple[str, Factory]]:
    ways: dict[str, tuple[Way, bool]] = {
        "decode": (decoded, False),
        "images": (decoded, True),
        "read": (read, True),
        "capture": (frames, True),
    }
    for group, (way, images) in ways.items():
        for server, shape in itertools.product(recording.SERVERS, SHAPES):
            yield f"{group}/{server}, {shape.replace('/', ', ')}", functools.partial(_case, server, shape, way, images)
    takers = {"hand-over": _made_changes, "hand-over, piled": _piled}
    for (group, take), server, shape in itertools.product(takers.items(), recording.SERVERS, SHAPES):
        made = functools.partial(_hand_over, server, shape, take)
        yield f"{group}/{server}, {shape.replace('/', ', ')}", made
    columns: dict[str, tuple[Way, bool]] = {"column": (decoded, False), "image column": (_values, True)}
    for group, (way, images) in columns.items():
        for server, type_ in itertools.product(recording.SERVERS, recording.TYPES):
            make = functools.partial(_case, server, f"column/{type_}", way, images)
            yield f"{group}/{server}, {type_}", functools.partial(make, passes=COLUMN_PASSES, values=COLUMNS_OF_A_TYPE)


CASES: Final[dict[str, Factory]] = dict(_cases())
