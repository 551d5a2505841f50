"""A source's log as it is read, in chunks of transactions, and as it moves on, in batches of rows."""

from __future__ import annotations

from typing import Final

import msgspec

from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Position, Row, RowChange, Shape, Transaction
from tidelock.engine.model.schema_change import Ddl


class LogBatch(msgspec.Struct, array_like=True):
    """The unit that moves: rows of whole or partial transactions in log order, or one DDL statement, never both.

    `prev`, `last`: positions before the first and after the last record; `prev` equals the previous batch's `last`.
    `rows`: a tuple, or PackedRows, which msgspec could not name here.
    `shapes`: tables first used in this batch, by their number.
    `end_us`: commit time of the last transaction seen, also of filtered ones (0: unknown).
    `resent`: this batch answers a resend request, so its `prev` is taken as is (design 4).
    `origins`: of transactions that came to the source from other sites.
    `seen`: a place in the *target's* log; the source had applied all before it when it made these changes.  None: that
    is not known, or the feed has no sites.
    """

    prev: Position
    last: Position
    transactions: tuple[Transaction, ...] = ()
    rows: tuple[RowChange, ...] = ()
    shapes: dict[int, Shape] = {}
    ddl: Ddl | None = None
    end_us: int = 0
    resent: bool = False
    origins: tuple[Origin, ...] = ()
    seen: Position | None = None


RECEIPT: Final = 0
CHECKPOINT: Final = 1
VERDICT: Final = 2


class SourceTransaction(msgspec.Struct, array_like=True):
    """One source transaction as an adapter decoded it, or a part of one too large to hold (`complete` False).

    `first_ordinal`: ordinal of the first row image in this part, counted before tables were filtered out;
    `ordinals`: how many row images this part spans, filtered ones included.
    `file`, `end`: where reading goes on after it.  `rows`: those of the wanted tables.
    `marks`: what feeds that write to the source have left in it, as (kind, row): receipts (`RECEIPT`, rows inserted
    into `tidelock_progress`, design 6), checkpoints (`CHECKPOINT`, rows of `tidelock_checkpoint`) and verdicts
    (`VERDICT`: the ordinal and a row of `tidelock_verdicts`).
    `verdicts`: the latter as changes: an insert of the row that stands, or a delete that tells the key alone.
    """

    source: str
    number: int
    file: str
    end: int
    rows: list[RowChange]
    first_ordinal: int = 0
    ordinals: int = 0
    complete: bool = True
    commit_us: int = 0
    ddl: Ddl | None = None
    marks: tuple[tuple[int, Row], ...] = ()
    verdicts: tuple[RowChange, ...] = ()


class SourceChunk(msgspec.Struct, array_like=True):
    """Chunk of a source's log, as a reader hands it over: about 500 rows of transactions, or exactly one with a DDL
    statement.

    `shapes`: tables first seen in this chunk, by number.  `last`: the position after it, GTIDs included.
    `server_us`: the time the source last told (also from heartbeats), microseconds since the epoch.
    """

    transactions: list[SourceTransaction]
    last: Position
    shapes: dict[int, Shape] = {}
    server_us: int = 0
