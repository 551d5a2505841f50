"""What the target has committed so far, as its receipts tell it: the facts that the checkers share.

The ledger knows the source's log and the target's tables, not the engine.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from engine.effects import EffectId
from engine.records import Row, RowChange, Shape, TableName, Transaction
from engine.schema import Binding, TargetTable
from engine.segments import Change
from simulations.history import Entry, History, Place
from simulations.layout import DEFAULT, Layout, layout
from simulations.model import Database
from simulations.selection import selected_shape

Images = tuple[Layout, Row | None, Row | None]


class Mistake(AssertionError):
    """The engine did what it must never do."""


class Ledger:
    """`index`: where in `history.entries` each change that must be applied stands; `order`: those changes in log order.

    `covered`: by which batch.  `applied`, `skipped` (the operator gave them up), `emptied` (a TRUNCATE took them while
    they were parked): what became of each; what is covered and none of these is parked.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.index = {e.place: i for i, e in enumerate(history.entries) if e.taken}
        self.order = list(self.index)
        self.covered: dict[Place, EffectId] = {}
        self.applied: dict[Place, None] = {}
        self.skipped: dict[Place, None] = {}
        self.emptied: dict[Place, None] = {}
        self._images: dict[Place, tuple[TargetTable, Images]] = {}

    def freeze(self) -> tuple[dict[Place, EffectId], dict[Place, None], dict[Place, None], dict[Place, None]]:
        """For a target that may forget."""
        return self.covered.copy(), self.applied.copy(), self.skipped.copy(), self.emptied.copy()

    def thaw(
        self, frozen: tuple[dict[Place, EffectId], dict[Place, None], dict[Place, None], dict[Place, None]]
    ) -> None:
        covered, applied, skipped, emptied = frozen
        self.covered, self.applied = covered.copy(), applied.copy()
        self.skipped, self.emptied = skipped.copy(), emptied.copy()

    def entry(self, place: Place) -> Entry:
        return self.history.entries[self.index[place]]

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
        binding = _binding(selected_shape(entry.shape), database.tables[entry.shape.name].spec)
        row = RowChange(0, entry.before, entry.after, place[2])
        return Change(binding, row, Transaction(entry.source, entry.number, 0))

    def images(self, place: Place, database: Database) -> Images:
        """The layout of its table, the row before and the row after, as the target's table has its columns now."""
        entry = self.entry(place)
        assert entry.shape is not None
        spec = database.tables[entry.shape.name].spec
        known = self._images.get(place)
        if known is None or known[0] is not spec:
            laid, shape = layout(spec), selected_shape(entry.shape)
            images = laid, _lined_up(laid, shape, entry.before), _lined_up(laid, shape, entry.after)
            known = self._images[place] = (spec, images)
        return known[1]


@functools.lru_cache(maxsize=256)
def _binding(shape: Shape, spec: TargetTable) -> Binding:
    return Binding(0, shape, spec)


def _lined_up(laid: Layout, shape: Shape, row: Row | None) -> Row | None:
    """A row with the columns of `shape`; the target's own get their default, later ones are NULL."""
    if row is None or len(row) == len(laid.spec.columns):
        return row
    given = {c.name: value for c, value in zip(shape.columns, row, strict=True)}
    return laid.complete(tuple(given.get(c.name, DEFAULT if c.default else None) for c in laid.spec.columns))
