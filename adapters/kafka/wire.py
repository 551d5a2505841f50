"""The changes topic's records: one version byte, then a msgpack array that holds one batch of one partition.

Every record describes itself: it carries the shapes of all tables that it uses, so reading can begin at any record.
A new form takes the next version number and a decoder of its own beside those here; what was written stays readable.
Version 2 is version 1 with what only a PostgreSQL source has: values that its log does not tell (`records.UNKNOWN`),
kinds, values and added columns that version 1 has no form for.  A program that knows version 1 alone must refuse it;
what needs it not is written as version 1.
Byte for byte in docs/reference/changes-topic.md, which tests/adapters/test_wire.py holds to its word.  A record has no
checksum of its own: Kafka's, of the batch that it is in, goes with it from producer to consumer, who compares it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import xxhash

from tidelock.adapters.ports.operator_error import OperatorError
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, RowChange, Shape, Transaction, read_extension
from tidelock.engine.model.schema_change import Ddl

VERSION: Final = 2
_FOREIGN: Final = (
    "See what else writes to the topic: only the feed's publisher may. Then `tidelock log skip FEED --partition "
    "PARTITION --offset OFFSET` passes over that record and keeps a copy of it; if a change is missing there, workers "
    "halt again"
)


class WireError(OperatorError):
    """A record of the log cannot be read: what is wrong, and in `hint` what the operator can do."""


def at(error: WireError, partition: int, offset: int) -> WireError:
    """Returns the error with the record's place, in what it says and in what it advises."""
    hint = error.hint.replace("PARTITION", str(partition)).replace("OFFSET", str(offset))
    return WireError(f"record {offset} of partition {partition}: {error}", hint)


class Record(msgspec.Struct, frozen=True):
    """One record of the log, decoded.

    `batch.shapes` holds every table that the batch uses; shape numbers mean nothing beyond the record.
    `origin`: `host:port` of the source that the log was read from.  `plan`: `Plan.version` it was cut by.
    `schema`: names the shapes; records of equal schema number hold equal shapes under equal numbers.  `topic`: where it
    was published to; '' where an older program wrote it.
    """

    batch: LogBatch
    origin: str
    plan: int
    schema: int
    topic: str = ""


class _Body(msgspec.Struct, frozen=True, array_like=True):
    """The array of versions 1 and 2, in the order of its elements."""

    prev: Position
    last: Position
    transactions: tuple[Transaction, ...]
    rows: tuple[RowChange, ...]
    shapes: msgspec.Raw
    ddl: Ddl | None
    end_us: int
    origin: str
    plan: int
    schema: int
    topic: str = ""


def encode(batch: LogBatch, *, origin: str, plan: int, topic: str = "") -> bytes:
    """Returns the value of one record.  `batch.shapes` must hold all tables that its rows use; `resent` is not written.
    """
    shapes = _encode(batch.shapes)
    body = _Body(
        prev=batch.prev,
        last=batch.last,
        transactions=batch.transactions,
        rows=batch.rows,
        shapes=msgspec.Raw(shapes),
        ddl=batch.ddl,
        end_us=batch.end_us,
        origin=origin,
        plan=plan,
        schema=xxhash.xxh3_64_intdigest(shapes),
        topic=topic,
    )
    second = (batch.ddl is not None and batch.ddl.added) or any(map(_is_of_postgres, batch.shapes.values()))
    return (_SECOND if second else _FIRST) + _encode(body)


def _is_of_postgres(shape: Shape) -> bool:
    return shape.identity != "full" or any(column.type for column in shape.columns[:1])


def decode(value: bytes, topic: str = "") -> Record:
    """Returns the record of a Kafka value of any version so far.  Raises WireError, also for a record that says that it
    was published to another topic than `topic` ('': any will do): copied here, it is none of the publisher's.
    """
    if not value:
        raise WireError("a record without a value, which the publisher never writes", _FOREIGN)
    decoder = _DECODERS.get(value[0])
    if decoder is None:
        raise WireError(
            f"a record of version {value[0]}; this program reads up to version {VERSION}",
            "Run every worker of the feed with the newest version that any of them had; if all are the same: "
            + _FOREIGN,
        )
    try:
        record = decoder(memoryview(value)[1:])
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:  # bad UTF-8 is a ValueError
        raise WireError(f"a record of version {value[0]} is damaged: {error}", _FOREIGN) from error
    if topic and record.topic and record.topic != topic:
        raise WireError(f"a record of {record.topic}, which somebody has copied to {topic}", _FOREIGN)
    return record


def _decode(body: memoryview) -> Record:
    read = _BODY.decode(body)
    batch = LogBatch(
        prev=read.prev,
        last=read.last,
        transactions=read.transactions,
        rows=read.rows,
        shapes=_SHAPES.decode(read.shapes),
        ddl=read.ddl,
        end_us=read.end_us,
    )
    return Record(batch, read.origin, read.plan, read.schema, read.topic)


_FIRST: Final = b"\x01"
_SECOND: Final = b"\x02"
_encode = msgspec.msgpack.Encoder().encode
_BODY = msgspec.msgpack.Decoder(_Body, ext_hook=read_extension)
_SHAPES = msgspec.msgpack.Decoder(dict[int, Shape])
_DECODERS: Final[dict[int, Callable[[memoryview], Record]]] = {1: _decode, 2: _decode}
