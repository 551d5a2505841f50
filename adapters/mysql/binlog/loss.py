"""The place in a server's log behind which it has lost what it had committed.

A server that crashes loses the end of its log (`sync_binlog` other than 1), or is put back from a backup; then it
begins a new file.  So what is left of the log that was read ends where the last file does that was begun before the
loss.  A transaction that is known to be lost tells when that was: files that were begun later are of the time after it.
"""

from __future__ import annotations

from contextlib import closing

import msgspec
import pymysql

from tidelock.adapters.mysql.binlog.history import identity, witnessed
from tidelock.adapters.mysql.binlog.log_file import NOBODY
from tidelock.adapters.mysql.binlog.log_times import begun
from tidelock.adapters.mysql.binlog.positions import survey
from tidelock.adapters.mysql.connection import Address, connect, explained, rows
from tidelock.adapters.ports.history_words import LOSS_UNTOLD
from tidelock.adapters.ports.source import Loss
from tidelock.adapters.ports.source_errors import LossUntold
from tidelock.engine.model import lineage
from tidelock.engine.model.records import Position


def loss_before(endpoint: Address, lost: Position) -> Loss:
    """Returns what is left of the log in which `lost` was read.  Raises LossUntold where that cannot be told."""
    proof = lineage.decode(lost.proof)
    last = None if proof is None else proof.last
    if proof is None or last is None:
        raise LossUntold(f"{lost} does not say which transaction stood there", LOSS_UNTOLD)
    connection = connect(endpoint)
    try:
        with closing(connection):
            who = identity(connection)
            sizes = {str(row[0]): int(row[1]) for row in rows(connection, "SHOW BINARY LOGS")}
    except pymysql.MySQLError as error:
        raise explained(error, endpoint) from error
    if who != proof.server:
        raise LossUntold(f"{lost} was read from {proof.server}, and {endpoint} is {who}", LOSS_UNTOLD)
    since = 0
    for file in sorted(sizes, reverse=True):
        when = begun(endpoint, file, NOBODY)
        if when < last.when or (file == last.file and when == last.begun):
            break
        if when == last.when:
            told = f"{file} of {endpoint} was begun in the second of what was read last"
            raise LossUntold(f"{told}, so nobody can tell on which side of the loss it is", LOSS_UNTOLD)
        since = when
    else:
        told = f"the log of {endpoint} was begun after {lost}"
        raise LossUntold(f"{told}, so nothing is left of what was read", LOSS_UNTOLD)
    if not since:
        told = f"the server {endpoint} has begun no file since {lost}"
        raise LossUntold(f"{told}, so it was not started since", LOSS_UNTOLD)
    place = Position(file, sizes[file])
    gtids = survey(endpoint, place).gtids
    place = msgspec.structs.replace(witnessed(endpoint, place), gtids=gtids if lost.gtids else "")
    left = lineage.decode(place.proof)
    ended = left.last if left is not None else None
    return Loss(place, since, ended.source if ended is not None else "", ended.number if ended is not None else 0)
