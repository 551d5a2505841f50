"""Compressed parts of the log: MySQL's whole transactions, MariaDB's statements and row events."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

import zstandard

from tidelock.adapters.mysql.binlog.events import HEADER_SIZE
from tidelock.adapters.mysql.binlog.table_map import lenenc

_PAYLOAD_SIZE, _COMPRESSION, _PLAIN_SIZE = 1, 2, 3
_ZSTD, _NONE = 0, 255
_BLOCK: Final = 1 << 20
_LONGEST: Final = 1 << 30  # the largest packet, and so the largest row, that a server takes
_EVENT_SIZE: Final = Struct("<I").unpack_from


def inflated(b: bytes, p: int, end: int) -> bytes:
    """MariaDB's form: a byte with the method and the size of the length, the big-endian length, zlib data."""
    header = b[p]
    if header & 0xF0 != 0x80:
        raise ValueError(f"compression header {header:#x}, not zlib")
    start = p + 1 + (header & 7)
    length = int.from_bytes(b[p + 1 : start], "big")
    if start > end or length > _LONGEST:
        raise ValueError(f"a compressed event that claims {length:,} bytes")
    stream = zlib.decompressobj()
    plain = stream.decompress(b[start:end], length + 1)  # no memory for more than it claims
    if len(plain) != length or not stream.eof:
        raise ValueError("a compressed event has not the length it claims")
    return plain


def transaction_events(b: bytes, p: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """The events inside a TRANSACTION_PAYLOAD event, as (buffer, header, end); they carry no checksums.

    Decompresses a block at a time, so that a transaction takes memory only for its compressed form.
    """
    fields = {_COMPRESSION: _NONE}
    while b[p]:
        field = b[p]
        length, p = lenenc(b, p + 1)
        fields[field], _ = lenenc(b, p)
        p += length
        if p >= end:
            raise ValueError("a compressed transaction without a payload")
    payload = memoryview(b)[p + 1 : end]
    if fields.get(_PAYLOAD_SIZE, len(payload)) != len(payload):
        raise ValueError("a compressed transaction has not the length it claims")
    compression = fields[_COMPRESSION]
    if compression == _NONE:
        yield from _events(iter([bytes(payload)]), fields.get(_PLAIN_SIZE))
    elif compression == _ZSTD:
        yield from _events(_decompressed(payload), fields.get(_PLAIN_SIZE))
    else:
        raise ValueError(f"transaction compression {compression}")


def _decompressed(payload: memoryview) -> Iterator[bytes]:
    with zstandard.ZstdDecompressor().stream_reader(payload, read_across_frames=True) as reader:
        while block := reader.read(_BLOCK):
            yield block


def _events(blocks: Iterator[bytes], total: int | None) -> Iterator[tuple[bytes, int, int]]:
    """Yield the events.  `total`: bytes that all events have together, None if that is not said."""
    buffer, at, came = b"", 0, 0
    for block in blocks:
        came += len(block)
        if total is not None and came > total:
            raise ValueError("a compressed transaction is longer than it claims")
        buffer, at = buffer[at:] + block, 0
        while len(buffer) - at >= HEADER_SIZE:
            size = _EVENT_SIZE(buffer, at + 9)[0]
            if size < HEADER_SIZE or size > _LONGEST:
                raise ValueError(f"an event of {size:,} bytes in a compressed transaction")
            end = at + size
            if end > len(buffer):
                break
            yield buffer, at, end
            at = end
    if at != len(buffer) or came != (came if total is None else total):
        raise ValueError("a compressed transaction ends inside an event")
