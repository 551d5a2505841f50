"""A change at its arbiter, from what it meets there to what is written and told."""

from __future__ import annotations

from collections.abc import Iterator

from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import DecideChange, DeleteRows, Step, UpdateRows, UpsertRows
from tidelock.engine.two_way import commit_order
from tidelock.engine.two_way.conflicts import Met
from tidelock.engine.two_way.decisions import Arriving, Decision, Outcome, decide, kept
from tidelock.engine.two_way.merged import rank
from tidelock.engine.two_way.table_policies import policies_of, version_of


def judged(change: DecideChange, met: Met) -> Decision:
    """Decides about the change."""
    later = is_later(change, met)
    return decide(policies_of(change.policies, change.table), Arriving(change.before, change.after, later), met)


def kept_out(change: DecideChange) -> Decision:
    """Decides about a change of which nothing can be written (`DecideChange.refused`)."""
    arriving = Arriving(change.before, change.after)
    return kept(policies_of(change.policies, change.table), arriving, foreign=change.foreign)


def is_later(change: DecideChange, met: Met) -> bool | None:
    """Tells whether the change is later than all rows that it meets, by the version column, or by the times of commits;
    without either, or without a row, what comes last is.  None: it cannot be told.

    A delete has the version of the row that it was made from.  Equal versions: the arbiter's row is the later one.
    """
    at = version_of(change.policies, change.table)
    image = change.after if change.after is not None else change.before
    met_rows = [row for row in (met.row, *(holder.row for holder in met.holders)) if row is not None]
    if met_rows and change.clock is not None:
        own = (met.writer,) if met.row is not None else ()
        return commit_order.is_later(change.clock, change.commit_us, (*own, *(one.writer for one in met.holders)))
    if at < 0 or not met_rows:
        return True
    if image is None or image[at] is None:
        return False
    return all(row[at] is None or rank(image[at]) > rank(row[at]) for row in met_rows)


def keys_of(table: Binding, before: Row | None, after: Row | None) -> list[Row]:
    """Returns the keys that a change concerns: that of the row before, and after."""
    rows = (row for row in (before, after) if row is not None)
    return list(dict.fromkeys(table.key_of(row) for row in rows))


def decided_steps(table: Binding, met: Met, decision: Decision) -> list[Step]:
    """Returns the steps that write a decision."""
    if decision.outcome in (Outcome.VERDICT, Outcome.PARK):
        return []
    return [*_displacing(table, decision), *_writing(table, met.row, decision.row)]


def _displacing(table: Binding, decision: Decision) -> Iterator[Step]:
    if decision.displaced:
        yield DeleteRows(table, [table.key_of(row) for row in decision.displaced])


def _writing(table: Binding, here: Row | None, row: Row | None) -> Iterator[Step]:
    if row is None:
        if here is not None:
            yield DeleteRows(table, [table.key_of(here)])
    elif here is None:
        yield UpsertRows(table, [row], fresh=True, absent=True)
    else:
        moves = table.key_of(here) != table.key_of(row) or table.moves(here, row)
        yield UpdateRows(table, [table.key_of(here)], [row], moves=moves)
