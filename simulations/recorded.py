"""Worlds whose source commits what a recorded run's log holds: a production journal as the seed of any number of runs.

Faults, settings and timing are drawn as always; tables and transactions are the recording's (`simulations.modelled`).
Rows that must have been there before it, as the before-images say, are inserted by transactions of their own.  What
does not fit the modelled database is told: `NotModelled`.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.model.records import UNKNOWN, Position, Row, RowChange, TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.schema_change import DdlKind
from tidelock.simulations.catalogue import POISON
from tidelock.simulations.history import History
from tidelock.simulations.layout import Token, layout
from tidelock.simulations.log_entry import Entry
from tidelock.simulations.model import Database, Table, Violation
from tidelock.simulations.modelled import Change, Model, Step, modelled
from tidelock.simulations.plan import Plan, draw
from tidelock.simulations.recording import read_recording
from tidelock.simulations.session import Session
from tidelock.simulations.trial import Trial, attempt

SETUP = "setup"
SETUP_ROWS = 20
FILE_TRANSACTIONS = 8


class NotModelled(Exception):
    """The recorded log and the modelled database do not fit; `args[0]` says where."""


class RecordedHistory(History):
    """The steps of a model that the plan keeps."""

    mapping = Mapping((Rule("*.*", "*.*"),))

    def __init__(self, model: Model, plan: Plan) -> None:
        """Raises NotModelled."""
        self.plan = plan
        self.tables = model.tables
        self.late = None
        self.at_first = list(model.tables)
        self.source = Database(model.tables)
        self.start = self._end = Position("log.000001", 0)
        self.entries: list[Entry] = []
        self.deeds: dict[str, int] = {}
        self.rows = self.told = self.number = 0
        self.held = {}
        self._shapes = model.shapes
        steps = list(_kept(model.steps, plan))
        self._set_up(_rows_before(model.tables, steps))
        for step in steps:
            self._take(step)
        self._orders = [entry.end.order for entry in self.entries]

    def _set_up(self, rows: list[tuple[TableName, Row]]) -> None:
        """Parents go before children, so what is refused is tried again when all others are in."""
        session = self.source.begin()
        changes: list[Change] = []
        while rows:
            refused = [(name, row) for name, row in rows if not _inserted(session, name, row)]
            if len(refused) == len(rows):
                raise NotModelled(f"{refused[0][1]} of {refused[0][0]} cannot have been there before the recording")
            changes += [Change(name, None, row, 0) for name, row in rows if (name, row) not in refused]
            rows = refused
        session.commit()
        for first in range(0, len(changes), SETUP_ROWS):
            some = changes[first : first + SETUP_ROWS]
            self._log(Step(SETUP, first + 1, tuple(replace(c, ordinal=i) for i, c in enumerate(some))))

    def _take(self, step: Step) -> None:
        if step.ddl is not None and step.ddl.kind is DdlKind.TRUNCATE:
            for name in step.ddl.tables:
                self.source.truncate(name)
        session = self.source.begin()
        for change in step.changes:
            if UNKNOWN in (*(change.before or ()), *(change.after or ())):
                raise NotModelled(f"the log does not tell rows of {change.table} whole")
            try:
                _carry_out(session, change)
            except Violation as error:
                raise NotModelled(f"row {change.ordinal} of transaction {step.number} does not fit: {error}") from None
        session.commit()
        self._log(step)

    def _log(self, step: Step) -> None:
        self.number += 1
        file = f"log.{1 + self.number // FILE_TRANSACTIONS:06}"
        offset = 0 if file != self._end.file else self._end.offset
        for change in step.changes:
            end = Position(file, offset, change.ordinal + 1)
            row = RowChange(-1, change.before, change.after, change.ordinal)
            shape = self._shapes[change.table]
            self.entries.append(Entry(step.source, step.number, end, row, shape, change.before, change.after))
        self.rows += len(step.changes)
        end = self.close(file, offset, 100)
        self.entries.append(Entry(step.source, step.number, end, commit=step.ddl is None, ddl=step.ddl))


def _kept(steps: Iterable[Step], plan: Plan) -> Iterator[Step]:
    rows = 0
    for step in steps:
        if rows >= plan.changes:
            break
        if step.number not in plan.without:
            rows += len(step.changes)
            yield step


def _rows_before(tables: dict[TableName, TargetTable], steps: Iterable[Step]) -> list[tuple[TableName, Row]]:
    """Rows that a before-image shows and nothing before it wrote."""
    before: list[tuple[TableName, Row]] = []
    seen: dict[tuple[TableName, Token], None] = {}
    keyless: Counter[tuple[TableName, Row]] = Counter()  # rows that are there now
    for step in steps:
        for change in step.changes:
            name, laid = change.table, layout(tables[change.table])
            images = [row for row in (change.before, change.after) if row is not None]
            if change.before is not None:
                known = (name, laid.key(change.before)) in seen if laid.spec.key else keyless[name, change.before] > 0
                if not known:
                    before.append((name, change.before))
                    keyless[name, change.before] += 1
            seen.update({(name, laid.key(row)): None for row in images})
            keyless.subtract([(name, change.before)] if change.before is not None else [])
            keyless.update([(name, change.after)] if change.after is not None else [])
    return before


def _inserted(session: Session, name: TableName, row: Row) -> bool:
    try:
        session.insert(name, row)
    except Violation:
        return False
    return True


def _carry_out(session: Session, change: Change) -> None:
    """Raises Violation, also where the row is not what its before-image says."""
    table = session.table(change.table)
    if change.before is None:
        assert change.after is not None
        session.insert(change.table, change.after)
        return
    slot = table.key(change.before) if table.spec.key else table.equal(change.before)
    if slot is None or table.rows.get(slot) != change.before:
        if change.after is None and _cascades(table):
            return  # its parent took it along
        raise Violation(f"{change.table} does not hold {change.before}")
    if change.after is None:
        session.delete(change.table, slot)
    else:
        session.update(change.table, slot, change.after)


def _cascades(table: Table) -> bool:
    return any(fk.cascades for fk in table.spec.foreign_keys)


# ---------------------------------------------------------------------- worlds


@functools.lru_cache(maxsize=1)
def model_of(path: str) -> Model:
    """Read the journal.  Raises OSError, JournalError, and NotModelled where not all of it can be a history."""
    model = modelled(read_recording(path))
    RecordedHistory(model, replace(draw(0), changes=model.rows, copy=None))
    return model


class FromJournal(msgspec.Struct, frozen=True):
    """Worlds on the log of one journal.  Raises as `model_of`, when it is first used."""

    path: str
    told: bool = False

    @property
    def varied(self) -> bool:
        return False

    def plan(self, seed: int) -> Plan:
        model, drawn = model_of(self.path), draw(seed)
        rows = (row for step in model.steps for change in step.changes for row in (change.before, change.after))
        poisoned = ("poison", "wishes") if any(POISON in row for row in rows if row is not None) else ()
        features = (*(f for f in drawn.features if f == "pauses"), *poisoned)
        return replace(drawn, families=(), changes=model.rows, features=features, copy=None)

    def attempt(self, plan: Plan, *, told: bool = False) -> Trial:
        """A plan that leaves out what later changes need is no world: it is clean."""
        try:
            history = RecordedHistory(model_of(self.path), plan)
        except NotModelled:
            return Trial(plan)
        return attempt(plan, history=history, told=told)

    def __call__(self, seed: int) -> Trial:
        return self.attempt(self.plan(seed), told=self.told)
