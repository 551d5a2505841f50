"""What a run exercised, seen from outside: merges, waits, parked rows, effects.  It checks nothing.

A campaign adds the counters up; `simulations.coverage` says which of them may not stay at zero.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from engine.effects import ApplyBatch, ApplyEffect
from engine.parking import BLOCKED
from engine.records import TableName
from simulations.catalogue import POISON
from simulations.checkers.checker import Checker, Commit
from simulations.history import Entry
from simulations.layout import Token
from simulations.ledger import Images

DEEPEST = 10


class Exercise(Checker):
    def __init__(self, coverage: Counter[str], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._coverage = coverage

    def committed(self, commit: Commit) -> None:
        self._parked(commit)
        if len(commit.applied) > 1:
            self._merged(commit)

    def _parked(self, commit: Commit) -> None:
        coverage = self._coverage
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

    def _merged(self, commit: Commit) -> None:
        """Pairs of neighbours among the changes of one row in one batch."""
        last: dict[tuple[TableName, Token], str] = {}
        for images in commit.images:
            for slot, kind in self._parts(images):
                if slot in last:
                    self._coverage[f"merged: {last[slot]}, {kind}"] += 1
                last[slot] = kind

    def _parts(self, images: Images) -> list[tuple[tuple[TableName, Token], str]]:
        """What a change does to each row; a key that moves is a delete and an insert."""
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

    def chain(self, length: int) -> None:
        """Segments waited for each other, so many in a row."""
        if length > 1:
            self._coverage[f"waits in a chain of {min(length, DEEPEST)}{' or more' if length >= DEEPEST else ''}"] += 1
