"""Where tables are altered: each row is applied to the table as it was for that row, on its side of each statement, and
behind a statement the target's tables are as it leaves them."""

from __future__ import annotations

from typing import Any

from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import DdlKind
from tidelock.engine.protocol.effects import ApplyBatch, ApplyPiece
from tidelock.simulations.checkers.checker import Checker, Commit
from tidelock.simulations.ledger import Mistake, has_grown
from tidelock.simulations.log_entry import Entry, Place


class Shapes(Checker):
    """`_statements`: places in the log of those that concern the feed.  `_seen_done`: how many of them took effect."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        history = self.ledger.history
        self._statements: list[tuple[int, Entry]] = []
        if history.altered:
            entries = enumerate(history.entries)
            self._statements = [(i, e) for i, e in entries if e.ddl and e.ddl.kind is not DdlKind.UNRELATED]
        self._seen_done = 0

    @property
    def next(self) -> Entry | None:
        """The statement that takes effect next."""
        done = self._seen_done
        return self._statements[done][1] if done < len(self._statements) else None

    # ------------------------------------------------------------------ rows

    def sent(self, effect: ApplyBatch) -> None:
        """A batch is written for the tables as they are."""
        self._planned(effect)

    def sent_piece(self, effect: ApplyPiece) -> None:
        self._planned(effect)

    def _planned(self, effect: ApplyBatch | ApplyPiece) -> None:
        if effect.id.epoch != self.target.epoch:
            return  # a zombie's, which is not written
        for step in effect.steps if self._statements else ():
            table = self.target.database.tables.get(step.table.name)
            if table is None or not has_grown(step.table.target, table.spec):
                raise Mistake(f"{effect.id} is made for another table than {step.table.name} is")

    def committed(self, commit: Commit) -> None:
        if not self._statements:
            return
        retried = {*commit.retried}
        for place in commit.applied:
            if place not in retried:
                self._on_its_side(place)
            self._of_its_form(place)

    def _on_its_side(self, place: Place) -> None:
        index, done = self.ledger.index[place], self._seen_done
        if done and index < self._statements[done - 1][0]:
            raise Mistake(f"{place} is applied behind {self._statements[done - 1][1].ddl}, which came after it")
        if done < len(self._statements) and index > self._statements[done][0]:
            raise Mistake(f"{place} is applied before {self._statements[done][1].ddl}")

    def _of_its_form(self, place: Place) -> None:
        entry = self.ledger.entry(place)
        if entry.spec is None:
            return
        table = self.target.database.tables.get(entry.spec.name)
        if table is None or not has_grown(entry.spec, table.spec):
            raise Mistake(f"{place} is applied to {entry.spec.name}, which had another form then")
        for index, statement in self._statements[: self._seen_done]:
            if index > self.ledger.index[place] and entry.spec.name in _moved(statement):
                raise Mistake(f"{place} is applied behind {statement.ddl}, and was made for the table of before")

    # ------------------------------------------------------------------ statements

    def statement_done(self, entry: Entry) -> None:
        if not self._statements:
            return
        number = next(n for n, (_, statement) in enumerate(self._statements) if statement.number == entry.number)
        if number not in (self._seen_done, self._seen_done - 1):
            raise Mistake(f"{entry.ddl} runs, and {self._seen_done} statements have run before it")
        self._seen_done = number + 1
        if entry.reshape is not None and not entry.reshape.is_done(self.target.database.specs):
            raise Mistake(f"{entry.ddl} leaves {self.target.database.specs}")

    def finished(self, machine: ApplyMachine) -> None:
        history = self.ledger.history
        if not self._statements:
            return
        if self._seen_done != len(self._statements):
            raise Mistake(f"{len(self._statements) - self._seen_done} statements have not run")
        specs = history.source.specs.items()
        theirs = {name: history.at_target(spec) for name, spec in specs if name in history.altered}
        ours = {name: spec for name, spec in self.target.database.specs.items() if name in history.altered}
        if theirs != ours:
            raise Mistake(f"the target's tables are {ours} at the end, the source's {theirs}")


def _moved(statement: Entry) -> tuple[TableName, ...]:
    """Returns the tables whose failed rows of before it may not be applied behind it."""
    grows = statement.ddl is not None and statement.ddl.kind is DdlKind.ADD_COLUMN
    return statement.reshape.names if statement.reshape is not None and not grows else ()
