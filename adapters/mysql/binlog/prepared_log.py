"""The rows of one prepared transaction, read from the log once more, on a connection of its own."""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Final

from tidelock.adapters.mysql.binlog import events
from tidelock.adapters.mysql.binlog.assembly import Assembly
from tidelock.adapters.mysql.binlog.decoder import LogDecoder
from tidelock.adapters.mysql.binlog.far_places import asked, begun_at
from tidelock.adapters.mysql.binlog.log_file import NOBODY, log_session, packets
from tidelock.adapters.mysql.binlog.packets import Packet, dump
from tidelock.adapters.mysql.binlog.prepares import Event, Xid
from tidelock.adapters.mysql.binlog.tables import Tables
from tidelock.adapters.mysql.connection import Address, connect, flavor, variable
from tidelock.adapters.mysql.gtid import NoGtids
from tidelock.adapters.ports.source_errors import LogGap
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Position

_NON_BLOCKING, _ANNOTATE_ROWS = 1, 2
_CHUNK_ROWS: Final = 1 << 30  # none come: the rows wait for a commit, which is not looked for here


def log_from(endpoint: Address, file: str, offset: int) -> Generator[Packet]:
    """The log from there to its end, as packets whose first byte says that all is well.  Raises SourceError."""
    with log_session(endpoint) as connection:
        # Without its annotations MariaDB's log has holes, and offsets could not be compared.
        flags = _NON_BLOCKING | (_ANNOTATE_ROWS if flavor(connection).is_mariadb else 0)
        dump(connection, struct.pack("<IHI", asked(offset), flags, NOBODY) + file.encode())
        sent = packets(connection, endpoint)
        if asked(offset) != offset:
            yield from begun_at(sent, Position(file, offset))
        yield from sent


def prepared_events(endpoint: Address, tables: Tables, xid: Xid, place: Position) -> Iterator[Event]:
    """Read table maps and rows of the group that begins at `place`.  Raises SourceError; LogGap if it is another."""
    found: list[Event] = []
    assembly = Assembly(tables, place, NoGtids(), _CHUNK_ROWS)
    connection = connect(endpoint)
    checksums = variable(connection, "binlog_checksum") != "NONE"
    connection.close()
    decoder = LogDecoder(tables, assembly, checksums=checksums, prepared=found.append)
    with closing(log_from(endpoint, place.file, place.offset)) as group:
        for b, p, end in group:
            if end > p + 5 and b[p + 5] == events.TRANSACTION_PAYLOAD:
                for _ in decoder.payload(b, p + 1, end):
                    yield from found
                    found.clear()
            else:
                decoder.event(b, p + 1, end)
                yield from found
                found.clear()
            if decoder.prepares.ended == xid:
                return
            if assembly.state.boundary > place.offset:
                break
    raise LogGap(
        f"the log has no rows of XA transaction {xid} at {place}, where it was prepared",
        f"`tidelock run FEED` tries once more; if it stops here again, {RESYNC}",
    )
