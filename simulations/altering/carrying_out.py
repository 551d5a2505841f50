"""A statement that alters tables at the simulated target: judged by the tables as they are, then run, and noted."""

from __future__ import annotations

from tidelock.engine.model.schema_change import DdlKind
from tidelock.simulations.altering import reshape
from tidelock.simulations.altering.reshape import Reshape
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.log_entry import Entry, Place
from tidelock.simulations.stored import Stored

IMPLICIT = "implicit"
"""Target that commits a statement by itself, and its bookkeeping later."""
NOTED = "noted"
"""Target that commits a statement together with the note that it ran."""


def refusal(stored: Stored, entry: Entry) -> str:
    """Returns why the target does not run a statement before an operator has seen to it, '' if it does."""
    change = entry.reshape
    if change is None or entry.ddl is None or entry.ddl.kind is not DdlKind.ALTERED or has_passed(stored, entry):
        return ""
    if change.made and failed_rows(stored, change):
        return "a table has failed rows, and cannot be changed before they are ended"
    if change.blurred and stored.ledger.history.plan.altered == IMPLICIT:
        return "nobody could tell later whether it ran"
    return ""


def failed_rows(stored: Stored, change: Reshape) -> list[Place]:
    """Returns the places of failed rows of the tables that change."""
    tables = {(name.schema, name.table) for name in change.names}
    return [place for place, (row, _) in stored.state.parked.items() if (row.schema, row.table) in tables]


def alter(stored: Stored, entry: Entry) -> None:
    """Run what is still to be done.  Raises Mistake where the tables are neither as before nor as behind it."""
    change, tables = entry.reshape, stored.database.specs
    assert change is not None
    if change.is_done(tables) and not change.blurred:
        stored.told("altered: found to be done, or nothing to do")
        return
    if not change.is_open(tables):
        there = {str(name): tables.get(name) for name in change.names}
        raise Mistake(f"{entry.ddl} runs at other tables than it was made for: {there}")
    reshape.carry_out(stored.database, change)


def note(stored: Stored, entry: Entry) -> None:
    """Note that a statement ran, and drop the failed rows of tables that went."""
    assert entry.ddl is not None
    for name in entry.reshape.emptied if entry.reshape is not None else ():
        stored.empty(name)
    stored.state.ddl_passed = (entry.source, entry.number)


def has_passed(stored: Stored, entry: Entry) -> bool:
    """Tell whether it is noted that the statement ran."""
    return stored.state.ddl_passed == (entry.source, entry.number)
