"""Places beyond 4 GiB of a log file, which a request for the log cannot name: its offset has 32 bits.

A transaction is never split over files, so one of 5 GiB makes such a file.  It is asked for from its head, and what
lies before the place is passed over without being decoded: some seconds, once at each start there.  What is handed on
looks as if the server had begun at the place.  Events tell the lower 32 bits of offsets; none is so long that it
matters.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

from tidelock.adapters.mysql.binlog import events
from tidelock.adapters.mysql.binlog.damage import checked, matches
from tidelock.adapters.mysql.binlog.events import CHECKSUM_SIZE, HEADER, HEADER_SIZE
from tidelock.adapters.mysql.binlog.packets import Packet
from tidelock.adapters.ports.source_errors import LogGap
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Position

FURTHEST: Final = 0xFFFFFFFF
"""The last offset that a request can name."""
HEAD: Final = 4
_FILES: Final = 1 << 32
_OFFSET: Final = Struct("<Q").pack
_CHECKSUM: Final = Struct("<I").pack
_OK: Final = 0
_LOG_END: Final = 13  # in an event's header


def asked(offset: int) -> int:
    """The offset to ask for."""
    return offset if offset <= FURTHEST else HEAD


def begun_at(packets: Iterator[Packet], place: Position) -> Iterator[Packet]:
    """Yields what a server sends at the head of the file, in the form that it has at `place`; ends just before the
    events behind the place, which `packets` still holds.  Raises LogGap where the file ends before, DamagedLog."""
    file, offset = "", HEAD
    for packet in packets:
        b, p, end = packet
        if end == p or b[p] != _OK:
            yield packet  # the server's refusal
            return
        checked(b, p + 1, end, 0)
        _, kind, _, _, log_end, flags = HEADER(b, p + 1)
        made_up = not log_end or flags & events.ARTIFICIAL
        if kind == events.ROTATE and not file:
            file = place.file
            yield _changed(packet, HEADER_SIZE, _OFFSET(place.offset))
        elif kind in (events.ROTATE, events.HEARTBEAT, events.HEARTBEAT_V2):
            raise _short(place, offset)
        elif kind == events.FORMAT_DESCRIPTION:
            yield _changed(packet, _LOG_END, bytes(4))
        if not made_up:
            offset += (log_end - offset) % _FILES
        if offset >= place.offset:
            return


def _changed(packet: Packet, at: int, words: bytes) -> Packet:
    """The packet with other bytes from `at` of its event on, and the checksum that fits, if it has one."""
    b, p, end = packet
    event = bytearray(b[p + 1 : end])
    summed = matches(bytes(event), 0, len(event))
    event[at : at + len(words)] = words
    if summed:
        event[-CHECKSUM_SIZE:] = _CHECKSUM(zlib.crc32(event[:-CHECKSUM_SIZE]))
    whole = bytes((_OK,)) + bytes(event)
    return whole, 0, len(whole)


def _short(place: Position, offset: int) -> LogGap:
    return LogGap(
        f"{place.file} ends at {offset}, before {place}",
        f"If the feed's `start` says that place, name one that the log has; else {RESYNC}",
    )
