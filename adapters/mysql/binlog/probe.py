"""Proof that receipts at a source come out of its log: without them, what feeds bring would go back whence it came.

A receipt may be missing in the log and all rows be there: its database is under `binlog_ignore_db`, a filter stands
between, the URL leads to another server than the feeds' that write.  So before a feed that names sites reads, it writes
a receipt of its own, under a random number and without any rows, and looks for it in the log.
"""

from __future__ import annotations

import secrets
import zlib
from contextlib import closing
from typing import Any, Final

import pymysql

from tidelock.adapters.bookkeeping.tables import RECEIPTS, quote
from tidelock.adapters.mysql.binlog.log_ends import current_position
from tidelock.adapters.mysql.binlog.named_tables import own_table
from tidelock.adapters.mysql.binlog.reader import BinlogReader
from tidelock.adapters.mysql.binlog.table_look import TableLook
from tidelock.adapters.mysql.connection import connect, explained, reader_endpoint, rows
from tidelock.adapters.ports.capture_messages import CaptureOrder
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Position, TableName

PROBE_GROUP: Final = -1_000_000
_NUMBER: Final = 3  # place of the batch in a receipt


def prove_receipts(order: CaptureOrder) -> None:
    """Passes where a receipt that is written now is in the log.  Raises SourceError."""
    assert order.sites is not None, "a feed without sites needs no proof"
    number = secrets.randbits(62)
    address = reader_endpoint(order.source)
    try:
        with closing(connect(address)) as connection:
            before = current_position(connection)
            _write(connection, order, number)
            after = current_position(connection)
    except pymysql.MySQLError as error:
        raise explained(error, address) from error
    if after.order <= before.order or not _is_there(order, number, before, after):
        raise UnsuitableLog(
            f"receipts in {order.own}.{RECEIPTS} at {order.source} are not in its log: changes that feeds bring to "
            f"site {order.sites.source} could not be told from its own, and would go round",
            f"Let the server log the database {order.own} (`binlog_ignore_db`, `binlog_do_db`, `sql_log_bin`), restart "
            "it, then `tidelock run FEED`",
        )


def _write(connection: pymysql.Connection[Any], order: CaptureOrder, number: int) -> None:
    """Writes the receipt and takes it away again: in the log both are there."""
    assert order.sites is not None
    table = f"{quote('mysql', order.own)}.{RECEIPTS}"
    site = order.sites.source
    rows(connection, "START TRANSACTION")
    rows(
        connection,
        f"INSERT INTO {table} (feed, grp, epoch, batch, covered, origin, path, marks, seen) "
        "VALUES ('', %s, 0, %s, '', %s, %s, '', '')",
        PROBE_GROUP,
        number,
        site,
        order.sites.target,
    )
    key = "feed = '' AND grp = %s AND epoch = 0 AND batch = %s"
    rows(connection, f"DELETE FROM {table} WHERE {key}", PROBE_GROUP, number)
    rows(connection, "COMMIT")


def _is_there(order: CaptureOrder, number: int, before: Position, after: Position) -> bool:
    receipts = TableName(order.own, RECEIPTS)
    look = TableLook(order.source, Mapping(order.rules, order.own))
    reader = BinlogReader(
        reader_endpoint(order.source),
        server_id=_own_id(order.server_id),
        wanted=lambda _: False,
        is_marker=receipts.__eq__,
        start=Position(before.file, before.offset),
        names=lambda mapped, _own: own_table(look, mapped),
    )
    with closing(reader):
        for chunk in reader.chunks():
            if _holds(chunk, number):
                return True
            if chunk.last.order >= after.order:
                return False
    raise AssertionError("chunks come for ever")


def _holds(chunk: SourceChunk, number: int) -> bool:
    return any(row[_NUMBER] == number for one in chunk.transactions for _, row in one.marks)


def _own_id(server_id: int) -> int:
    """A replica id other than the feed's own, whose reading it would end."""
    return 0x4000_0000 | zlib.crc32(f"{server_id}/probe".encode()) & 0x3FFF_FFFF
