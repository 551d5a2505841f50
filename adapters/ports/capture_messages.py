"""Messages between the engine's process and the one that reads a source's log for it, whichever source it is.

They travel in frames (`adapters.process.frames`).  The batches of the log have kinds of frames of the source's own.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.source_errors import SourceError, Unreachable
from tidelock.adapters.ports.table_form import TableForm
from tidelock.engine.capture.mapping import Rule
from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import TargetTable

FAILED: Final = 0x46
FORMS: Final = 0x54
UNANSWERED: Final = 0x55
STATEMENTS: Final = "statements"
"""An argument of a capture process: the log that it will read is likely to begin with some."""


class CaptureOrder(msgspec.Struct, frozen=True):
    """The order for a capture process.  Holds a password: it travels over the socket pair only.

    `server_id`: what the source knows this reader by, among its readers.  A batch holds about `chunk_rows` rows, fewer
    where they are `chunk_bytes` in the source's log.  `images`: its rows may be row images, as `Source.batch_decoder`
    knows them.  A transaction that stays prepared for longer than `patience_seconds` is told in a frame of kind
    UNANSWERED, and when it is decided too.  `further`: places that the log must hold besides `start`
    (`engine.protocol.effects.RequestResend`).  `cuts`: places at which a batch ends, wherever others do
    (`engine.capture.chunk_cutter`).  `stored`: the checkpoint that the target is known to have, before which a source
    need keep nothing for us; None: that is not known.  `reader_name`: the name of all readers of this log of which one
    alone is to read, at a source that has such names; the sessions of those before this one are over, and may be ended
    ('': that is not known).  `forms`: all that are kept of the tables; those that hold at `start` are in force.
    `keeps_forms`: what the reader learns of tables is kept.
    `node`, `sites`: by which rule changes do not come back (`engine.capture.origin`), with the sites' names or without.
    `tables`: the target's, where some do, and `groups` of their columns (`engine.capture.echoes`).
    """

    source: Endpoint
    server_id: int
    rules: tuple[Rule, ...]
    own: str
    node: str
    start: Position
    chunk_rows: int = 500
    chunk_bytes: int = 4 << 20
    heartbeat_seconds: float = 1.0
    images: bool = False
    patience_seconds: float = 600.0
    further: tuple[Position, ...] = ()
    cuts: tuple[Position, ...] = ()
    stored: Position | None = None
    reader_name: str = ""
    forms: tuple[TableForm, ...] = ()
    sites: Sites | None = None
    tables: tuple[TargetTable, ...] = ()
    groups: dict[TableName, tuple[tuple[str, ...], ...]] = {}
    keeps_forms: bool = False


class Learned(msgspec.Struct, frozen=True):
    """Tells what a reader has learned of tables, in a frame of kind FORMS before the batches that it is about.

    `forms`: to be kept before a checkpoint passes their places (`adapters.ports.table_form`).  `looked`: a place of the
    log behind which all stands that it does not tell by itself, of the time when the reader began or later; None: that
    is not known yet, or was told before.
    """

    forms: tuple[TableForm, ...] = ()
    looked: Position | None = None

    def __bool__(self) -> bool:
        return bool(self.forms) or self.looked is not None


class Stored(msgspec.Struct, frozen=True, tag=True):
    """Tells a capture process that the target has stored this checkpoint, for good."""

    position: Position


class Unanswered(msgspec.Struct, frozen=True):
    """A transaction that the source has prepared and not decided: `since` when, by its clock, in seconds since the
    epoch; 0: there is none any more."""

    xid: str = ""
    since: int = 0

    @property
    def seconds(self) -> float:
        """Seconds since then, by our clock."""
        return max(0.0, time.time() - self.since) if self.xid else 0.0

    def __str__(self) -> str:
        return prepared_for(self.xid, self.seconds)


def prepared_for(xid: str, seconds: float) -> str:
    """In words."""
    return f"XA {xid} is prepared at the source for {seconds / 60:.0f} min: commit it or roll it back"


LOG: Final = "log in Kafka"
"""The end between a feed of workers and its source, in words."""


class Failed(msgspec.Struct, frozen=True):
    """Reason why reading ended: `kind` is the error's class, `message` and `hint` are for the operator.  `at`: the end
    that hinders, in words.
    """

    kind: str
    message: str
    hint: str
    retryable: bool
    at: str = "source"

    @classmethod
    def of(cls, error: SourceError) -> Failed:
        where = f" at {error.position}" if error.position else ""
        return cls(type(error).__name__, f"{error.message}{where}", error.hint, isinstance(error, Unreachable))
