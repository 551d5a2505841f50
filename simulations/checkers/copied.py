"""Copied chunks: when one is merged at M, its table holds exactly the source's rows at M of all chunks that are merged
(where none is parked, and no row was there before; the replay looks at those); what is parked with it is among those;
a chunk that is merged is neither read nor merged again; no more is read and remembered at once than there is room for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tidelock.engine.apply.machine import ApplyMachine, State
from tidelock.engine.batch.parked_rows import decode_change
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.protocol.effects import BeginCopy, MergeChunk, ReadChunk
from tidelock.simulations.checkers.checker import Checker, Commit
from tidelock.simulations.ledger import Mistake


class Copied(Checker):
    """`_merging`: the merge whose commit is told next."""

    def __init__(self, *args: object, **options: bool) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._merging: MergeChunk | None = None

    def asked(self, effect: ReadChunk) -> None:
        """A machine wants a chunk read; a zombie may not know yet that it is merged."""
        progress = self.ledger.progress(effect.split)
        if effect.id.epoch == self.target.epoch and progress.split == effect.split and effect.chunk in progress.merged:
            raise Mistake(f"chunk {effect.chunk} of {effect.split.table} is read again, though it is merged")

    def merged(self, effect: MergeChunk) -> None:
        self._merging = effect
        name, view, at = effect.split.table, self.ledger.view, self.ledger.progress(effect.split).merged[effect.chunk]
        keys = effect.split.by is By.KEYS
        rows = view.having(name, effect.gone, at) if keys else view.chunk(effect.split, at, effect.chunk)
        for parked in effect.parked:
            row = decode_change(parked.change).after
            if row not in rows:
                raise Mistake(f"{row} is parked with chunk {effect.chunk} of {name}, and is none of its rows then")
        if keys:
            self._overtaken(effect)

    def _overtaken(self, effect: MergeChunk) -> None:
        """Nothing is parked any more for the rows that a repair writes over, and all that was for others still is."""
        name, own = effect.split.table, [(row.source, row.number, row.ordinal) for row in effect.parked]
        gone = {self.ledger.view.token(name, key) for key in effect.gone}
        for place in (*effect.unparked, *self.target.parked):
            if place in own or self.ledger.table(place) != name:
                continue
            laid, *images = self.ledger.images(place, self.target.database)
            slots = {laid.key(row) for row in images if row is not None}
            if place in effect.unparked and not slots <= gone:
                raise Mistake(f"the repair {effect.id} takes {place}, which is parked for others too")
            if place not in effect.unparked and slots & gone:
                raise Mistake(f"the repair {effect.id} leaves {place} parked, which it writes over")

    def committed(self, commit: Commit) -> None:
        effect, self._merging = self._merging, None
        if effect is None or effect.split.keeps_target_rows or not self.whole:
            return
        name = effect.split.table
        progress = self.ledger.copies[name]
        at = progress.merged[effect.chunk]
        wanted = [row for chunk in progress.merged for row in self.ledger.view.chunk(progress.split, at, chunk)]
        found = self._logged(name, self.target.database.tables[name].rows.values())
        if Counter(wanted) != Counter(found):
            missing, extra = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
            raise Mistake(
                f"after chunk {effect.chunk} of {name} is merged at {effect.position}, the target misses "
                f"{list(missing)} and has {list(extra)}"
            )

    def copy_begun(self, effect: BeginCopy) -> None:
        for split in effect.splits:
            if self.target.database.tables[split.table].rows and not split.keeps_target_rows:
                raise Mistake(f"{split.table} is copied on top of rows")

    def _logged(self, name: TableName, rows: Iterable[Row]) -> list[Row]:
        """Rows as the log spells them."""
        columns = self.target.database.tables[name].spec.columns
        kept = [i for i, c in enumerate(columns) if not (c.default or c.generated)]
        return [tuple(row[i] for i in kept) for row in rows]

    def stepped(self, machine: ApplyMachine) -> None:
        if machine.state is not State.FLOWING or not machine.copying:
            return
        ledger, options = machine.copying.ledger, machine.options
        opened = sum(chunk.open for chunk in ledger.chunks)
        if opened > options.copy_reads or ledger.remembered > options.copy_touched:
            raise Mistake(f"{opened} chunks are open, {ledger.remembered} rows are remembered")

    def finished(self, machine: ApplyMachine) -> None:
        if machine.copying:
            raise Mistake(f"the copy is not done: {machine.snapshot()}")
        for name, progress in (*self.ledger.copies.items(), *self.ledger.repairs.items()):
            if not progress.done:
                raise Mistake(f"chunks of {name} are not merged: only {list(progress.merged)} are")
