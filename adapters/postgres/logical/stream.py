"""The stream of a slot's log: COPY BOTH by libpq, in messages, and what is told to the server in return.

Server to client: `w`, a piece of the log, and `k`, a keepalive with the place up to which the server has read its log.
Client to server: `r`, a standby status: how far we have received, and how far the server need keep nothing for us.
"""

from __future__ import annotations

import time
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelock.adapters.ports.source_errors import LogGap, SourceError, Unreachable, UnsuitableLog
from tidelock.adapters.postgres.logical.libpq import received_by
from tidelock.adapters.postgres.logical.light_psycopg import OperationalError, pq
from tidelock.adapters.postgres.logical.session import Session, lost, refusal
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import spelled_lsn

if TYPE_CHECKING:
    from tidelock.adapters.postgres.logical.row_decoder import UsualMessages

DATA: Final = 0x77  # w
KEEPALIVE: Final = 0x6B  # k
BEGUN_US: Final = 946_684_800_000_000
"""PostgreSQL counts from 2000-01-01, we from 1970."""
_UNDEFINED: Final = "42704"
_NO_MORE: Final = -1  # says libpq at the end of the stream; -2 where the connection is broken
_MOST_AT_ONCE: Final = 2_000  # messages, a millisecond or two of them
_DATA_HEAD: Final = Struct(">xQQq")
_KEEPALIVE_BODY: Final = Struct(">xQqB")
_STATUS: Final = Struct(">cQQQqB")


class Keepalive(NamedTuple):
    """`end`: the server has sent all that was committed before.  `clock_us`: its clock, microseconds since the epoch.
    `asks`: it wants an answer at once."""

    end: int
    clock_us: int
    asks: bool


class Stream:
    """The log of a slot behind a place, begun."""

    def __init__(self, session: Session, slot: str, start: int) -> None:
        """`slot`: of the publication too.  Raises SourceError."""
        self._session = session
        self._connection = session.connection
        self._received = start
        self._by_address = received_by(self._connection)
        self._said = 1
        options = f"proto_version '1', publication_names '\"{slot}\"', messages 'true'"
        result = session.ask(f'START_REPLICATION SLOT "{slot}" LOGICAL {spelled_lsn(start)} ({options})')
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise LogGap(f"{session.place} did not begin to send the log", "See the server's log")

    @property
    def takes_usual(self) -> bool:
        """Can `take` be used?  Else there is `next`."""
        return self._by_address is not None

    def fileno(self) -> int:
        return self._connection.socket

    def next(self) -> memoryview | None:
        """The next message, None where none has come yet.  Raises SourceError."""
        connection = self._connection
        try:
            size, data = connection.get_copy_data(1)
            if size == 0:
                connection.consume_input()
                size, data = connection.get_copy_data(1)
        except OperationalError as error:
            raise self._broken(str(error)) from error
        if size > 0:
            return data
        if size < 0:
            raise self._ended()
        return None

    def take(self, usual: UsualMessages) -> tuple[int, memoryview | None]:
        """Has `usual` take the messages that it knows; returns how many it took, and the next one that it leaves, None
        where none has come yet or it has made a chunk.  Raises SourceError."""
        taken, left = self._take_received(usual)
        if self._said == 0 and not taken:
            try:
                self._connection.consume_input()
            except OperationalError as error:
                raise self._broken(str(error)) from error
            taken, left = self._take_received(usual)
        if self._said < 0 and not taken:
            raise self._ended() if self._said == _NO_MORE else self._broken(self._connection.error_message.decode())
        return taken, None if left is None else memoryview(left)

    def _take_received(self, usual: UsualMessages) -> tuple[int, bytes | None]:
        """Has `usual` take from libpq once.  The end is told once, so it is kept until what came before is taken."""
        if self._said < 0:
            return 0, None
        assert self._by_address is not None, "asked for where `takes_usual`"
        taken, place, self._said, left = usual.take_received(*self._by_address, _MOST_AT_ONCE)
        self._received = max(self._received, place)
        return taken, left

    def data(self, message: memoryview) -> tuple[memoryview, int]:
        """Returns the plugin's message in a DATA message, and the place that it is of."""
        place, end, _ = _DATA_HEAD.unpack_from(message)
        self._received = max(self._received, place, end)
        return message[_DATA_HEAD.size :], place

    def keepalive(self, message: memoryview) -> Keepalive:
        """Read a KEEPALIVE message."""
        end, clock, asks = _KEEPALIVE_BODY.unpack_from(message)
        self._received = max(self._received, end)
        return Keepalive(end, clock + BEGUN_US, bool(asks))

    def tell(self, stored: int, *, ask: bool) -> None:
        """Tell the server how far we are: it need keep nothing before `stored` (0: that is not known).  `ask`: for a
        keepalive.  Raises SourceError."""
        clock = time.time_ns() // 1000 - BEGUN_US
        try:
            self._connection.put_copy_data(_STATUS.pack(b"r", self._received, stored, stored, clock, ask))
            self._connection.flush()
        except OperationalError as error:
            raise self._broken(str(error)) from error

    def push(self) -> bool:
        """Send what waits; True where some is left.  Raises SourceError."""
        try:
            return bool(self._connection.flush())
        except OperationalError as error:
            raise self._broken(str(error)) from error

    def unknown(self, message: memoryview) -> LogGap:
        """The error for a message of another kind."""
        return LogGap(
            f"{self._session.place} sent a replication message of kind {bytes(message[:1])!r}, which is not known",
            f"Please report this; {RESYNC}",
        )

    def _ended(self) -> SourceError:
        """Why the stream is over."""
        try:
            result = self._connection.get_result()
        except OperationalError as error:
            return lost(self._session.place, str(error))
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            return self._refused(result)
        return Unreachable(f"{self._session.place} ended the stream", "Start a new reader from the last position")

    def _refused(self, result: pq.abc.PGresult) -> SourceError:
        """Why the server reads its log no further."""
        error = refusal(self._session.place, result)
        if getattr(error, "code", "") != _UNDEFINED:  # of all objects it looks for the publication alone
            return error
        return UnsuitableLog(
            f"the feed had no publication where its log is read on: {error.message}",
            "It was dropped, or had another name: what was changed meanwhile is not in the log. `tidelock check FEED` "
            f"prints how it is made where it is still missing; then {RESYNC}",
        )

    def _broken(self, said: str) -> SourceError:
        """Why the connection is over: a server that ends a session says so before."""
        try:
            result = self._connection.get_result()
        except OperationalError:
            result = None
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            return self._refused(result)
        return lost(self._session.place, said)
