"""Protocols of a source: all that a run asks of one, whichever server or log it is (`adapters.wiring.sources`).

Every method waits for the server: an event loop calls it in a thread.  Each raises SourceError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from tidelock.adapters.ports.capture_messages import CaptureOrder, Learned, Unanswered
from tidelock.adapters.ports.table_form import TableForm
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, Shape, TableName
from tidelock.engine.model.snapshot import Snapshot


class Overview(msgspec.Struct, frozen=True):
    """Overview of a source, as a run needs it before it reads the log.

    `tables`: those that the patterns match.  `now`, `earliest`: ends of the log as they were when asked.  `unmatched`:
    patterns that no table matches that the user can see.  `words`: what a run says of the source when it begins.
    """

    tables: tuple[TableName, ...]
    now: Position
    earliest: Position
    unmatched: tuple[str, ...] = ()
    words: str = ""


class Beginning(msgspec.Struct, frozen=True):
    """Place where a feed begins, or goes on behind a hole; stored as one.

    `forms`: of its tables at that place; none of a source whose log has the statements that change tables.
    """

    place: Position
    forms: tuple[TableForm, ...] = ()


class TableView(Protocol):
    """A consistent view of a table.  `snapshot`: its place in the log."""

    snapshot: Snapshot

    def batches(self, sql: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yields the rows of a query, so many at once.  Raises SourceError."""
        ...


class LogReader(Protocol):
    """Reads the log in this process, in the place of a capture process.  All in one thread."""

    @property
    def unanswered(self) -> Unanswered:
        """The transaction that the source has prepared and not decided for long."""
        ...

    def take_learned(self) -> Learned:
        """Returns what was learned of tables since the last call, and belongs to the batch that was read last or is
        before it."""
        ...

    def batches(self) -> Iterator[LogBatch]:
        """The log behind the order's `start`, for ever; ends the reading when it is closed."""
        ...

    def note_stored(self, position: Position) -> None:
        """Takes a checkpoint that the target has stored for good: a source that keeps its log for us need keep nothing
        before it.  Raises SourceError."""
        ...

    @property
    def seconds_left(self) -> float | None:
        """Seconds until `tend` is to be called, if nobody takes the next batch before; None: never."""
        ...

    def tend(self) -> None:
        """Lets the source hear of us while nobody takes the batches.  Raises SourceError."""
        ...

    def close(self) -> None: ...


class BatchDecoder(Protocol):
    """Reads the frames of one capture process; they may build on each other."""

    def batch(self, kind: int, body: memoryview) -> LogBatch: ...


class Loss(msgspec.Struct, frozen=True):
    """The end of what is left of a log that has lost its end.  `place`: with its proof.  `since`: when the server went
    on, or earlier, seconds since the epoch by its clock.  `source`, `number`: what is left of this source's
    transactions ends with this number; no source: unknown."""

    place: Position
    since: int
    source: str
    number: int


class Source(Protocol):
    """One server, by its URL.  Nothing stays open between two calls."""

    # ------------------------------------------------------------------ the log and its ends

    def look(self, patterns: Sequence[str], *, earliest: bool) -> Overview:
        """Returns the tables, and where the log begins and ends.  Without `earliest` its beginning is not asked for: it
        is `now`.  Raises UnsuitableLog where the log cannot be read at all."""
        ...

    def end(self) -> tuple[Position, int]:
        """Returns where the log ends, and microseconds since the epoch by the server's clock just before."""
        ...

    def begun_before(self, moment: float, server_id: int) -> Position:
        """Returns a place from which everything is read that was committed since `moment` (seconds since the epoch).
        `server_id`: as in `CaptureOrder`.  Raises PurgedPosition where the log does not reach back so far."""
        ...

    def committed_since(self, moment_us: int) -> Position:
        """Returns the place before the first transaction in the log that was committed at `moment_us` (microseconds
        since the epoch) or later; the log's end where there is none.  Raises PurgedPosition where the log does not
        reach back so far."""
        ...

    def keep_log(self, tables: Sequence[TableName], place: Position, *, kept: bool = False) -> Beginning:
        """Has the source keep its log for a feed that begins, or goes on behind a hole; returns where the feed begins.

        `place`: where it would begin, if the source keeps its log anyway.  Only where the target holds no checkpoint,
        or one that is given up: what was kept for it before is not kept any more.  `kept`: the feed begins at `place`,
        where its log must be kept already; at the first place from which it is, where that says no more.
        """
        ...

    # ------------------------------------------------------------------ whose log it is

    def witnessed(self, place: Position) -> Position:
        """The place with what proves which log it is a place of (`engine.model.lineage`)."""
        ...

    def confirm(self, place: Position, further: Sequence[Position] = ()) -> None:
        """Passes where the log is the one that these places belong to; a place without a proof passes.  Raises
        OtherHistory."""
        ...

    def loss_before(self, lost: Position) -> Loss:
        """Returns what is left of a log whose end the server has lost; `lost`: a place that it has no more.  Raises
        LossUntold where that cannot be told."""
        ...

    def require_log_behind(self, place: Position) -> None:
        """Passes where the log is the one that the place belongs to, and the source has all that follows it there.
        Raises OtherHistory, PurgedPosition."""
        ...

    # ------------------------------------------------------------------ what readers of the tables see

    def require_visibility(self, tables: Sequence[TableName]) -> None:
        """Passes where it can be told when what is in the log can be read from these tables."""
        ...

    def visible_end(self) -> Position:
        """A place in the log up to which whoever begins to read tables now sees everything."""
        ...

    def wait_until_visible(self, place: Position, table: TableName) -> None:
        """Returns when whoever begins to read this table sees everything of it up to this place of the log."""
        ...

    def view(self, table: TableName) -> AbstractContextManager[TableView | None]:
        """Opens a view of the table, whose place in the log is known exactly; none where its engine has no such
        views."""
        ...

    def shapes(self, wanted: Callable[[TableName], bool]) -> Mapping[TableName, Shape]:
        """The columns of the tables that are wanted, as the catalogue has them now."""
        ...

    # ------------------------------------------------------------------ reading the log

    def reader(self, order: CaptureOrder) -> LogReader: ...

    def batch_decoder(self) -> BatchDecoder: ...
