"""Damaged events of a log: by the CRC-32 that ends each, by their size, and by bytes that cannot be read.

A byte that changed on a disk or on the way is seen by the checksum, and the event is not applied.  Whether the events
of a log file have one (binlog_checksum is not NONE) is said by the FORMAT_DESCRIPTION event at its head.  That event's
own is valid where it says so: servers compute it without the flag that marks a file as being written, clear that flag
for a replica, and compute it anew where they change more.  Events that a server makes up for a replica (ROTATE,
heartbeats) have it like all others.

An event whose checksum fits, or that has none, may still hold anything: whatever reading it raises is in `MALFORMED`.

The compiled form of usual events has its own CRC-32 (`crc32.h`), which costs a few nanoseconds an event.
"""

from __future__ import annotations

import zlib
from struct import Struct
from struct import error as StructError
from typing import Final

import zstandard

from tidelock.adapters.mysql.binlog.events import CHECKSUM_SIZE, FORMAT_DESCRIPTION, HEADER, HEADER_SIZE
from tidelock.adapters.mysql.errors import WAY_OUT, DamagedLog

MALFORMED: Final = (
    ValueError, LookupError, ArithmeticError, StructError, zlib.error, zstandard.ZstdError, RecursionError, SyntaxError,
    TypeError,
)  # fmt: skip
_STORED: Final = Struct("<I").unpack_from
_OFF, _CRC32 = 0, 1
_FORMAT_SIZE: Final = HEADER_SIZE + 2 + 50 + 4 + 1  # version, the server's, time, size of headers; before other sizes


def checked(b: bytes, p: int, end: int, tail: int) -> int:
    """Looks at an event as a whole, its header at `p`; returns how many bytes a checksum takes from this event on.

    `tail`: how many before it.  Raises DamagedLog.
    """
    if end - p < HEADER_SIZE:
        raise DamagedLog(f"an event ends within its header, after {end - p} bytes")
    kind, size = b[p + 4], HEADER(b, p)[3]
    if size != end - p:
        raise DamagedLog(f"an event of type {kind} says that it has {size:,} bytes, and has {end - p:,}")
    if kind == FORMAT_DESCRIPTION:
        return _of_format(b, p, end)
    if tail and (size < HEADER_SIZE + tail or not matches(b, p, end)):
        raise mismatch(kind)
    return tail


def matches(b: bytes, p: int, end: int) -> bool:
    """Tell whether the last four bytes are the CRC-32 of those before."""
    body = end - CHECKSUM_SIZE
    return bool(zlib.crc32(memoryview(b)[p:body]) == _STORED(b, body)[0])


def mismatch(kind: int) -> DamagedLog:
    """Make the error for an event that does not have the checksum of its bytes."""
    return DamagedLog(f"an event of type {kind} is damaged: its bytes do not give the checksum that it ends with")


def unreadable(kind: int, error: Exception, place: str, checksums: bool) -> DamagedLog:
    """Make the error for an event that cannot be read.

    `error`: of `MALFORMED`; `place`: of the event, `file:offset`; `checksums`: its own fits, or it has none.
    """
    reason = "bad UTF-8" if isinstance(error, UnicodeDecodeError) else f"{type(error).__name__}: {error}"
    checked = "its checksum is right" if checksums else "the source writes no checksums"
    problem = DamagedLog(
        f"an event of type {kind} cannot be read ({reason}; {checked})",
        f"{WAY_OUT}. Where the file is whole, keep it and report this: the reader does not know its form",
    )
    problem.position = place
    return problem


def _of_format(b: bytes, p: int, end: int) -> int:
    """The algorithm is behind everything but the checksum, for which there is always room."""
    algorithm = end - CHECKSUM_SIZE - 1
    if algorithm < p + _FORMAT_SIZE or b[algorithm] not in (_OFF, _CRC32):
        raise DamagedLog("the event at the head of a log file names no checksum algorithm that is known")
    if b[algorithm] == _CRC32:
        if not matches(b, p, end):
            raise mismatch(FORMAT_DESCRIPTION)
        return CHECKSUM_SIZE
    as_if = b[p:algorithm] + bytes([_CRC32]) + b[algorithm + 1 : end]
    if matches(as_if, 0, len(as_if)):  # one byte turns off the checks of a whole file
        raise mismatch(FORMAT_DESCRIPTION)
    return 0
