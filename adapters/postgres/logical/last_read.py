"""The last transaction that was read, read once more: what shows that a log is still the one that a place is of.

A server that was put back from a copy of its disk has the same system identifier, timeline and slot, and goes on to use
the same places for other transactions.  So a place carries the last transaction before it (its place, time and number),
the server is asked to keep the log from that one's commit on, and a reader that begins anew has it sent first.  What
comes must be the same, and is left out then.  PostgreSQL cannot be asked for a transaction otherwise.

A place that is far behind the last transaction is confirmed as it is (`kept_from`): a server whose other tables are
busy could not remove its log else.  Before it comes to that the reader writes a message into the log (`SPEAK_BYTES`),
which is the last transaction then.
"""

from __future__ import annotations

from typing import Final, Protocol

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports import history_words
from tidelock.adapters.ports.source_errors import OtherHistory
from tidelock.adapters.postgres.logical import messages
from tidelock.adapters.postgres.logical.damage import DamagedMessage
from tidelock.adapters.postgres.logical.history import HINT
from tidelock.adapters.postgres.logical.relations import Relations
from tidelock.engine.model import lineage
from tidelock.engine.model.lineage import Group
from tidelock.engine.model.records import Position, spelled_lsn

FAR_BYTES: Final = 64 << 20
"""So much of the log is held for the sake of the last transaction."""
SPEAK_BYTES: Final = FAR_BYTES // 2
"""So far behind it the reader writes a message, which is the last transaction then."""


class _Ended(Protocol):
    source: str
    file: str
    last_number: int
    last_end: int
    last_us: int
    last_xid: int


def transaction_read(state: _Ended) -> Group:
    """The last whole transaction of a stream, as positions carry it: `number` is its commit's LSN, `mark` its xid."""
    return Group(
        state.source, state.last_number, state.last_us, state.file, 0, state.last_end, 0, 0, state.last_xid
    )


def kept_from(place: Position) -> int:
    """The LSN from which the server is to keep its log for a reader that begins anew at `place`."""
    last = _last(place)
    if last is None or place.offset - last.end >= FAR_BYTES:
        return place.offset
    return last.number


def _last(place: Position) -> Group | None:
    proof = lineage.decode(place.proof)
    return proof.last if proof is not None and proof.last is not None and proof.last.end <= place.offset else None


class LastRead:
    """Takes what a stream that begins at `begins` sends, up to the end of the last transaction before `start`, and
    compares that; of a transaction that was read in part also the beginning.

    `over`: there is nothing more to compare.  `take` and `keepalive` raise OtherHistory.
    """

    def __init__(self, server: Endpoint, start: Position, confirmed: int, relations: Relations) -> None:
        """`confirmed`: the place from which the slot keeps the log; what is before is not sent."""
        proof = lineage.decode(start.proof)
        last = _last(start)
        self._server, self._start = server, start
        self._relations = relations
        self._last = last if last is not None and confirmed <= last.number else None
        self._opened = proof.opened if proof is not None and start.rows else None
        self._inside = False
        self.begins = self._last.number if self._last is not None else start.offset

    @property
    def over(self) -> bool:
        return self._last is None and self._opened is None

    def take(self, payload: memoryview) -> bool:
        """Whether the message is of what was read before, and so is not to be read again."""
        b = bytes(payload)
        kind = b[0] if b else 0
        if self._last is None:
            if kind == messages.BEGIN:
                self._compare_opened(messages.begin(b))
            return False
        if kind == messages.BEGIN:
            self._compare(self._last, messages.begin(b))
            self._inside = True
        elif not self._inside:
            raise DamagedMessage("a message comes where no transaction is open")
        elif kind == messages.COMMIT:
            self._last = None
        elif kind == messages.RELATION:  # told once a stream, also to whoever reads on
            self._relations.tell(messages.relation(b))
        elif kind == messages.TYPE:
            self._relations.name_type(messages.type_(b))
        return True

    def keepalive(self, end: int) -> None:
        """The server has sent all that was committed before `end`."""
        if self._last is not None and not self._inside and end >= self._last.end:
            raise self._other(self._last.number, self._last.moment_us, "no transaction of the feed's tables is there")

    def _compare(self, last: Group, found: messages.Begin) -> None:
        if (found.commit_lsn, found.commit_us, found.xid) != (last.number, last.moment_us, last.mark):
            raise self._other(last.number, last.moment_us, _said(found))

    def _compare_opened(self, found: messages.Begin) -> None:
        assert self._opened is not None
        _, number, moment_us = self._opened
        if (found.commit_lsn, found.commit_us) != (number, moment_us):
            raise self._other(number, moment_us, _said(found))
        self._opened = None

    def _other(self, number: int, moment_us: int, found: str) -> OtherHistory:
        error = OtherHistory(
            f"the log of {self._server} is not the one that was read up to {self._start}: that had a transaction of "
            f"{history_words.time(moment_us)} at {spelled_lsn(number)}; here {found}, as of a server that was put back "
            "from a backup",
            HINT,
        )
        error.position = str(self._start)
        return error


def _said(found: messages.Begin) -> str:
    return f"one of {history_words.time(found.commit_us)} at {spelled_lsn(found.commit_lsn)} comes in its place"
