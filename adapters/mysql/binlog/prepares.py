"""XA transactions that are prepared and not yet decided, as a reader of the log knows them.

    GTID · XA START x · rows · XA END x · XA_PREPARE      …      GTID · XA COMMIT x

The rows of a prepared group belong to the place of its XA COMMIT, and carry that group's identity: until then nobody
can see them, and from the prepare on the source holds their locks, so nothing that conflicts lies between.

Events of a small group are kept as they are, to be read when the answer comes; of others only the place is known, and
they are read from the log once more (`prepared_log`), which is also where a prepare is looked for that came before the
stream began (`prepared_search`).  So a position in the log need not know what was prepared before it, and no memory
grows with the size or the age of what is prepared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from tidelock.engine.model.records import Position

KEPT_BYTES: Final = 1 << 20
"""Bytes of one group's events that are kept; a larger group is read again."""
KEPT_TOGETHER: Final = 16 << 20
MOST_PLACES: Final = 100_000
PATIENCE_SECONDS: Final = 600.0
"""How long a transaction may stay prepared before that is told."""

_STATEMENT: Final = re.compile(
    r"XA\s+(\w+)\s+X'([0-9a-f]*)'(?:\s*,\s*X'([0-9a-f]*)'(?:\s*,\s*(\d+))?)?\s*(ONE\s+PHASE)?\s*", re.IGNORECASE
)

Event: TypeAlias = tuple[int, bytes]
"""Type and body."""


class Xid(NamedTuple):
    """The log's events hold 32 bits of `format`, its statements all."""

    format: int
    gtrid: bytes
    bqual: bytes

    def __str__(self) -> str:
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format}"


def of_statement(text: str) -> tuple[str, Xid]:
    """The verb and the transaction of `XA COMMIT X'61',X'',1`, as servers log it.  Raises ValueError."""
    found = _STATEMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"an XA statement of another form: {text[:200]}")
    format_ = int(found[4] or 1) & 0xFFFFFFFF
    return found[1].upper(), Xid(format_, bytes.fromhex(found[2]), bytes.fromhex(found[3] or ""))


def of_event(b: bytes, p: int, end: int) -> tuple[bool, Xid]:
    """Read an XA_PREPARE event: whether it commits in one phase, and the transaction.  Raises ValueError."""
    format_, gtrid, bqual = (int.from_bytes(b[at : at + 4], "little") for at in (p + 1, p + 5, p + 9))
    data = p + 13
    if data + gtrid + bqual > end:
        raise ValueError("an XA_PREPARE event is shorter than its identifier")
    return bool(b[p]), Xid(format_, bytes(b[data : data + gtrid]), bytes(b[data + gtrid : data + gtrid + bqual]))


class Prepared(NamedTuple):
    """`place`: where its group begins.  `when`: the source's time, seconds since the epoch.  `touches`: it holds rows
    that somebody wants.  `events`: None if they are to be read again."""

    place: Position
    when: int
    touches: bool
    events: tuple[Event, ...] | None


class Prepares:
    """`sink`: takes the open group's events in place of the memory here.  `ended`: whose group ended last."""

    def __init__(self, sink: Callable[[Event], None] | None = None) -> None:
        self._sink = sink
        self._open: dict[Xid, Prepared] = {}  # in the order of their prepares
        self._kept: dict[Xid, int] = {}  # bytes of those whose events are kept
        self._total = 0
        self._place, self._when = Position("", 0), 0
        self._events: list[Event] | None = []
        self._size = 0
        self.touches = False
        self.ended: Xid | None = None

    def begin(self, place: Position, when: int) -> None:
        """A group that may be prepared begins at `place`."""
        self._place, self._when = place, when
        self._events, self._size = [], 0
        self.touches = False

    def keep(self, kind: int, b: bytes, p: int, end: int, *, wanted: bool) -> None:
        """An event of the open group, which holds a table's map or rows."""
        self.touches = self.touches or wanted
        if self._sink is not None:
            self._sink((kind, b[p:end]))
            return
        self._size += end - p
        if self._events is not None and self._size <= KEPT_BYTES:
            self._events.append((kind, b[p:end]))
        else:
            self._events = None

    def group(self) -> Prepared:
        """The open group."""
        events = tuple(self._events) if self._events is not None and self.touches else None
        self._events = []
        return Prepared(self._place, self._when, self.touches, events)

    def prepare(self, xid: Xid) -> None:
        """The open group is prepared.  Where too much would be kept, the oldest is forgotten."""
        self.decide(xid)
        group = self._open[xid] = self.group()
        if group.events is not None:
            self._kept[xid] = self._size
            self._total += self._size
        while self._total > KEPT_TOGETHER:
            oldest = next(iter(self._kept))
            self._open[oldest] = self._open[oldest]._replace(events=None)
            self._total -= self._kept.pop(oldest)
        if len(self._open) > MOST_PLACES:
            self.decide(next(iter(self._open)))

    def decide(self, xid: Xid) -> Prepared | None:
        """Takes the transaction out, which is committed or rolled back; None: its prepare was not seen."""
        self._total -= self._kept.pop(xid, 0)
        return self._open.pop(xid, None)

    def unanswered(self) -> tuple[Xid, Prepared] | None:
        """The oldest that holds wanted rows."""
        return next(((xid, group) for xid, group in self._open.items() if group.touches), None)
