"""Bugs at the target: what an adapter's SQL keeps in a real one, broken in the simulated one."""

from __future__ import annotations

from simulations.mutants.mutant import Mutant

TARGET = (
    Mutant(
        "zombie-not-fenced",
        "simulations.target",
        """
        - if work.epoch != self._epoch:
        -     self._fail(work, Trouble.FENCED, "a newer owner has the feed")
        -     return
        """,
        "a batch that an older owner left behind passes the fence",
        row=3,
    ),
    Mutant(
        "takeover-reads-too-early",
        "simulations.target",
        """
          for work in list(self.works):
        -     if work.stage is Stage.QUEUED:
        +     if work.stage in (Stage.QUEUED, Stage.COMMITTING) or not work.effect.held:
        """,
        "the receipts are read while an older owner's batch still commits",
        row=3,
    ),
    Mutant(
        "zombie-statement-runs",
        "simulations.target",
        """
        - self._orders = [entry for entry in self._orders if isinstance(entry[1], SaveCheckpoint)]

        - if effect.id.epoch != self._epoch:
        + if False:
        """,
        "an older owner's TRUNCATE, which drops its own fence, runs after the takeover",
        row=14,
    ),
    Mutant(
        "zombie-checkpoint-saved",
        "simulations.target",
        """
        - elif effect.id.epoch != self._epoch:
        + elif False:
        """,
        "an older owner's checkpoint is written after the takeover",
        case="checkpoint going back (ticdc 6045)",
    ),
    Mutant(
        "receipt-key-not-asked",
        "simulations.target",
        """
        - if effect.id in self._receipts:
        + if False:
        """,
        "a batch that comes again under its id is applied again",
        row=4,
    ),
    Mutant(
        "upsert-moves-another-row",
        "simulations.model",
        """
          slot = self._find(table, binding, binding.key_of(row)) if binding.key else None
          if slot is None:
        -     self.insert(binding.name, self._line_up(table, binding, row, None))
        +     new = self._line_up(table, binding, row, None)
        +     for index in table.spec.uniques:
        +         value = table.unique(index, new)
        +         for held, other in list(table.rows.items()):
        +             if value is not None and held in table.rows and table.unique(index, other) == value:
        +                 self._drop(table, held)
        +     self.insert(binding.name, new)
        """,
        "a wanted unique value takes the place of the row that holds it, as ON DUPLICATE KEY UPDATE does",
        row=12,
    ),
    Mutant(
        "cascade-does-not-fire",
        "simulations.model",
        """
        - for child in self._children(fk, table, row):
        -     self.delete(fk.child, child)
        + continue
        """,
        "a target with foreign_key_checks=0 does not cascade",
        row=11,
    ),
    Mutant(
        "delete-of-nothing-locks-a-gap",
        "simulations.model",
        """
        - if slot is not None:
        + if slot is None:
        +     self.exclusive.add((binding.name, "gap"))
        + else:
        +     self.shared.add((binding.name, "gap"))
        """,
        "under REPEATABLE READ a delete that finds no row locks the gap, and others wait for it",
        row=18,
    ),
)
