"""Requests to try parked rows again or to forget them, carried out between two windows of the stream.

All parked rows of a table go in one delete-first batch, with everything before it committed: one row of a swap alone
never succeeds (counter-example 15).  A batch that fails leaves its rows parked, with the new error and no request.

Rows that are tried again because their parent came (`engine.batch.orphans`) are split in halves too, in their order.

A batch has one origin (`engine.model.origin`): a table's rows of several go in as many batches as it changes among
them, in the order in which they were parked.

*Untried* rows are set aside with a bad one among them, each the only change of its row (`engine.copy.chunk_merge`): a
batch of such is split in halves until the bad ones stand alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby

from tidelock.engine.batch.checked_steps import MakeSteps
from tidelock.engine.batch.merge import Ranks, merge
from tidelock.engine.batch.orphans import AGAIN
from tidelock.engine.batch.parked_rows import Place, decode_change
from tidelock.engine.log import receipts
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import RowChange, TableName, Transaction
from tidelock.engine.model.schema import Binding, SchemaMismatch, TargetTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.engine.protocol.events import ParkedKey
from tidelock.engine.protocol.steps import ParkedRow


class RetryRequests:
    """The requests, in groups that go together; a group is of one table, one `ParkedKey.wish` and one origin.

    `running`: a batch of the first group is at the target.  `changes`: those that it makes.

    A batch that failed, or whose COMMIT was not answered, goes out again as it was, under its own id, so that its
    receipt can answer: planned anew it might be applied twice.
    """

    def __init__(self, make_steps: MakeSteps = merge) -> None:
        """`make_steps`: what makes the steps of a batch."""
        self._make_steps = make_steps
        self._groups: deque[tuple[ParkedKey, ...]] = deque()
        self._known: dict[Place, None] = {}
        self._batch: ApplyBatch | None = None
        self._running = False
        self.changes: list[Change] = []

    def __bool__(self) -> bool:
        return bool(self._groups)

    @property
    def running(self) -> bool:
        """True while a batch of the first group is at the target."""
        return self._running

    @property
    def under_way(self) -> bool:
        """True while a batch is sent, and it is not known what became of it."""
        return self._batch is not None

    def add(self, rows: Sequence[ParkedKey]) -> None:
        """Takes the rows with a wish; one that is known already counts once."""
        groups: dict[tuple[TableName, str], list[ParkedKey]] = {}
        for row in rows:
            place = (row.source, row.number, row.ordinal)
            if row.wish and place not in self._known:
                self._known[place] = None
                groups.setdefault((row.table, row.wish), []).append(row)
        for _, group in sorted(groups.items()):
            self._groups.extend(_runs(sorted(group, key=_order)))

    @property
    def places(self) -> list[Place]:
        """The places of the first group, if it is to be tried again."""
        group = self._groups[0]
        return _places(group) if group and group[0].wish != "skip" else []

    def start(self, id_: EffectId, tables: dict[TableName, TargetTable], ranks: Ranks) -> ApplyBatch:
        """Returns the batch for the first group, with this id unless it was sent before; a group that cannot be lined
        up with its table any more is refused."""
        self._running = True
        if self._batch is not None:
            return self._batch
        group = self._groups[0]
        try:
            self.changes = _changes(group, tables) if group[0].wish != "skip" else []
            steps = self._make_steps(self.changes, ranks)
        except SchemaMismatch as error:
            return self.refuse(id_, str(error))
        self._batch = ApplyBatch(
            id=id_,
            lane=0,
            steps=steps,
            covered=receipts.NOTHING,
            rows=0,
            unparked=tuple(_places(group)),
            origin=_origin(group[0]),
        )
        return self._batch

    def answers(self, id_: EffectId) -> bool:
        """True if this is the id of the batch that is at the target."""
        return self._running and self._batch is not None and self._batch.id == id_

    def again(self) -> None:
        """Notes that the batch failed for now: the identical one is to be sent again."""
        self._running = False

    def split(self) -> bool:
        """Splits the first group, which the target refused.  False: its rows cannot be tried apart."""
        group = self._groups[0]
        alone = group[0].wish == AGAIN or all(decode_change(row.change).untried for row in group)
        if len(group) < 2 or not alone:
            return False
        self._running, self._batch = False, None
        middle = len(group) // 2
        self._groups[0] = group[middle:]
        self._groups.appendleft(group[:middle])
        return True

    def refuse(self, id_: EffectId, error: str) -> ApplyBatch:
        """Returns the batch that gives the first group this error; its rows stay parked."""
        group = self._groups[0]
        self._groups[0] = ()
        self.changes = []
        self._forget(group)
        parked = tuple(
            ParkedRow(r.source, r.number, r.ordinal, r.table.schema, r.table.table, "", error, r.change) for r in group
        )
        self._running = True
        self._batch = ApplyBatch(id=id_, lane=0, steps=[], covered=receipts.NOTHING, rows=0, parked=parked)
        return self._batch

    def finish(self) -> list[Place]:
        """Ends the running batch, which is committed; returns the places that are not parked any more."""
        assert self.running
        self._running, self._batch = False, None
        group = self._groups.popleft()
        self._forget(group)
        return _places(group)

    @property
    def own(self) -> bool:
        """True if a request waits that no operator made."""
        return any(group and group[0].wish == AGAIN for group in self._groups)

    def withdraw(self, places: Sequence[Place]) -> None:
        """Takes back our own requests for these: an operator has made one.  What was sent stays as it is."""
        gone = frozenset(places)
        for at in range(1 if self.under_way else 0, len(self._groups)):
            group = self._groups[at]
            if group and group[0].wish == AGAIN:
                kept = tuple(row for row in group if (row.source, row.number, row.ordinal) not in gone)
                self._forget([row for row in group if row not in kept])
                self._groups[at] = kept
        sent = [self._groups.popleft()] if self.under_way else []
        self._groups = deque([*sent, *(group for group in self._groups if group)])

    def forget(self, places: Sequence[Place]) -> None:
        """Drops requests for changes that are parked no more.  No batch is under way."""
        assert self._batch is None, "a statement waits for what was begun"
        gone = frozenset(places)
        groups = [tuple(r for r in g if (r.source, r.number, r.ordinal) not in gone) for g in self._groups]
        self._groups = deque(group for group in groups if group)
        for place in places:
            self._known.pop(place, None)

    def _forget(self, group: Sequence[ParkedKey]) -> None:
        for place in _places(group):
            self._known.pop(place, None)


def _runs(rows: Sequence[ParkedKey]) -> list[tuple[ParkedKey, ...]]:
    """Cuts rows where their origin changes."""
    return [tuple(run) for _, run in groupby(rows, key=_origin)]


def _origin(row: ParkedKey) -> Origin | None:
    return decode_change(row.change).origin


def _order(row: ParkedKey) -> tuple[tuple[int, int, int], Place]:
    return decode_change(row.change).order, (row.source, row.number, row.ordinal)


def _places(group: Sequence[ParkedKey]) -> list[Place]:
    return [(row.source, row.number, row.ordinal) for row in group]


def _changes(group: Sequence[ParkedKey], tables: dict[TableName, TargetTable]) -> list[Change]:
    table = tables.get(group[0].table)
    if table is None:
        raise SchemaMismatch(f"the target has no table {group[0].table}")
    bindings: dict[object, Binding] = {}
    changes: list[Change] = []
    for row in group:
        parked = decode_change(row.change)
        binding = bindings.get(parked.shape)
        if binding is None:
            binding = bindings[parked.shape] = Binding(-1, parked.shape, table)
        change = RowChange(-1, parked.before, parked.after, row.ordinal)
        changes.append(Change.of(binding, change, Transaction(row.source, row.number, 0)))
    return changes
