"""The way of the log from the source to the apply machine: a reader that cuts it anywhere, and the capture machine.

The reader hands over chunks as the adapters' readers do: transactions whole or in parts, shapes before their first use
(numbered in its own way), marks in the first part of a transaction that it hands over.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from msgspec.structs import replace

from tidelock.engine.capture.echoes import Echoes
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.origin import Sites
from tidelock.engine.model import lineage
from tidelock.engine.model.log_batch import RECEIPT, LogBatch, SourceChunk, SourceTransaction
from tidelock.engine.model.records import Position, RowChange, Shape
from tidelock.engine.protocol.effects import Publish
from tidelock.engine.protocol.events import SourceRead
from tidelock.simulations.history import History
from tidelock.simulations.identity import logged
from tidelock.simulations.log_entry import Entry, Marks
from tidelock.simulations.selection import named_at_source
from tidelock.simulations.source_log import Log
from tidelock.simulations.writing import FAR


class Reader:
    """Reads `log` behind `position`.  Every position that it tells has the log's proof.  `sites`: of a feed that names
    them; `echoes`: of one from an arbiter."""

    def __init__(
        self,
        history: History,
        log: Log,
        position: Position,
        chance: Random,
        sites: Sites | None = None,
        echoes: Echoes | None = None,
    ) -> None:
        self._history = history
        self._log = log
        self._index = log.index(position)
        self._since = log.whole(self._index)
        proof = lineage.decode(position.proof)
        self._known = lineage.carried(proof, log.server.name).last if proof is not None else None
        self._chance = chance
        self._longest = history.plan.longest
        self._anywhere = history.plan.cut_anywhere
        self._numbers: dict[Shape, int] = {}
        self._first = chance.randrange(3)
        self._marked: tuple[str, int] | None = None
        self._last = position
        self._machine = CaptureMachine(history.mapping, position, FAR, sites, echoes)

    @property
    def at_end(self) -> bool:
        return self._index == len(self._log.entries)

    def next(self) -> LogBatch | None:
        """The next batch; at the end of the log, and now and then before it, a heartbeat, which is an empty one.  None
        where the capture machine has nothing to say."""
        entries = self._log.entries
        if self.at_end or self._chance.random() < 0.02:
            return self._publish(SourceChunk([], self._last, {}, 1))
        taken = self._cut(entries)
        self._index += len(taken)
        self._history.told = max(self._history.told, self._index)
        end = taken[-1].end
        self._last = replace(end, proof=self._log.proof(end, self._known, self._since))
        return self._publish(self._chunk(taken))

    def _publish(self, chunk: SourceChunk) -> LogBatch | None:
        for effect in self._machine.step(0, [SourceRead([chunk])]):
            assert isinstance(effect, Publish)
            return effect.batch
        return None

    def _cut(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The next entries of the log, up to a statement, which comes alone."""
        start = self._index
        if entries[start].ddl is not None:
            return entries[start : start + 1]
        taken = entries[start : start + 1 + int(self._chance.random() * self._longest)]
        ends = 0  # how many of them whole transactions are
        for i, entry in enumerate(taken):
            if entry.ddl is not None:
                return taken[:i]
            if entry.commit:
                ends = i + 1
        return taken[:ends] if ends and not self._anywhere else taken

    def _chunk(self, taken: Sequence[Entry]) -> SourceChunk:
        shapes: dict[int, Shape] = {}
        transactions: list[SourceTransaction] = []
        rows: list[RowChange] = []
        for entry in taken:
            if entry.change is not None and entry.shape is not None and not entry.verdict:
                rows.append(self._row(entry, shapes))
            if entry.commit or entry is taken[-1]:
                transactions.append(self._part(entry, rows))
                rows = []
        return SourceChunk(transactions, self._last, shapes, int(self._chance.random() < 0.5))

    def _row(self, entry: Entry, shapes: dict[int, Shape]) -> RowChange:
        assert entry.change is not None and entry.shape is not None
        change = entry.change
        shape, before, after = logged(self._history.plan, entry.shape, change.before, change.after)
        number = self._numbers.get(shape)
        if number is None:
            number = self._numbers[shape] = self._first + len(self._numbers)
            shapes[number] = named_at_source(shape)
        return RowChange(number, before, after, change.ordinal)

    def _part(self, entry: Entry, rows: list[RowChange]) -> SourceTransaction:
        """A transaction, or as much of it as the chunk holds; `entry` is the last of it."""
        marks: Marks = ()
        if (entry.origin or entry.marks) and self._marked != (entry.source, entry.number):
            self._marked = (entry.source, entry.number)
            marks = entry.marks or ((RECEIPT, ("shop", 0, 1, 1, b"", entry.origin.split()[0], entry.origin)),)
        ddl = entry.ddl
        if ddl is not None and entry.beside:
            ddl = replace(ddl, tables=(*entry.beside, *ddl.tables))
        return SourceTransaction(
            entry.source, entry.number, entry.end.file, entry.end.offset, rows,
            complete=entry.commit or entry.ddl is not None, ddl=ddl, marks=marks,
        )  # fmt: skip
