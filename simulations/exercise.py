"""Count of what a run exercised, seen from outside: merges, waits, parked rows, effects.  It checks nothing.

A campaign adds the counters up; `simulations.coverage` says which of them may not stay at zero.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tidelock.engine.apply.machine import ApplyMachine, State
from tidelock.engine.batch.parked_rows import BLOCKED
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.protocol.effects import ApplyBatch, ApplyEffect, BeginCopy, MergeChunk
from tidelock.simulations.catalogue import POISON
from tidelock.simulations.checkers.checker import Checker, Commit
from tidelock.simulations.copier import REFUSED
from tidelock.simulations.layout import Token
from tidelock.simulations.ledger import Images
from tidelock.simulations.log_entry import Entry

DEEPEST = 10


class Exercise(Checker):
    def __init__(self, coverage: Counter[str], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._coverage = coverage

    # ------------------------------------------------------------------ copies

    def merged(self, effect: MergeChunk) -> None:
        coverage, ledger = self._coverage, self.ledger
        name, progress = effect.split.table, ledger.progress(effect.split)
        coverage["copy: row parked that the target refuses"] += sum(row.error == REFUSED for row in effect.parked)
        coverage["copy: last image parked to be tried by itself"] += sum(row.error != REFUSED for row in effect.parked)
        if effect.split.by is By.KEYS:
            coverage["repair: chunk merged"] += 1
            coverage["repair: row touched meanwhile"] += len(effect.without)
            coverage["repair: parked change overtaken"] += len(effect.unparked)
            return
        coverage["copy: chunk merged where rows are kept" if effect.split.keep else "copy: chunk merged"] += 1
        images = [row for step in effect.steps for row in getattr(step, "rows", ())]
        coverage["copy: row touched while its chunk was open"] += len(effect.without)
        coverage["copy: row deleted while its chunk was open"] += len(effect.without) - len(images)
        at = progress.merged[effect.chunk]
        touched = {tuple(key) for key in effect.without}
        for entry in ledger.history.entries[progress.begun : at]:
            if entry.taken and entry.shape is not None and entry.shape.name == name:
                rows = [row for row in (entry.before, entry.after) if row is not None]
                keys = [row[: len(effect.key)] for row in rows if self._chunk(effect, row) == effect.chunk]
                coverage["copy: change of a pending chunk dropped"] += sum(key not in touched for key in keys)
        self._traded(effect, progress.begun, at)

    def _chunk(self, effect: MergeChunk, row: Row) -> int:
        return self.ledger.view.chunk_of(effect.split, row)

    def _traded(self, effect: MergeChunk, begun: int, at: int) -> None:
        """Unique values that rows of another chunk held when the copy began."""
        name, view, database = effect.split.table, self.ledger.view, self.target.database
        for _, read in database.tables[name].layout.uniques:
            held = {read(self.ledger.whole(name, row, database)): row for row in view.at[begun][name]}
            for row in view.chunk(effect.split, at, effect.chunk):
                value = read(self.ledger.whole(name, row, database))
                if value in held and value is not None and self._chunk(effect, held[value]) != effect.chunk:
                    self._coverage["copy: unique value moved between chunks"] += 1

    def copy_begun(self, effect: BeginCopy) -> None:
        for split in effect.splits:
            repair = "repair: begun" if split.keys else "repair: given up"
            self._coverage[repair if split.by is By.KEYS else "copy: begun again"] += 1

    def tampered(self, name: TableName, slot: Token, row: Row | None) -> None:
        self._coverage["repair: row of the target changed by others"] += 1

    def left(self, machine: ApplyMachine) -> None:
        """Its owner is gone, and another takes over."""
        if machine.state is State.WAITING or not machine.copying:
            return
        for chunk in machine.copying.ledger.chunks:
            self._coverage[f"copy: taken over with a chunk {chunk.state.value}"] += 1
        if machine.copying.writing:
            self._coverage["copy: taken over during a merge or a beginning"] += 1

    # ------------------------------------------------------------------ commits

    def committed(self, commit: Commit) -> None:
        self._parked(commit)
        for place in commit.places if self.ledger.copies else ():
            entry = self.ledger.entry(place)
            if self.ledger.effect(place) != (entry.before, entry.after):
                self._coverage["copy: half of a move between chunks applied"] += 1
        if len(commit.applied) > 1:
            self._merged(commit)

    def _parked(self, commit: Commit) -> None:
        coverage = self._coverage
        if commit.effect.rows == 0 and commit.places:
            coverage["streamed: committed"] += 1
            coverage["streamed: a row parked"] += bool(commit.parked)
            coverage["streamed: pieces after a parked row"] += self._went_on(commit)
        for row in commit.effect.parked:
            entry = self.ledger.entry((row.source, row.number, row.ordinal))
            if row.error == BLOCKED:
                coverage["parked: an earlier change of its row is"] += 1
            elif POISON in (entry.after or ()):
                coverage["parked: the target refuses the row"] += 1
            else:
                coverage["parked: a constraint refuses it"] += 1
        if commit.retried:
            coverage["parked, then applied"] += 1
        if commit.skipped:
            coverage["parked, then given up"] += 1

    def _went_on(self, commit: Commit) -> bool:
        """Was something applied behind a row that was parked?"""
        index = self.ledger.index
        first = min((index[place] for place in commit.parked), default=None)
        return first is not None and any(index[place] > first for place in commit.applied)

    def _merged(self, commit: Commit) -> None:
        """Pairs of neighbours among the changes of one row in one batch."""
        last: dict[tuple[TableName, Token], str] = {}
        for images in commit.images:
            for slot, kind in self._parts(images):
                if slot in last:
                    self._coverage[f"merged: {last[slot]}, {kind}"] += 1
                last[slot] = kind

    def _parts(self, images: Images) -> list[tuple[tuple[TableName, Token], str]]:
        """Returns what a change does to each row; a key that moves is a delete and an insert."""
        laid, before, after = images
        name = laid.spec.name
        if not laid.spec.key:
            return []
        if before is not None and after is not None:
            old, new = laid.key(before), laid.key(after)
            if old == new:
                return [((name, old), "update")]
            self._coverage["key moved"] += 1
            return [((name, old), "delete"), ((name, new), "insert")]
        row = before or after
        assert row is not None
        return [((name, laid.key(row)), "insert" if before is None else "delete")]

    def statement_done(self, entry: Entry) -> None:
        if self.ledger.emptied:
            self._coverage["parked, then emptied with the table"] += 1

    def wanted(self, effect: ApplyEffect) -> None:
        """A machine wants this done."""
        self._coverage[f"effect: {type(effect).__name__}"] += 1
        if isinstance(effect, ApplyBatch) and effect.held and not self.atomic:
            self._coverage["held to learn which row is bad"] += 1

    def had_whole(self, segments: int, successors: int) -> None:
        """Counts segments that had tables whole, and those that waited for one of them."""
        self._coverage["a lane has a table whole"] += segments
        self._coverage["waits for a lane that has its table whole"] += successors

    def chain(self, length: int) -> None:
        """Segments waited for each other, so many in a row."""
        if length > 1:
            self._coverage[f"waits in a chain of {min(length, DEEPEST)}{' or more' if length >= DEEPEST else ''}"] += 1
