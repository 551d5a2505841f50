"""The capture machine: chunks of a source's log → batches of the ordered log.

order (positions are the reader's) → origin (loop filter) → schema → map, filter → batch.  Shapes leave with the
*target's* names and columns, so that nothing behind the log needs to know the mapping.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.engine.capture.concern import related
from tidelock.engine.capture.echoes import Echoes
from tidelock.engine.capture.mapping import Mapping, TableMapping
from tidelock.engine.capture.origin import LoopFilter, NodeFilter, SiteFilter, Sites, Untraceable
from tidelock.engine.capture.row_filter import Untold
from tidelock.engine.capture.statements import ruled
from tidelock.engine.model.errors import RESYNC, Alarm
from tidelock.engine.model.log_batch import LogBatch, SourceChunk, SourceTransaction
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Position, RowChange, Shape, TableName, Transaction
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import CaptureEffect, Halt, Publish
from tidelock.engine.protocol.events import CaptureEvent, SourceRead


class CaptureMachine:
    """Turns chunks of a source's log into batches of the ordered log.

    `start`: where the log is taken up; the first batch is marked `resent`: the apply side takes it as its next.
    `node`: the node that the batches go to; '' where loops cannot be.  `sites`: of a feed that names them.  `echoes`:
    of one whose source is the arbiter of its target.
    """

    def __init__(
        self,
        mapping: Mapping,
        start: Position,
        node: str = "",
        sites: Sites | None = None,
        echoes: Echoes | None = None,
    ) -> None:
        self._mapping = mapping
        self._between = sites
        self._sites = SiteFilter(sites) if sites is not None else None
        self._loop: LoopFilter = self._sites or NodeFilter(node)
        self._echoes = echoes
        self._last = start
        self._resent = True
        self._tables: dict[int, TableMapping] = {}
        self._open = start.rows > 0  # the last transaction goes on in the next chunk
        self._plain = True  # no table so far needs its rows changed

    def step(self, now: int, events: Sequence[CaptureEvent]) -> list[CaptureEffect]:
        """Take chunks in order; returns the batches to publish.  `now` is not looked at: order is all.

        A halt is the last effect: a filter asks for what the log does not tell, so nothing behind it may be published.
        """
        effects: list[CaptureEffect] = []
        try:
            for event in events:
                chunks = event.chunks if isinstance(event, SourceRead) else ()
                effects.extend(Publish(batch) for chunk in chunks if (batch := self._batch(chunk)) is not None)
        except _Unfiltered as error:
            effects.append(Halt(error.alarm))
        except Untraceable as error:
            effects.append(Halt(error.alarm(self._last)))
        return effects

    def _batch(self, chunk: SourceChunk) -> LogBatch | None:
        """Returns the chunk as a batch; None where it says nothing new.  An idle source's heartbeat tells its time."""
        shapes = self._announce(chunk.shapes)
        transactions: list[Transaction] = []
        rows: list[RowChange] = []
        ddl: Ddl | None = None
        origins: dict[Origin, int] = {}
        loop, echoes, seen = self._loop, self._echoes, None
        for source in chunk.transactions:
            if source.ddl is not None:
                ddl = related(source.ddl, self._mapping, between_sites=self._between is not None)
                if self._between is not None:
                    ddl = ruled(ddl, self._between)
                if echoes is not None and ddl.kind is not DdlKind.UNRELATED:
                    echoes.note_statement(source)
                continue
            admitted = loop.admits((source.source, source.number), source.marks, rows=bool(source.rows))
            taken: list[RowChange] | None
            if echoes is not None:
                taken = self._with_echoes(echoes, source, chunk.last.proof, admitted=admitted)
            elif not admitted:
                continue
            else:
                taken = source.rows if self._plain else self._images(source)
            if taken is not None:
                if not transactions:
                    seen = loop.seen
                origin = loop.origin if admitted else None  # an echo begins here
                number = 0 if origin is None else origins.setdefault(origin, len(origins) + 1)
                self._append(source, taken, number, transactions, rows)
        if chunk.last == self._last and not rows and not shapes and ddl is None and not chunk.server_us:
            return None
        batch = LogBatch(
            prev=self._last,
            last=chunk.last,
            transactions=tuple(transactions),
            rows=tuple(rows),
            shapes=shapes,
            ddl=ddl,
            end_us=chunk.transactions[-1].commit_us if chunk.transactions else chunk.server_us,
            resent=self._resent,
            origins=tuple(origins),
            seen=seen,
        )
        self._resent = False
        self._last = chunk.last
        return batch

    def _announce(self, shapes: dict[int, Shape]) -> dict[int, Shape]:
        out: dict[int, Shape] = {}
        for number, shape in shapes.items():
            mapped = self._mapping.table(shape)
            if mapped is None:
                continue
            self._tables[number] = mapped
            self._plain = self._plain and mapped.plain
            out[number] = mapped.shape
        if out and self._echoes is not None:
            self._echoes.announce(out)
        return out

    def _with_echoes(
        self, echoes: Echoes, source: SourceTransaction, log: str, *, admitted: bool
    ) -> list[RowChange] | None:
        """Returns the rows of a transaction that go on, as the target should see them, with those that go back to it;
        None: nothing of it goes on.  `log`: proof of the log that it is read from."""
        sites = self._sites
        assert sites is not None, "echoes go between sites"
        rows: list[RowChange] = []
        if admitted:
            rows = self._images(source)
            echoes.note_sent(source, rows)
        elif sites.of_target:
            rows = echoes.going_back(source, self._images(source), sites.told, log)
        elif not source.verdicts:
            return None
        if source.verdicts:
            verdicts = [self._tables[row.table].verdict(row) for row in source.verdicts]
            echoes.note_verdicts(source, verdicts)
            rows = sorted([*rows, *verdicts], key=lambda row: row.ordinal)
        return rows

    def _images(self, source: SourceTransaction) -> list[RowChange]:
        if self._plain:
            return source.rows
        return [mapped for row in source.rows if (mapped := self._mapped(row)) is not None]

    def _append(
        self,
        source: SourceTransaction,
        taken: list[RowChange],
        origin: int,
        transactions: list[Transaction],
        rows: list[RowChange],
    ) -> None:
        """Add the rows that are taken of a transaction; `origin`: as `Transaction` has it.  A part without rows still
        tells where its transaction ends."""
        first = len(rows)
        rows += taken
        if len(rows) > first or not source.complete or self._open:
            self._open = not source.complete
            transactions.append(
                Transaction(source.source, source.number, first, source.complete, source.commit_us, origin)
            )

    def _mapped(self, row: RowChange) -> RowChange | None:
        table = self._tables[row.table]
        try:
            return table.apply(row)
        except Untold as error:
            raise _Unfiltered(_untold(table.source, str(error), self._last)) from None


class _Unfiltered(Exception):
    """Error of a row of which it cannot be said whether it belongs to the target."""

    def __init__(self, alarm: Alarm) -> None:
        super().__init__(alarm.message)
        self.alarm = alarm


def _untold(table: TableName, column: str, after: Position) -> Alarm:
    return Alarm(
        "filter",
        f"`where` of {table} asks for {column}, and the source does not log it of a row that is updated or deleted",
        f"ALTER TABLE {table} REPLICA IDENTITY FULL at the source, at its partitions before, or let `where` ask for "
        f"columns of its replica identity alone; what is logged already stays as it is: {RESYNC}",
        str(after),
        str(table),
    )
