"""Options of a sink, whichever database the target is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

from tidelock.adapters.bookkeeping.lease import Entry
from tidelock.adapters.ddl.rules import ALL, DdlRules
from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.records import TableName


@dataclasses.dataclass(frozen=True)
class SinkOptions:
    """`schema`: of the bookkeeping.  `origin`, `path`: the receipts' words for the source, of a feed without `sites`.

    `target_name`: source table to target table, for DDL; `ddl`: what the feed says of it.
    `eager`: all sessions are opened right after a takeover, not each when its lane has its first batch.  `entry`: the
    name that a takeover leaves.  Lock waits, also of a takeover for the older owner's open batches, end after
    `lock_timeout_seconds`; None: after the database's usual time here.
    `replace`: steps may delete rows for others (`on_conflict: replace`).  `stamps`: rows come with stamps of their own,
    so the tables' triggers stand aside.  `arbitrates`: the target is the arbiter of conflicts, and batches may decide.
    `displaces`: the source is, and rows of the target may have to make room.
    `synchronous_commit`: PostgreSQL's setting of that name; MySQL's servers have it of their own.
    """

    feed: str
    group: int = 0
    schema: str = "tidelock"
    lanes: int = 8
    origin: str = ""
    path: str = ""
    sites: Sites | None = None
    zero_dates: Literal["dead_letter", "null"] = "dead_letter"
    target_name: Callable[[TableName], TableName] = lambda name: name
    ddl: DdlRules = ALL
    eager: bool = False
    entry: Entry | None = None
    lock_timeout_seconds: float | None = None
    synchronous_commit: bool = False
    replace: bool = False
    stamps: bool = False
    arbitrates: bool = False
    displaces: bool = False
