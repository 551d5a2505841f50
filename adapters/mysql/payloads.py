"""Compressed parts of the log: MySQL's whole transactions, MariaDB's statements and row events."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

import zstandard

from adapters.mysql.events import HEADER_SIZE
from adapters.mysql.table_map import lenenc

_PAYLOAD_SIZE, _COMPRESSION = 1, 2
_ZSTD, _NONE = 0, 255
_BLOCK: Final = 1 << 20
_EVENT_SIZE: Final = Struct("<I").unpack_from


def inflated(b: bytes, p: int, end: int) -> bytes:
    """MariaDB's form: a byte with the method and the size of the length, the big-endian length, zlib data."""
    header = b[p]
    if header & 0xF0 != 0x80:
        raise ValueError(f"compression header {header:#x}, not zlib")
    start = p + 1 + (header & 7)
    plain = zlib.decompress(b[start:end])
    if len(plain) != int.from_bytes(b[p + 1 : start], "big"):
        raise ValueError("a compressed event has not the length it claims")
    return plain


def transaction_events(b: bytes, p: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """The events inside a TRANSACTION_PAYLOAD event, as (buffer, header, end); they carry no checksums.

    Decompresses a block at a time, so that a transaction takes memory only for its compressed form.
    """
    compression = _NONE
    while b[p]:
        field = b[p]
        length, p = lenenc(b, p + 1)
        if field == _COMPRESSION:
            compression, _ = lenenc(b, p)
        p += length
    payload = memoryview(b)[p + 1 : end]
    if compression == _NONE:
        yield from _events(iter([bytes(payload)]))
    elif compression == _ZSTD:
        yield from _events(_decompressed(payload))
    else:
        raise ValueError(f"transaction compression {compression}")


def _decompressed(payload: memoryview) -> Iterator[bytes]:
    with zstandard.ZstdDecompressor().stream_reader(payload, read_across_frames=True) as reader:
        while block := reader.read(_BLOCK):
            yield block


def _events(blocks: Iterator[bytes]) -> Iterator[tuple[bytes, int, int]]:
    buffer, at = b"", 0
    for block in blocks:
        buffer, at = buffer[at:] + block, 0
        while len(buffer) - at >= HEADER_SIZE:
            end = at + _EVENT_SIZE(buffer, at + 9)[0]
            if end > len(buffer):
                break
            yield buffer, at, end
            at = end
    if at != len(buffer):
        raise ValueError("a compressed transaction ends inside an event")
