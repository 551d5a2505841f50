"""Bugs at the target: what an adapter's SQL keeps in a real one, broken in the simulated one."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

TARGET = (
    Mutant(
        "parents-emptied-before-children",
        """
        @ children_first
        - [name for name in left if name not in referred] or left
        + left
        """,
        "a TRUNCATE of a parent and its children stops at the foreign key",
    ),
    Mutant(
        "zombie-not-fenced",
        """
        @ Lanes._execute
        - (refusal := self.fence.refusal(work.owner, effect.id.epoch))
        + (refusal := "")
        """,
        "a batch that an older owner left behind passes the fence",
        row=3,
    ),
    Mutant(
        "takeover-reads-too-early",
        """
        @ Target.take_over
        - work.stage is Stage.QUEUED
        + work.stage in (Stage.QUEUED, Stage.COMMITTING) or not work.effect.held
        """,
        "the receipts are read while an older owner's batch still commits",
        row=3,
    ),
    Mutant(
        "zombie-statement-runs",
        """
        @ Orders.cut_off
        - self._waiting = [entry for entry in self._waiting if isinstance(entry[1], SaveCheckpoint)]

        @ Orders._carry_out
        - (refusal := self._fence.refusal(owner, effect.id.epoch))
        + (refusal := self._fence.refusal(owner, effect.id.epoch)) and not isinstance(effect, ApplyDdl)
        """,
        "an older owner's TRUNCATE, which drops its own fence, runs after the takeover",
        row=14,
    ),
    Mutant(
        "zombie-checkpoint-saved",
        """
        @ Orders._carry_out
        - (refusal := self._fence.refusal(owner, effect.id.epoch))
        + (refusal := self._fence.refusal(owner, effect.id.epoch)) and isinstance(effect, ApplyDdl)
        """,
        "an older owner's checkpoint is written after the takeover",
        case="checkpoint going back (ticdc 6045)",
    ),
    Mutant(
        "receipt-key-not-asked",
        """
        @ Lanes._execute
        - effect.id in self.state.receipts
        + False
        """,
        "a batch that comes again under its id is applied again",
        row=4,
    ),
    Mutant(
        "upsert-moves-another-row",
        """
        @ Session.upsert_row
        + new = self.bind(table, binding, row, None)
        + for index, (_, read) in zip(table.indexes, table.layout.uniques, strict=True):
        +     if (held := index.get(read(new))) is not None:
        +         self._drop(table, held)
          self.insert(binding.name, self.bind(table, binding, row, None))
        """,
        "a wanted unique value takes the place of the row that holds it, as ON DUPLICATE KEY UPDATE does",
        row=12,
    ),
    Mutant(
        "cascade-does-not-fire",
        """
        @ Session._delete
        - fk.cascades and (value := read(row)) is not None
        + fk.cascades and not self._watched and (value := read(row)) is not None
        """,
        "a target with foreign_key_checks=0 does not cascade",
        row=11,
    ),
    Mutant(
        "delete-of-nothing-locks-a-gap",
        """
        @ Session._delete_row
        - if slot is not None:
        -     self.delete(binding.name, slot)
        + if slot is None:
        +     self.exclusive.add((binding.name, "gap", ()))
        + else:
        +     self.shared.add((binding.name, "gap", ()))
        +     self.delete(binding.name, slot)
        """,
        "under REPEATABLE READ a delete that finds no row locks the gap, and others wait for it",
        row=18,
    ),
)
