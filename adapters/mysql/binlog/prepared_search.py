"""A search for the prepare of a transaction that is committed later: the log is read backwards, file by file.

It is the last thing that the log says of its identifier before the commit, for a server refuses a second one of that
name until the first is decided.  Only a feed that begins (again) between a prepare and its commit has to look.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from tidelock.adapters.mysql.binlog import events, prepares
from tidelock.adapters.mysql.binlog.damage import MALFORMED, checked, unreadable
from tidelock.adapters.mysql.binlog.log_ends import log_files
from tidelock.adapters.mysql.binlog.payloads import transaction_events
from tidelock.adapters.mysql.binlog.prepared_log import log_from
from tidelock.adapters.mysql.binlog.prepares import Xid
from tidelock.adapters.mysql.connection import Address
from tidelock.adapters.mysql.errors import DamagedLog
from tidelock.adapters.ports.source_errors import PurgedPosition
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Position

_GROUPS: Final = (events.GTID, events.ANONYMOUS_GTID, events.GTID_TAGGED, events.MARIADB_GTID)
_SPEAKING: Final = (events.XA_PREPARE, events.QUERY, events.TRANSACTION_PAYLOAD)
_PREPARE: Final = "PREPARE"
_FIRST: Final = 4  # the offset of a file's first event


def find_prepare(endpoint: Address, xid: Xid, before: Position) -> Position:
    """Find where a transaction was prepared.

    Raises SourceError, PurgedPosition if the log does not reach back so far.
    """
    files = log_files(endpoint)
    for file in reversed(files):
        if Position(file, _FIRST).order > before.order:
            continue
        said = _last_said(endpoint, xid, file, before)
        if isinstance(said, Position):
            return said
        if said:
            break
    raise PurgedPosition(
        f"XA transaction {xid} is committed at {before}, but its rows were prepared before the log begins"
        f" ({files[0] if files else 'there is none'})",
        f"{RESYNC}. Keep logs longer than transactions stay prepared (binlog_expire_logs_seconds)",
    )


def _last_said(endpoint: Address, xid: Xid, file: str, before: Position) -> Position | bool:
    """Return where the group begins if the file's last word of the transaction is that it is prepared; else whether
    it has one."""
    found: Position | bool = False
    offset = group = _FIRST
    tail: int | None = None
    with closing(log_from(endpoint, file, _FIRST)) as packets:
        for b, p, end in packets:
            try:
                known = checked(b, p + 1, end, tail or 0)
            except DamagedLog as error:
                error.position = f"{file}:{offset}"
                raise
            _, kind, _, size, log_end, flags = events.HEADER(b, p + 1)
            if kind == events.FORMAT_DESCRIPTION:
                tail = known
            if kind == events.ROTATE and tail is not None:
                break  # a file that a stopped server ended has none of its own, but the next one begins with one
            if tail is None or not log_end or flags & events.ARTIFICIAL or kind == events.HEARTBEAT:
                continue
            if file == before.file and offset >= before.offset:
                break
            if kind in _GROUPS:
                group = offset
            try:
                words = [*_words(b, p + 1, end - tail)] if kind in _SPEAKING else ()
            except MALFORMED as error:
                raise unreadable(kind, error, f"{file}:{offset}", bool(tail)) from error
            for verb, other in words:
                if other == xid:
                    found = Position(file, group) if verb == _PREPARE else True
            offset += size
    return found


def _words(b: bytes, p: int, end: int) -> Iterator[tuple[str, Xid]]:
    """Read what an event, with its header at `p`, says of XA transactions."""
    kind, body = b[p + 4], p + events.HEADER_SIZE
    if kind == events.XA_PREPARE:
        one_phase, xid = prepares.of_event(b, body, end)
        yield "COMMIT" if one_phase else _PREPARE, xid
    elif kind == events.QUERY and b.startswith(b"XA ", at := events.query_text_at(b, body)):
        yield prepares.of_statement(b[at:end].decode())
    elif kind == events.TRANSACTION_PAYLOAD:
        for n, (inner, start, inner_end) in enumerate(transaction_events(b, body, end)):
            words = [*_words(inner, start, inner_end)]
            if n == 0 and not words:
                return  # it does not begin with XA START
            yield from words
