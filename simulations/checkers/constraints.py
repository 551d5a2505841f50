"""Unique and foreign keys hold at every commit, not only at the end; no step of a batch names a key twice."""

from __future__ import annotations

from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.model.records import Row
from tidelock.engine.protocol.effects import ApplyBatch, ApplyPiece
from tidelock.engine.protocol.steps import DeleteRows, UpdateRows, UpsertRows
from tidelock.simulations.checkers.checker import Checker, Commit
from tidelock.simulations.ledger import Mistake


class Constraints(Checker):
    def sent_piece(self, effect: ApplyPiece) -> None:
        self.sent(effect)

    def sent(self, effect: ApplyBatch | ApplyPiece) -> None:
        for step in effect.steps:
            if not step.table.key:
                continue
            match step:
                case DeleteRows() | UpdateRows():
                    keys: list[Row] = step.keys
                case UpsertRows():
                    keys = [step.table.key_of(row) for row in step.rows]
            if len(set(keys)) != len(keys):
                raise Mistake(f"{effect.id} names a key of {step.table.name} twice in one statement: {keys}")

    def committed(self, commit: Commit) -> None:
        if broken := self.target.database.broken(commit.touched):
            raise Mistake(f"after {commit.effect.id}: {broken}")

    def finished(self, machine: ApplyMachine) -> None:
        if broken := self.target.database.broken():
            raise Mistake(f"at the end: {broken}")
