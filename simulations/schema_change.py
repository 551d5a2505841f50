"""Schema changes at the simulated target: by a statement of the log, or by an operator's hand."""

from __future__ import annotations

import contextlib

from tidelock.engine.model.emptying import children_first
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.simulations.altering import carrying_out
from tidelock.simulations.history import ADDED
from tidelock.simulations.log_entry import Entry
from tidelock.simulations.model import Violation
from tidelock.simulations.stored import Stored


def refusal(stored: Stored, ddl: Ddl) -> str:
    """Returns why the target does not run a statement, '' if it does."""
    return carrying_out.refusal(stored, statement_of(stored, ddl))


def emptied_by(stored: Stored, ddl: Ddl) -> tuple[TableName, ...]:
    """Returns the tables whose failed rows go with a statement."""
    reshape = statement_of(stored, ddl).reshape
    if reshape is not None:
        return reshape.emptied
    return ddl.tables if ddl.kind is DdlKind.TRUNCATE else ()


def change_schema(stored: Stored, ddl: Ddl, *, noted: bool = True) -> None:
    """Run a statement of the log.  `noted`: else the target ends before it has noted that the statement ran."""
    entry, notes = statement_of(stored, ddl), bool(stored.ledger.history.plan.altered)
    if notes and carrying_out.has_passed(stored, entry):
        return
    for checker in stored.checkers:
        checker.statement(entry)
    if entry.reshape is not None:
        carrying_out.alter(stored, entry)
    else:
        _change(stored, entry, ddl)
    for checker in stored.checkers:
        checker.statement_done(entry)
    if notes and (noted or ddl.kind is DdlKind.TRUNCATE):
        carrying_out.note(stored, entry)
    stored.flush()


def _change(stored: Stored, entry: Entry, ddl: Ddl) -> None:
    name, *_ = ddl.tables
    match ddl.kind:
        case DdlKind.TRUNCATE:
            for emptied in children_first(ddl.tables, stored.database.specs):
                stored.database.delete_all(emptied)
                stored.empty(emptied)
        case DdlKind.CREATE_TABLE:
            stored.database.create(stored.ledger.history.tables[name])
        case DdlKind.ALTERED:
            _alter_keys(stored, entry, name)
        case _:
            stored.database.add_column(name, ADDED)


def pass_statement(stored: Stored, ddl: Ddl) -> None:
    """The operator changes the target by hand, if it needs that, and says `tidelock ddl done`."""
    entry = statement_of(stored, ddl)
    for checker in stored.checkers:
        checker.statement(entry)
    if entry.reshape is not None:
        carrying_out.alter(stored, entry)
        carrying_out.note(stored, entry)
    elif entry.keys is not None:
        _alter_keys(stored, entry, *ddl.tables)
    for checker in stored.checkers:
        checker.statement_done(entry)
    stored.state.ddl_passed = (ddl.source, ddl.number)
    stored.flush()


def _alter_keys(stored: Stored, entry: Entry, name: TableName) -> None:
    assert entry.keys is not None
    with contextlib.suppress(Violation):  # rows that are parked or given up may be missing here
        stored.database.alter(entry.keys.of(stored.database.tables[name].spec))


def statement_of(stored: Stored, ddl: Ddl) -> Entry:
    """Returns the statement as it stands in the log."""
    return next(e for e in stored.ledger.history.entries if e.ddl is not None and e.number == ddl.number)
