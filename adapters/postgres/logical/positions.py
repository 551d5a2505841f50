"""Places in PostgreSQL's log: LSNs, the server's identity and its timelines, as the engine's `Position`.

`file` is `SYSTEM_IDENTIFIER/TIMELINE`, `offset` the LSN behind the last whole transaction.  The proof names the
database beside the system: a slot's log is that of one database.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tidelock.engine.model import lineage
from tidelock.engine.model.lineage import Proof
from tidelock.engine.model.records import Position

_PAGE: Final = 8192
_HEADERS: Final = (24, 40)  # of a page of the log, and of the first one in its file


class Identity(msgspec.Struct, frozen=True):
    """A server's identity: what `IDENTIFY_SYSTEM` answers.

    `flushed`: the end of what is on its disk.
    """

    system: str
    timeline: int
    database: str
    flushed: int

    @property
    def source(self) -> str:
        """Source of its transactions: the same after a failover, as the timeline is no part of it."""
        return f"{self.system}/{self.database}"

    def place(self, lsn: int, rows: int = 0) -> Position:
        """The place at this LSN, with its proof."""
        return Position(f"{self.system}/{self.timeline}", lsn, rows, proof=lineage.encode(Proof(self.source, 0)))


def lsn_of(text: str) -> int:
    """Reads `0/16B3748`.  Raises ValueError."""
    high, slash, low = text.partition("/")
    if not slash:
        raise ValueError(f"no LSN: {text}")
    return int(high, 16) << 32 | int(low, 16)


def system_of(place: Position) -> str:
    return place.file.partition("/")[0]


def timeline_of(place: Position) -> int:
    """The timeline that the place was read on; 0 where it is none of PostgreSQL's."""
    number = place.file.partition("/")[2]
    return int(number) if number.isdigit() else 0


def record_end(inserted: int) -> int:
    """The end of the last record, from where the next one begins: at the end of a page a header is between them.

    A reader of the log tells the one, `pg_current_wal_insert_lsn()` the other.
    """
    return inserted - inserted % _PAGE if inserted % _PAGE in _HEADERS else inserted
