"""The capture process: binlog → chunks → capture machine → batches of the log, in a process of its own.

Decoding and applying would fight for one interpreter lock; in two processes they overlap.  Started as `python -m
tidelock.adapters.mysql.binlog.capture_process FD`, it waits on the socket FD for its `Order`, so that its start-up
overlaps the takeover.  It ends when the log fails it, or when the other side closes the socket.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator

import msgspec

from tidelock.adapters.mysql.binlog.batch_frames import Encoder
from tidelock.adapters.mysql.binlog.reader import BinlogReader
from tidelock.adapters.mysql.connection import reader_endpoint
from tidelock.adapters.mysql.errors import SourceError, Unreachable
from tidelock.adapters.process.frames import FAILED, UNANSWERED, Failed, Order, Unanswered, receive, send
from tidelock.adapters.process.gc_tuning import calm
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.records import LogBatch, SourceChunk, TableName
from tidelock.engine.protocol.effects import Publish
from tidelock.engine.protocol.events import SourceRead


def main() -> None:
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal's go to the whole group; our parent decides
        signal.signal(number, signal.SIG_IGN)
    calm()
    channel = socket.socket(fileno=int(sys.argv[1]))
    try:
        capture(msgspec.msgpack.decode(receive(channel), type=Order), channel)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        channel.close()


def capture(order: Order, channel: socket.socket) -> None:
    """Read on until the log fails us; the last frame says why.  Raises OSError when the other side is gone."""
    reader = reader_of(order)
    encoder = Encoder(lambda: reader.image_columns)
    told = Unanswered()
    try:
        for batch in batches(order, reader):
            send(channel, *encoder.frame(batch))
            if (now := reader.unanswered or Unanswered()) != told:
                told = now
                send(channel, UNANSWERED, msgspec.msgpack.encode(told))
    except SourceError as error:
        send(channel, FAILED, msgspec.msgpack.encode(failed(error)))


def reader_of(order: Order) -> BinlogReader:
    mapping = Mapping(order.rules, order.own)
    receipts = TableName(order.own, "tidelock_progress")
    return BinlogReader(
        reader_endpoint(order.source),
        server_id=order.server_id,
        wanted=mapping.selects,
        is_marker=lambda table: table == receipts,
        start=order.start,
        chunk_rows=order.chunk_rows,
        chunk_bytes=order.chunk_bytes,
        heartbeat_seconds=order.heartbeat_seconds,
        images=order.images,
        patience_seconds=order.patience_seconds,
        further=order.further,
    )


def batches(order: Order, reader: BinlogReader) -> Iterator[LogBatch]:
    """The log behind `order.start`, for ever.  Raises SourceError."""
    machine = CaptureMachine(Mapping(order.rules, order.own), order.start, order.node)
    try:
        for chunk in reader.chunks():
            for effect in machine.step(0, [SourceRead([classified(chunk, order.source.scheme, folded=reader.folded)])]):
                if isinstance(effect, Publish):
                    yield effect.batch
    finally:
        reader.close()


def failed(error: SourceError) -> Failed:
    where = f" at {error.position}" if error.position else ""
    return Failed(type(error).__name__, f"{error.message}{where}", error.hint, isinstance(error, Unreachable))


def classified(chunk: SourceChunk, scheme: str, *, folded: bool = False) -> SourceChunk:
    """The chunk with its DDL statement, if it is one, read; `folded` as in `adapters.ddl.translate.classify`."""
    first = chunk.transactions[0] if chunk.transactions else None
    if first is None or first.ddl is None:
        return chunk
    from tidelock.adapters.ddl.translate import (
        classify,  # sqlglot takes a quarter of a second to import, and DDL is rare
    )

    read = classify(first.ddl, "mariadb" if scheme == "mariadb" else "mysql", folded=folded)
    return msgspec.structs.replace(chunk, transactions=[msgspec.structs.replace(first, ddl=read)])


if __name__ == "__main__":
    main()
