"""A source whose tables are altered, renamed, dropped and made anew between transactions."""

from __future__ import annotations

from random import Random

from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.schema_change import Ddl
from tidelock.simulations.altering import draws, forms, reshape
from tidelock.simulations.altering.draws import Statement
from tidelock.simulations.altering.forms import NAMES
from tidelock.simulations.history import History
from tidelock.simulations.log_entry import Entry
from tidelock.simulations.model import Violation
from tidelock.simulations.plan import Plan
from tidelock.simulations.selection import RULES

FIRST = 3
"""How many of the tables are there from the beginning."""
SHARE = 0.85
"""How many of all statements are about these tables."""


class AlteringHistory(History):
    """History with tables that change."""

    statements = 0.16
    altered = frozenset(NAMES)
    mapping = Mapping((*RULES, Rule(f"{forms.DATABASE}.*", f"{forms.DATABASE}.*")))

    def __init__(self, plan: Plan) -> None:
        self._dropped: dict[TableName, None] = {}
        super().__init__(plan)

    def _more_tables(self, plan: Plan) -> list[TargetTable]:
        chance = Random(f"altered {plan.seed}")
        return [*super()._more_tables(plan), *(forms.made_anew(name, chance) for name in NAMES[:FIRST])]

    def _statement(self, chance: Random, source: str, file: str, offset: int, *, due: bool) -> None:
        others = [name for name in self.source.tables if name not in self.altered]
        if due or (others and chance.random() >= SHARE):
            super()._statement(chance, source, file, offset, due=due)
            return
        tables = {name: table.spec for name, table in self.source.tables.items() if name in self.altered}
        statement = draws.draw(tables, chance, keyed="poison" not in self.plan.features)
        if statement is None or not self._happens(statement):
            return
        self.note(f"ddl {statement.kind}")
        told = Ddl(
            forms.DATABASE, statement.words, source, self.number, statement.kind, statement.tables, statement.databases
        )
        end = self.close(file, offset, chance.randint(50, 200))
        made = reshape.reshape_at_target(statement.reshape) if statement.reshape is not None else None
        self.entries.append(
            Entry(source, self.number, end, ddl=told, reshape=made, beside=statement.beside)
        )

    def at_target(self, spec: TargetTable) -> TargetTable:
        """Its columns stand in another order there."""
        return reshape.at_target(spec) if spec.name in self.altered else spec

    def _happens(self, statement: Statement) -> bool:
        """Carry it out; False where rows stand in its way."""
        if statement.reshape is None:
            for name in statement.tables:
                self.source.truncate(name)
            return True
        try:
            reshape.carry_out(self.source, statement.reshape)
        except Violation:
            return False
        self._noted(statement)
        return True

    def _noted(self, statement: Statement) -> None:
        changed = statement.reshape
        assert changed is not None
        self.note(f"altered: {' '.join(statement.words.split()[:2])}")
        if changed.blurred:
            self.note("altered: a name is given away and taken again")
        if any(made.spec.name in self._dropped for made in changed.made):
            self.note("altered: the name of a table that was dropped is taken")
        self._dropped |= dict.fromkeys(changed.emptied)
