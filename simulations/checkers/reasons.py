"""A batch is refused and a row is parked only for a reason.

Reasons: the target refuses the row itself; an earlier change of the same row is parked (or may be, for all that the
engine can know: it folds printable ASCII only); a constraint does not allow it before or after its batch; or somebody
changed rows of its table there.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.batch.checked_steps import image_steps_in_order
from tidelock.engine.batch.merge import in_log_order
from tidelock.engine.log import receipts
from tidelock.engine.model.errors import DIFFERS
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Equality
from tidelock.engine.protocol.effects import ApplyBatch, ApplyPiece
from tidelock.engine.protocol.steps import ParkedRow
from tidelock.simulations.catalogue import POISON
from tidelock.simulations.checkers.checker import Checker, Commit
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.log_entry import Place
from tidelock.simulations.merging import MERGING
from tidelock.simulations.model import Database, Violation
from tidelock.simulations.selection import selected_shape


class Reasons(Checker):
    def refused(self, effect: ApplyBatch, error: str) -> None:
        """Looking for the bad row would hide that there is none: a batch is refused only if its changes are, one after
        another in the order of the log."""
        if self._differs(error, effect.parked):
            return
        if self.whole:
            raise Mistake(f"{effect.id} is refused, and no row is bad: {error}")
        if effect.lane == MERGING:
            self._justify_merge(effect, error)
            return
        aside = [(row.source, row.number, row.ordinal) for row in effect.parked]
        places = [place for place in receipts.decode(effect.covered) if place not in aside] + list(effect.unparked)
        if any(self._misses_what_was_skipped(place) for place in places):
            return
        if places and self._works(self.target.database, self.ledger.in_log_order(places)):
            raise Mistake(f"{effect.id} is refused, though its changes are not: {error}")

    def refused_piece(self, effect: ApplyPiece, error: str) -> None:
        if self.whole and not self._differs(error, effect.parked):
            raise Mistake(f"{effect.id} is refused, and no row is bad: {error}")

    def _differs(self, error: str, aside: Sequence[ParkedRow]) -> bool:
        """Is a row not as before, of a table in which somebody else has written?  Or does it wait for what such a row
        holds as long as it is locked?"""
        tampered = [name for name in self.target.tampered if str(name) in error]
        open_ = (row for work in self.target.works for row in work.effect.parked)
        locked = [*aside, *open_, *(row for row, _ in self.target.parked.values())]
        waits = any((row.schema, row.table) == (name.schema, name.table) for name in tampered for row in locked)
        return self.target.image and bool(tampered) and (DIFFERS in error or waits)

    def _justify_merge(self, effect: ApplyBatch, error: str) -> None:
        """Rows of it are bad, or others are missing or out of date because theirs are."""
        merge, staged = self.target.chunk_merge(effect.id)
        rows = [*staged, *(row for step in merge.steps for row in getattr(step, "rows", ()))]
        if not (merge.parked or self.target.parked or self.ledger.skipped or any(POISON in row for row in rows)):
            raise Mistake(f"the merge {effect.id} is refused, and no row is bad: {error}")

    def committed(self, commit: Commit) -> None:
        for place in commit.parked:
            if place in self.ledger.covered and self.ledger.covered[place] == commit.effect.id:
                self._justify(place, commit)

    def finished(self, machine: ApplyMachine) -> None:
        if self.whole and (self.target.parked or self.ledger.skipped):
            raise Mistake(f"rows are parked without cause: {list(self.target.parked.values())}")
        if len(machine.batches.parked_rows) != len(self.target.parked):
            raise Mistake(f"{len(machine.batches.parked_rows)} rows are known as parked, {len(self.target.parked)} are")

    def _justify(self, place: Place, commit: Commit) -> None:
        entry = self.ledger.entry(place)
        if POISON in (entry.after or ()) or self.ledger.table(place) in self.target.tampered:
            return
        earlier = (other for other in self.target.parked if self.ledger.index[other] < self.ledger.index[place])
        if any(self._may_share(place, other) for other in earlier):
            return
        if self._misses_what_was_skipped(place):
            return
        assert commit.before is not None
        if self._fits(commit.before, place) and self._fits(self.target.database, place):
            raise Mistake(f"{place} is parked without a reason: {entry.before} to {entry.after}")

    def _misses_what_was_skipped(self, place: Place) -> bool:
        """Tell whether the operator gave up a change of a table that this one is tied to.  A row returns with its next
        update, and what needs it may be tried before."""
        tied = self._family(self.ledger.table(place))
        return any(self.ledger.table(other) in tied for other in self.ledger.skipped)

    def _family(self, name: TableName) -> list[TableName]:
        """The tables that foreign keys join to this one."""
        tables = self.target.database.tables
        found = [name]
        for table in found:
            layout = tables[table].layout
            near = [fk.parent for fk, _ in layout.parents] + [fk.child for fk, _ in layout.children]
            found += [other for other in dict.fromkeys(near) if other not in found]
        return found

    def _may_share(self, one: Place, other: Place) -> bool:
        """Tells whether they share a row, or may for all that the engine can know."""
        if self.ledger.table(one) != self.ledger.table(other):
            return False
        database = self.target.database
        if self._of_other_columns(other, database):
            return True
        laid, *rows = self.ledger.images(one, database)
        _, *others = self.ledger.images(other, database)
        keys, other_keys = ([laid.key(row) or row for row in images if row] for images in (rows, others))
        if any(key in other_keys for key in keys):
            return True
        if all(laid.equality[c] is Equality.EXACT for c in laid.spec.key):
            return False
        at = [laid.at[c] for c in laid.spec.key]
        values = [row[i] for row in (*rows, *others) if row is not None for i in at]
        return not all(value.isascii() for value in values if isinstance(value, str))

    def _fits(self, database: Database, place: Place) -> bool:
        return self._works(database, [place])

    def _of_other_columns(self, place: Place, database: Database) -> bool:
        """Without a key, a row from before a column was added may be any row."""
        entry = self.ledger.entry(place)
        assert entry.shape is not None
        laid = database.tables[entry.shape.name].layout
        return not laid.spec.key and len(selected_shape(entry.shape).columns) < len(laid.shape.columns)

    def _works(self, database: Database, places: list[Place]) -> bool:
        """Could these be applied now, one after another?"""
        changes = [self.ledger.change(place, database) for place in places]
        try:
            database.begin().run(image_steps_in_order(changes) if self.target.image else in_log_order(changes))
        except Violation:
            return False
        return True
