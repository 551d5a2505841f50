"""Cost of a batch's rows on their way into a message: log frames, Kafka records, COPY lines, statements.

*codec*: msgpack of a `LogBatch`, as it travels between the capture process and the engine's.  *wire*: a record of the
changes topic.  *postgres*, *mariadb*, *mysql*: the text of one step of a batch, for the account table.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from bench.micro import account, decode
from bench.micro.case import Case, Factory
from tidelock.adapters.kafka import wire
from tidelock.adapters.mysql.target.statements import Dialect
from tidelock.adapters.mysql.target.statements import TableStatements as MySqlStatements
from tidelock.adapters.postgres.target.copy_text import CopyCommand
from tidelock.adapters.postgres.target.statements import TableStatements as PostgresStatements
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import DeleteRows, Step, UpsertRows

ROWS: Final = 10_000
BATCHES: Final = (1, 100, 1_000)
"""Rows a batch."""
PACKET_BYTES: Final = 16 << 20


def encoding(encode: Callable[[LogBatch], bytes]) -> Case:
    batches = _log()
    octets = sum(len(encode(batch)) for batch in batches)
    return Case(ROWS, lambda _: [encode(batch) for batch in batches], octets=octets)


def decoding(encode: Callable[[LogBatch], bytes], decode: Callable[[bytes], object]) -> Case:
    values = [encode(batch) for batch in _log()]
    return Case(ROWS, lambda _: [decode(value) for value in values], octets=sum(map(len, values)))


def _log() -> list[LogBatch]:
    return account.log(ROWS, 0)


def statements(
    texts: Callable[[Sequence[Row]], Iterable[str | bytes | CopyCommand]], batch_rows: int, images: bool = False
) -> Case:
    """`texts`: the statements of a batch.  `images`: of row images, as an embedded run has them."""
    rows = _images() if images else [account.row(number) for number in range(ROWS)]
    batches = [rows[at : at + batch_rows] for at in range(0, len(rows), batch_rows)]

    def work(_: object) -> int:
        return sum(_length(text) for batch in batches for text in texts(batch))

    return Case(len(rows), work, octets=work(None))


def _images() -> list[Row]:
    batches = decode.handed_over("mariadb", "account/bulk inserts")
    found = [change.after for batch in batches for change in batch.rows if change.after is not None]
    return found * (ROWS // len(found))


def _length(text: str | bytes | CopyCommand) -> int:
    return len(text.data) if isinstance(text, CopyCommand) else len(text)


def _postgres(step: str, batch_rows: int, images: bool) -> Case:
    table = account.binding()
    build, make = PostgresStatements(table, "dead_letter"), steps(table)[step]
    return statements(lambda rows: build.of(make(rows), careful=False), batch_rows, images)


def _mysql(dialect: Dialect, unique: bool, way: str, batch_rows: int) -> Case:
    build = MySqlStatements(account.binding("mysql", unique=unique), dialect, PACKET_BYTES)
    return statements(getattr(build, way), batch_rows)


def _mysql_delete(dialect: Dialect, batch_rows: int) -> Case:
    build = MySqlStatements(account.binding("mysql"), dialect, PACKET_BYTES)
    return statements(lambda rows: build.delete([row[:1] for row in rows]), batch_rows)


def steps(table: Binding) -> dict[str, Callable[[Sequence[Row]], Step]]:
    """Returns what the merge makes of rows."""
    return {
        "fresh rows": lambda rows: UpsertRows(table, list(rows), True),
        "rows over old ones": lambda rows: UpsertRows(table, list(rows), False),
        "deletes": lambda rows: DeleteRows(table, [row[:1] for row in rows]),
    }


def _cases() -> Iterator[tuple[str, Factory]]:
    pack = msgspec.msgpack.Encoder().encode
    record: Callable[[LogBatch], bytes] = functools.partial(wire.encode, origin="127.0.0.1:3306", plan=1)
    unpack: Callable[[bytes], Any] = msgspec.msgpack.Decoder(LogBatch).decode
    yield "codec/msgpack encode", functools.partial(encoding, pack)
    yield "codec/msgpack decode", functools.partial(decoding, pack, unpack)
    yield "wire/encode", functools.partial(encoding, record)
    yield "wire/decode", functools.partial(decoding, record, wire.decode)
    for rows in BATCHES:
        for name, images in itertools.product(steps(account.binding()), (False, True)):
            if images and name == "deletes":
                continue  # keys are tuples in either case
            kind = " of images" if images else ""
            yield f"postgres text/{name}{kind}, {rows:,} a batch", functools.partial(_postgres, name, rows, images)
    for dialect in Dialect:
        group = f"{dialect.value.lower()} text"
        for rows in BATCHES:
            for way in ("insert", "update", "upsert"):
                one = functools.partial(_mysql, dialect, way != "upsert", way, rows)
                yield f"{group}/{way}, {rows:,} a batch", one
            yield f"{group}/delete, {rows:,} a batch", functools.partial(_mysql_delete, dialect, rows)


CASES: Final[dict[str, Factory]] = dict(_cases())
