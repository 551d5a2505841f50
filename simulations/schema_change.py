"""Schema changes at the simulated target: by a statement of the log, or by an operator's hand."""

from __future__ import annotations

import contextlib

from tidelock.engine.model.emptying import children_first
from tidelock.engine.model.records import Ddl, DdlKind, TableName
from tidelock.simulations.history import ADDED, Entry
from tidelock.simulations.model import Violation
from tidelock.simulations.stored import Stored


def change_schema(stored: Stored, ddl: Ddl) -> None:
    """Run a statement of the log."""
    entry = _statement(stored, ddl)
    for checker in stored.checkers:
        checker.statement(entry)
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
    for checker in stored.checkers:
        checker.statement_done(entry)
    stored.flush()


def pass_statement(stored: Stored, ddl: Ddl) -> None:
    """The operator changes the target by hand, if it needs that, and says `tidelock ddl done`."""
    entry = _statement(stored, ddl)
    for checker in stored.checkers:
        checker.statement(entry)
    if entry.keys is not None:
        _alter_keys(stored, entry, *ddl.tables)
    for checker in stored.checkers:
        checker.statement_done(entry)
    stored.state.ddl_passed = (ddl.source, ddl.number)
    stored.flush()


def _alter_keys(stored: Stored, entry: Entry, name: TableName) -> None:
    assert entry.keys is not None
    with contextlib.suppress(Violation):  # rows that are parked or given up may be missing here
        stored.database.alter(entry.keys.of(stored.database.tables[name].spec))


def _statement(stored: Stored, ddl: Ddl) -> Entry:
    return next(e for e in stored.ledger.history.entries if e.ddl is not None and e.number == ddl.number)
