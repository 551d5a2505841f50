"""Bugs of schema changes: barriers that let rows through, changes that run twice, rows in a form that is not theirs."""

from __future__ import annotations

from tidelock.simulations.mutants.mutant import Mutant

STATEMENTS = (
    Mutant(
        "barrier-asks-one-lane",
        """
        @ Pipeline.advance
        - self._barrier.draining and not self.batches.busy
        + self._barrier.draining and not (self.batches.lanes[0].running or self.batches.lanes[0].queue)
        """,
        "a statement waits for the rows of one lane, and runs beside those of another",
        worlds="altering",
    ),
    Mutant(
        "no-checkpoint-before-a-new-form",
        """
        @ Barrier.reshapes
        - self.ddl is not None and self.ddl.kind is DdlKind.ALTERED
        + False
        """,
        "a run that begins behind an altered table reads rows of the old form again, and cannot bind them",
        worlds="altering",
    ),
    Mutant(
        "checkpoint-behind-a-statement-to-come",
        """
        @ WindowPlanner._take_statement
        - self._barrier.raise_for(ddl, batch.last)
        + self._barrier.raise_for(ddl, batch.last)
        + self._watermark.open(batch.last, 0)
        """,
        "a checkpoint passes a statement that has not run, and a crash loses it",
        worlds="altering",
    ),
    Mutant(
        "passed-statement-not-sealed",
        """
        @ WindowPlanner._take_statement
        - if ddl.kind is not DdlKind.UNRELATED:
        -     self._barrier.passes(ddl, batch.last)
        """,
        "rows follow a passed statement before a checkpoint does, and once the next one is noted it runs again",
        worlds="altering",
    ),
    Mutant(
        "statement-in-doubt-has-run",
        """
        @ Barrier.again
        - self._enter(Stage.DRAINING)
        + self.stage = Stage.OPEN
        + self.ddl = self.end = None
        + return
        """,
        "a statement in doubt is taken to have run",
        worlds="altering",
    ),
    Mutant(
        "waiting-rows-pass-a-statement",
        """
        @ WindowPlanner._latest
        - self._buffer.ddl is not None
        + False

        @ WindowPlanner.plan
        - self._batches.coalescer.has_waited_since(latest := self._latest)
        + self._batches.coalescer.has_waited_since(latest := self._latest) and self._buffer.ddl is None
        """,
        "rows that wait for more of their table are planned behind the statement that came after them",
        worlds="altering",
    ),
    Mutant(
        "altered-tables-in-the-old-form",
        """
        @ Pipeline._ddl_applied
        - self._rebind(dict(event.tables))
        + self._rebind(self.tables | {n: t for n, t in dict(event.tables).items() if n not in self.tables})
        """,
        "only tables that are new to the feed are read behind a statement",
        worlds="altering",
        case="a stale plan after DDL (Vitess 19535)",
    ),
    Mutant(
        "numbers-of-forms-stay-bound",
        """
        @ RelationCache.retable
        - self._bindings.clear()
        """,
        "a form that comes again under its number is lined up with the table of before",
        worlds="altering",
    ),
    Mutant(
        "locks-of-the-old-keys",
        """
        @ BindingLocks._lock_by
        - keys = compile_keys(binding, self._space, self._tables, table_shared=shared, alone=alone)
        + from msgspec.structs import replace
        + first = vars(self).setdefault("first", {}).setdefault(binding.name, binding.target)
        + known = tuple(unique for unique in binding.target.uniques if unique in first.uniques)
        + as_it_was = Binding(binding.number, binding.shape, replace(binding.target, uniques=known))
        + keys = compile_keys(as_it_was, self._space, self._tables, table_shared=shared, alone=alone)
        """,
        "rows behind a statement are locked by the keys of before it",
        worlds="altering",
    ),
    Mutant(
        "columns-by-their-places",
        """
        @ Binding.__init__
        - (by_name[c.name] for c in shape.columns)
        + tuple(c for c in target.columns if not c.generated and not c.default)[: len(shape.columns)]
        """,
        "a row's values are given to the target's columns by their places",
        worlds="altering",
    ),
    Mutant(
        "failed-rows-of-a-dropped-table-stay",
        """
        @ Pipeline._ddl_applied
        - self.batches.parked_retry.emptied(event.emptied)
        + self.batches.parked_retry.emptied([t for t in event.emptied if t in self.tables])
        """,
        "failed rows of a table that is gone are known as failed, and block those of the next table of its name",
        worlds="altering",
    ),
)

AT_THE_TARGET = (
    Mutant(
        "change-not-known-again",
        """
        @ carrying_out.alter
        - change.is_done(tables) and not change.blurred
        + False

        - if not change.is_open(tables): ...
        + pass
        """,
        "a change that ran before a crash is run once more",
        worlds="altering",
    ),
    Mutant(
        "trade-of-names-is-run",
        """
        @ carrying_out.refusal
        - change.blurred and stored.ledger.history.plan.altered == IMPLICIT
        + False
        """,
        "two tables trade their names where nobody can tell later whether they have",
        worlds="altering",
    ),
    Mutant(
        "altered-under-its-failed-rows",
        """
        @ carrying_out.refusal
        - change.made and failed_rows(stored, change)
        + False
        """,
        "a table is altered while rows of its old form are to be tried again",
        worlds="altering",
    ),
    Mutant(
        "note-without-the-change",
        """
        @ schema_change.change_schema
          if notes and carrying_out.has_passed(stored, entry):
              return
        + if not noted:
        +     carrying_out.note(stored, entry)
        +     return stored.flush()
        """,
        "a statement is noted before it runs, and a crash in between loses it",
        worlds="altering",
    ),
    Mutant(
        "late-statement-runs",
        """
        @ Orders.cut_off
        - self._waiting = [entry for entry in self._waiting if isinstance(entry[1], SaveCheckpoint)]

        @ Orders._carry_out
        - (refusal := self._fence.refusal(owner, effect.id.epoch))
        + (refusal := self._fence.refusal(owner, effect.id.epoch)) and not isinstance(effect, ApplyDdl)
        """,
        "a statement of an older owner runs once more: a DROP TABLE drops the next table of that name",
        worlds="altering",
    ),
    Mutant(
        "rows-in-the-form-of-now",
        """
        @ Reader._row
        + tables = self._history.source.tables
        + form = tables[entry.shape.name].layout.shape if entry.shape.name in tables else entry.shape
        + if entry.spec is not None and len(form.columns) == len(entry.shape.columns):
        +     entry = replace(entry, shape=form)
        + ...
        """,
        "a row that is read again is given the columns that its table has now",
        worlds="altering",
    ),
)

ALTERING = (*STATEMENTS, *AT_THE_TARGET)
