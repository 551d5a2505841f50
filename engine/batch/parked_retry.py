"""Parked rows of a feed: which there are, and their way back to the target.

They come back when an operator asks for it (retry, or skip, which forgets them), when they were parked untried, and
when they are orphans whose parent has come.  All of these are retry requests; they are carried out between two windows
of the stream, by batches of their own (`engine.batch.retry_requests`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tidelock.engine.batch.bad_row_search import BadRowSearch
from tidelock.engine.batch.checked_steps import MakeSteps
from tidelock.engine.batch.merge import Ranks, merge
from tidelock.engine.batch.orphans import AGAIN, Orphans
from tidelock.engine.batch.parked_rows import ParkedRows, Place, decode_change
from tidelock.engine.batch.retry_requests import RetryRequests
from tidelock.engine.model.errors import Failure, Hindrance, Policy, policy
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Binding, SchemaMismatch, TargetTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import ApplyEffect, EffectId
from tidelock.engine.protocol.events import ParkedKey
from tidelock.engine.protocol.steps import ParkedRow

_RETRY_US = 200_000
_FOLLOWS = "an earlier change of the same row failed too: retry the whole table, or skip that change first"


class ParkedRetry:
    """Keeps the parked rows and sends their retries.

    `rows`: the changes that are parked at the target.  `hindrance`: why a batch of retries is sent again.
    """

    def __init__(
        self, next_id: Callable[[], EffectId], emit: Callable[[ApplyEffect], None], make_steps: MakeSteps = merge
    ) -> None:
        """`make_steps`: what makes the steps of a batch."""
        self.rows = ParkedRows()
        self.hindrance: Hindrance | None = None
        self._next_id = next_id
        self._emit = emit
        self._requests = RetryRequests(make_steps)
        self._orphans = Orphans()
        self._not_before = 0  # a batch that failed is sent again then, in microseconds
        self._tables: dict[TableName, TargetTable] = {}
        self._ranks = Ranks({}, {})

    def retable(self, tables: dict[TableName, TargetTable], ranks: Ranks) -> None:
        """The target's tables are these from now on; nothing is under way."""
        for name, table in tables.items():
            if not table.key and name in self._tables and table.columns != self._tables[name].columns:
                self.rows.widen(name)
        self._tables, self._ranks = tables, ranks
        self._orphans.retable(tables)

    # ------------------------------------------------------------------ taking over

    def adopt(self, parked: Sequence[ParkedKey]) -> None:
        """Takes on the rows that are parked at the target already: what is requested of them comes first, and the
        untried count as requested."""
        self.rows.load(parked, self._tables)
        untried = (replace(row, wish="retry") for row in parked if not row.wish and decode_change(row.change).untried)
        self.request([*(row for row in parked if row.wish), *untried])
        self._adopt_orphans(parked)

    def _adopt_orphans(self, parked: Sequence[ParkedKey]) -> None:
        rows = {(row.source, row.number, row.ordinal): row for row in parked if not row.wish}
        orphans = {place: change for place, row in rows.items() if (change := decode_change(row.change)).orphan}
        for place, held in orphans.items():
            row = rows[place]
            with contextlib.suppress(SchemaMismatch, KeyError):  # its table is another by now: it stays parked
                binding = Binding(-1, held.shape, self._tables[row.table])
                self._orphans.wait(Change(binding, held.before, held.after, *place), row)
        for place in self.rows.of_same_rows(orphans):
            if place in rows:
                self._orphans.behind(rows[place])
        self.try_again(list(orphans))

    # ------------------------------------------------------------------ what becomes parked, and what frees it

    def park(self, changes: Sequence[Change], rows: Sequence[ParkedRow], search: BadRowSearch | None) -> None:
        """Notes that these changes are parked at the target, as these rows."""
        for change, row in zip(changes, rows, strict=True):
            self.rows.park(change)
            key = ParkedKey(row.source, row.number, row.ordinal, TableName(row.schema, row.table), row.change)
            if search is not None and change in search.orphans:
                self._orphans.wait(change, key)
            elif self._orphans:
                self._orphans.behind(key)

    def wait_for_parents(self, orphans: Sequence[tuple[Change, ParkedKey]]) -> None:
        """Notes changes that are parked because the target has no row that they refer to."""
        for change, row in orphans:
            self._orphans.wait(change, row)

    @property
    def awaits_parents(self) -> bool:
        """True while an orphan waits: then, and only then, committed changes are to be told (`arrived`)."""
        return bool(self._orphans)

    def adopted(self, changes: Sequence[Change]) -> list[Place]:
        """Returns the orphans whose parents these changes bring."""
        return self._orphans.arrived(changes) if self._orphans else []

    def arrived(self, changes: Sequence[Change], but: Sequence[Change] = ()) -> None:
        """Tries orphans again whose parents these changes, which are committed, have brought; `but`: without these."""
        if self._orphans and (orphans := self.adopted([change for change in changes if change not in but])):
            self.try_again(orphans)

    def try_again(self, orphans: Sequence[Place]) -> None:
        """Requests a retry of these and of what is parked behind them, unless they follow something else that is."""
        places = self.rows.of_same_rows(orphans)
        if places and not self.rows.follows(places):
            rows = self._orphans.rows
            self.request([replace(rows[place], wish=AGAIN) for place in places if place in rows])

    def emptied(self, tables: Sequence[TableName]) -> None:
        """Forgets the parked rows of these tables, which a TRUNCATE took: no request brings them back."""
        for table in tables:
            self.release(self.rows.of(table))

    def release(self, gone: Sequence[Place]) -> None:
        """Forgets changes that are parked no more; no batch of retries is under way."""
        self.rows.release(gone)
        self._orphans.release(gone)
        self._requests.forget(gone)

    # ------------------------------------------------------------------ requests

    @property
    def requested(self) -> bool:
        """True while a retry or skip waits for everything before it: then nothing new is planned."""
        return bool(self._requests)

    @property
    def under_way(self) -> bool:
        """True while a batch of retries is sent, and it is not known what became of it."""
        return self._requests.under_way

    def request(self, rows: Sequence[ParkedKey]) -> None:
        """Takes requests (`ParkedKey.wish`).  One that was read before it was carried out, and is told only now, names
        a row that is not parked any more, and is dropped.

        An operator's word comes before a trial of our own, for all that is parked of the same rows.
        """
        rows = [row for row in rows if (row.source, row.number, row.ordinal) in self.rows]
        if self._requests.own:
            asked = [(row.source, row.number, row.ordinal) for row in rows if row.wish not in ("", AGAIN)]
            self._requests.withdraw(self.rows.of_same_rows(asked))
        self._requests.add(rows)

    def send(self, now: int) -> None:
        """Sends the batch of the first request; nothing else is at the target or planned.  `now`: microseconds."""
        if not self._requests or self._requests.running or now < self._not_before:
            return
        if self.rows.follows(self._requests.places):
            self._emit(self._requests.refuse(self._next_id(), _FOLLOWS))
        else:
            self._emit(self._requests.start(self._next_id(), self._tables, self._ranks))

    def answers(self, id_: EffectId) -> bool:
        """True if this is the id of the batch that is at the target."""
        return self._requests.answers(id_)

    def committed(self) -> None:
        """The batch is committed: its rows are parked no more."""
        self.hindrance = None
        retried = self._requests.changes
        places = self._requests.finish()
        self.rows.release(places)
        self._orphans.release(places)
        self.arrived(retried)

    def failed(self, failure: Failure, now: int) -> None:
        """Sends the identical batch again after a while, or halves of it, or a new error.  `now`: microseconds."""
        if policy(failure) is Policy.RETRY:
            self._requests.again()
            self.hindrance = Hindrance.after(self.hindrance, now, failure.message)
            self._not_before = now + _RETRY_US
        elif policy(failure) is not Policy.SPLIT or not self._requests.split():
            self._emit(self._requests.refuse(self._next_id(), failure.message))
