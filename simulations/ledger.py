"""Record of what the target has committed so far, as its receipts tell it: the facts that the checkers share.

The ledger knows the source's log and the target's tables, not the engine.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable
from typing import TypeAlias

from tidelock.engine.batch.parked_rows import ParkedChange
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import Row, RowChange, Shape, TableName, Transaction
from tidelock.engine.model.schema import Binding, TargetTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import Copied
from tidelock.simulations.history import History
from tidelock.simulations.identity import logged
from tidelock.simulations.layout import DEFAULT, Layout, layout
from tidelock.simulations.log_entry import Entry, Place
from tidelock.simulations.model import Database
from tidelock.simulations.selection import selected_shape
from tidelock.simulations.view import Mistake, Progress, View

__all__ = ["Images", "Ledger", "Mistake"]

Images = tuple[Layout, Row | None, Row | None]


class Ledger:
    """`index`: where in `history.entries` each change that must be applied stands; `order`: those changes in log order.

    `covered`: by which batch.  `applied`, `skipped` (the operator gave them up), `emptied` (a TRUNCATE, a copy or a
    repair took them while they were parked): what became of each; what is covered and none of these is parked.

    `copies`: how far the tables are that are copied.  A change of a row takes effect if it is behind the merge of the
    row's chunk; what is before it came with the chunk, and must not be applied (`excused`).  `repairs`: tables of which
    some rows are read again, in which nothing is excused.

    *Strays* are parked rows that no log tells of: those of a chunk that the target refuses.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.index: dict[Place, float] = {e.place: i for i, e in enumerate(history.entries) if e.taken}
        self.order = list(self.index)
        self.covered: dict[Place, EffectId] = {}
        self.applied: dict[Place, None] = {}
        self.skipped: dict[Place, None] = {}
        self.emptied: dict[Place, None] = {}
        self.view: View = View(history)
        self.copies: dict[TableName, Progress] = {}
        self.repairs: dict[TableName, Progress] = {}
        self._strays: dict[Place, Entry] = {}
        self._images: dict[Place, tuple[TargetTable, Images]] = {}

    def freeze(self) -> _Frozen:
        """For a target that may forget."""
        fates = self.covered.copy(), self.applied.copy(), self.skipped.copy(), self.emptied.copy()
        return *fates, _copied(self.copies), _copied(self.repairs)

    def thaw(self, frozen: _Frozen) -> None:
        covered, applied, skipped, emptied, copies, repairs = frozen
        self.covered, self.applied = covered.copy(), applied.copy()
        self.skipped, self.emptied = skipped.copy(), emptied.copy()
        self.copies, self.repairs = _copied(copies), _copied(repairs)

    @property
    def complete(self) -> bool:
        """Tells whether every change has taken effect that has to, for all that is known by now."""
        if len(self.covered) == len(self.order):
            return True
        return bool(self.copies) and all(p in self.covered or self.excused(p) for p in reversed(self.order))

    def told(self) -> tuple[Copied, ...]:
        """Progress of copies as it is stored: of each table the last."""
        return tuple(progress.told() for progress in (self.copies | self.repairs).values())

    def progress(self, split: ChunkSplit) -> Progress:
        """Progress of the copy or the repair that this split belongs to."""
        return (self.repairs if split.by is By.KEYS else self.copies)[split.table]

    def stray(self, place: Place, parked: ParkedChange, at: int) -> None:
        """A row is parked with a chunk that is merged behind so many entries of the log."""
        change = RowChange(-1, None, parked.after, place[2])
        self._strays[place] = Entry(
            place[0], place[1], self.history.place(at), change, shape=parked.shape, after=parked.after
        )
        self.index[place] = at - 0.5

    def begin(self, split: ChunkSplit, begun: int) -> None:
        """A table is copied from its first row on, or some rows of it are read again; so many entries of the log came
        before.

        An owner that has not seen all of the log again that receipts cover may empty it of later changes too: what they
        did comes back with the chunks, which are read when all of that is in the source's log."""
        if split.by is By.KEYS:
            self.repairs[split.table] = Progress(split, begun)
            return
        self.repairs.pop(split.table, None)
        own = [place for place in self.order if self.table(place) == split.table]
        for place in own:
            if self.index[place] >= begun:
                for fate in (self.covered, self.applied, self.skipped, self.emptied):
                    fate.pop(place, None)
        before = [place for place in own if self.index[place] < begun and place not in self.covered]
        if early := [place for place in before if not self.excused(place)]:
            raise Mistake(f"{split.table} is copied before {early[0]}")
        self.copies[split.table] = Progress(split, begun, frozenset(before))

    def excused(self, place: Place) -> bool:
        """Tells whether the change has no effect of its own, because its row comes with a chunk."""
        return bool(self.copies) and self.effect(place) == (None, None)

    def effect(self, place: Place) -> tuple[Row | None, Row | None]:
        """The row before and after, as far as the change takes effect by itself."""
        entry = self.entry(place)
        if place in self._strays:
            return (entry.before, entry.after)
        index = self.index[place]
        progress = self.copies.get(entry.shape.name) if entry.shape is not None else None
        if progress is None or index < progress.begun:
            return (entry.before, entry.after) if progress is None or place not in progress.past else (None, None)
        before, after = (
            row if row is not None and progress.lives(self.view.chunk_of(progress.split, row), index) else None
            for row in (entry.before, entry.after)
        )
        return before, after

    def entry(self, place: Place) -> Entry:
        stray = self._strays.get(place)
        return stray if stray is not None else self.history.entries[int(self.index[place])]

    def in_log_order(self, places: Iterable[Place]) -> list[Place]:
        return sorted(places, key=self.index.__getitem__)

    def table(self, place: Place) -> TableName:
        shape = self.entry(place).shape
        assert shape is not None
        return shape.name

    def change(self, place: Place, database: Database) -> Change:
        """As the apply machine has it, bound to the target's table of now."""
        entry = self.entry(place)
        assert entry.shape is not None
        shape, (before, after) = selected_shape(entry.shape), self.effect(place)
        if place not in self._strays:
            shape, told, later = logged(self.history.plan, shape, entry.before, entry.after)
            before, after = told if before is not None else None, later if after is not None else None
        binding = _binding(shape, database.tables[entry.shape.name].spec)
        row = RowChange(0, before, after, place[2])
        return Change.of(binding, row, Transaction(entry.source, entry.number, 0))

    def whole(self, name: TableName, row: Row, database: Database) -> Row:
        """A row of the view as the target's table has its columns now."""
        laid = layout(database.tables[name].spec)
        given = dict(zip(self.view.names(name, row), row, strict=True))
        return laid.complete(
            tuple(given.get(c.name, DEFAULT if c.default else None) for c in laid.spec.columns)
        )

    def images(self, place: Place, database: Database) -> Images:
        """The layout of its table, the row before and the row after, as the target's table has its columns now."""
        entry = self.entry(place)
        assert entry.shape is not None
        spec = _spec(entry, database)
        known = self._images.get(place)
        if known is None or known[0] is not spec or self.copies:
            laid, shape = layout(spec), selected_shape(entry.shape)
            before, after = self.effect(place)
            anyhow = entry.spec is not None
            first, second = (_lined_up(laid, shape, row, anyhow=anyhow) for row in (before, after))
            images = laid, first, second
            known = self._images[place] = (spec, images)
        return known[1]


def _spec(entry: Entry, database: Database) -> TargetTable:
    """The table of a row as the target has it now; one that is altered, as it was then, with the columns that it has
    got."""
    assert entry.shape is not None
    if entry.spec is None:
        return database.tables[entry.shape.name].spec
    table = database.tables.get(entry.shape.name)
    return table.spec if table is not None and has_grown(entry.spec, table.spec) else entry.spec


def has_grown(old: TargetTable, new: TargetTable) -> bool:
    """Tells whether a table is the other one with more columns, or none."""
    return old.key == new.key and {*old.columns} <= {*new.columns}


_Frozen: TypeAlias = tuple[
    dict[Place, EffectId],
    dict[Place, None],
    dict[Place, None],
    dict[Place, None],
    dict[TableName, Progress],
    dict[TableName, Progress],
]


def _copied(progresses: dict[TableName, Progress]) -> dict[TableName, Progress]:
    return {name: copy.copy(progress) for name, progress in progresses.items()}


@functools.lru_cache(maxsize=256)
def _binding(shape: Shape, spec: TargetTable) -> Binding:
    return Binding(0, shape, spec)


def _lined_up(laid: Layout, shape: Shape, row: Row | None, *, anyhow: bool) -> Row | None:
    """A row with the columns of `shape`; the target's own get their default, later ones are NULL.  `anyhow`: also where
    it has as many as the table."""
    if row is None or (len(row) == len(laid.spec.columns) and not anyhow):
        return row
    given = {c.name: value for c, value in zip(shape.columns, row, strict=True)}
    return laid.complete(tuple(given.get(c.name, DEFAULT if c.default else None) for c in laid.spec.columns))
