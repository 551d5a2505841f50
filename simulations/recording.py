"""Journals and simulated runs: an owner's run written as a journal, and the source's log read back out of one.

The format is that of `adapters.runtime.journal`, so `tidelock replay` steps a simulated run as it steps a real one.  A
journal holds the log as its machine received it: batches twice, out of order, again after a resend.  What comes out
here is the log itself, each row once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from tidelock.adapters.runtime.journal import Journal, JournalError, read
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, Row, RowChange, Shape, TableName, Transaction
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.schema_change import Ddl
from tidelock.engine.protocol.events import ApplyEvent, DdlApplied, LogArrived, TakenOver
from tidelock.simulations.trial import Trial


class Logged(msgspec.Struct):
    """A transaction of the source, or a statement.  `rows`: (shape, before, after) by ordinal."""

    source: str
    number: int
    rows: dict[int, tuple[Shape, Row | None, Row | None]] = {}
    ddl: Ddl | None = None
    complete: bool = False


class Recording(msgspec.Struct):
    """`tables`: the target's, as they were last seen.  `log`: what changed a row or a schema, in order."""

    tables: dict[TableName, TargetTable]
    log: list[Logged]


def write_journal(trial: Trial, path: Path | str, owner: int) -> None:
    """The run of one owner.  Raises OSError."""
    assert trial.options, "the trial was not told"
    journal = Journal(path, trial.options[owner])
    try:
        for turn in trial.turns:
            if turn.owner == owner:
                journal.record(turn.now, turn.events)
    finally:
        journal.close()


def read_recording(path: Path | str) -> Recording:
    """Raises OSError, and JournalError where the file is no journal."""
    reading = _Reading()
    for step in read(path):
        if isinstance(step, tuple):
            reading.take(step[1])
    log = [logged for logged in reading.log.values() if logged.complete and (logged.rows or logged.ddl)]
    if not log:
        raise JournalError(f"{path}: no change of a row is in it")
    return Recording(reading.tables, log)


class _Reading:
    """`end`: up to where the log has come without a gap.  `shapes`: by number, as each reader counts them."""

    def __init__(self) -> None:
        self.tables: dict[TableName, TargetTable] = {}
        self.log: dict[tuple[str, int], Logged] = {}
        self._shapes: dict[int | None, dict[int, Shape]] = {}
        self._end: Position | None = None

    def take(self, events: Sequence[ApplyEvent]) -> None:
        for event in events:
            match event:
                case TakenOver():
                    self.tables.update(event.tables)
                    self._end = self._end or event.checkpoint
                case DdlApplied():
                    self.tables.update(event.tables)
                case LogArrived():
                    for batch in event.batches:
                        self._batch(batch, self._shapes.setdefault(event.reader, {}))
                case _:
                    pass

    def _batch(self, batch: LogBatch, shapes: dict[int, Shape]) -> None:
        shapes.update(batch.shapes)
        if self._end is None or not _goes_on(batch, self._end):
            return
        self._end = batch.last
        if batch.ddl is not None:
            ddl = batch.ddl
            self.log.setdefault((ddl.source, ddl.number), Logged(ddl.source, ddl.number, ddl=ddl, complete=True))
        cuts = pairwise([*(transaction.first for transaction in batch.transactions), len(batch.rows)])
        for transaction, (first, end) in zip(batch.transactions, cuts, strict=True):
            self._transaction(transaction, batch.rows[first:end], shapes)

    def _transaction(self, transaction: Transaction, rows: Sequence[RowChange], shapes: dict[int, Shape]) -> None:
        place = (transaction.source, transaction.number)
        logged = self.log.setdefault(place, Logged(*place))
        for row in rows:
            logged.rows.setdefault(row.ordinal, (shapes[row.table], row.before, row.after))
        logged.complete = logged.complete or transaction.complete


def _goes_on(batch: LogBatch, end: Position) -> bool:
    """Not one behind a gap, which will come again, nor one seen before.  A promoted replica counts its log anew."""
    if batch.prev.gtids and batch.prev.gtids == end.gtids:
        return True
    return batch.prev.order <= end.order < batch.last.order
