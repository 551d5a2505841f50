"""Decision of the arbiter about a change that comes from a spoke: what stands then, and who is told.

Every decision but WRITE leaves a row that is not the spoke's, so it comes with a *verdict*: a note in the same
transaction of the arbiter, which sends its row to the spoke.  A verdict is always written: for a whole row the other
change is under way to the spoke anyway, but a value of a unique index may be another row's (history 7).

What loses is always told (`lost`), displaced rows too: nothing that was meant disappears without a record.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from tidelock.engine.model.records import Row
from tidelock.engine.two_way.conflicts import Conflict, Met, conflict_of_row, conflict_of_values
from tidelock.engine.two_way.merged import changed_groups, merged_row, overlaid
from tidelock.engine.two_way.policies import Policies, Policy

DISPLACED: Final = "displaced"
"""Outcome for a row that made room for another."""


class Outcome(enum.Enum):
    """WRITE: the change as it came.  MERGE: a row of both.  VERDICT: the arbiter's row stays.  PARK: so, and an
    operator decides about the change."""

    WRITE = "write"
    MERGE = "merge"
    VERDICT = "verdict"
    PARK = "park"


class Lost(msgspec.Struct, frozen=True, gc=False):
    """A row that was meant and does not stand.  `row`: None: a delete was meant.  `incoming`: by the spoke."""

    conflict: Conflict
    incoming: bool
    row: Row | None


class Decision(msgspec.Struct, frozen=True):
    """`row`: what stands under the key of the change; None: none.  `displaced`: rows to be deleted for it."""

    outcome: Outcome
    row: Row | None
    conflicts: tuple[Conflict, ...] = ()
    displaced: tuple[Row, ...] = ()
    lost: tuple[Lost, ...] = ()

    @property
    def verdict(self) -> bool:
        """Tells whether the spoke must be sent the arbiter's row."""
        return self.outcome is not Outcome.WRITE


class Arriving(msgspec.Struct, frozen=True, gc=False):
    """A change that comes from a spoke.  `later`: its stamp is greater than that of what it meets; None: nothing tells,
    and an operator decides where that matters."""

    before: Row | None
    after: Row | None
    later: bool | None = True


def decide(policies: Policies, change: Arriving, met: Met) -> Decision:
    """Decides about a change at the arbiter."""
    conflict = conflict_of_row(change.before, change.after, met)
    if conflict is None:
        row = overlaid(policies.groups, change.before, change.after, met.row)
        decision = Decision(Outcome.WRITE, row)
    else:
        decision = _between(policies, conflict, change, met)
    clash = conflict_of_values(change.before, change.after, met)
    if clash is None or decision.row is None or decision.outcome in (Outcome.VERDICT, Outcome.PARK):
        return decision
    return _over_values(policies, clash, change, met, decision)


def _between(policies: Policies, conflict: Conflict, change: Arriving, met: Met) -> Decision:
    """Decides about a change and the row of its key."""
    if policies.groups and change.before is not None and change.after is not None and met.row is not None:
        return _by_group(policies, conflict, change, met.row)
    if conflict is Conflict.DELETE_MISSING:
        return Decision(Outcome.WRITE, None, (conflict,))
    stays: bool | None
    match policies.of(conflict):
        case Policy.ARRIVAL | Policy.SPOKE:
            stays = True
        case Policy.DELETE_WINS if change.after is None or met.row is None:
            stays = change.after is None
        case Policy.LATEST | Policy.DELETE_WINS:
            stays = change.later
        case Policy.ARBITER:
            stays = False
        case _:  # STOP, and what is for columns alone
            return _kept(Outcome.PARK, conflict, change, met.row)
    if stays is None:
        return _kept(Outcome.PARK, conflict, change, met.row)
    if not stays:
        return _kept(Outcome.VERDICT, conflict, change, met.row)
    lost = () if met.row == change.after else (Lost(conflict, incoming=False, row=met.row),)
    return Decision(Outcome.WRITE, change.after, (conflict,), (), lost)


def _by_group(policies: Policies, conflict: Conflict, change: Arriving, here: Row) -> Decision:
    """Decides about an update of a row that is there: each group goes by its policy."""
    before, after = change.before, change.after
    assert before is not None and after is not None
    touched = changed_groups(policies.groups, before, after)
    if any(group.policy is Policy.STOP for group in touched):
        return _kept(Outcome.PARK, conflict, change, here)
    row, ours, theirs = merged_row(touched, before, after, here, later=bool(change.later))
    written = overlaid(policies.groups, before, after, here)
    outcome = Outcome.WRITE if row == written else Outcome.VERDICT if row == here else Outcome.MERGE
    lost = []
    if ours:
        lost.append(Lost(conflict, incoming=False, row=here))
    if theirs:
        lost.append(Lost(conflict, incoming=True, row=after))
    return Decision(outcome, row, (conflict,), (), tuple(lost))


def _over_values(policies: Policies, clash: Conflict, change: Arriving, met: Met, decision: Decision) -> Decision:
    """Decides about a row that is to stand and others that hold a value which it wants."""
    row, after = decision.row, change.after
    assert row is not None and after is not None
    rows = dict.fromkeys(
        holder.row for holder in met.holders if all(row[at] == after[at] for at in holder.columns)
    )
    if not rows:
        return decision
    conflicts = (*decision.conflicts, clash)
    policy = policies.of(clash)
    if policy in (Policy.ARRIVAL, Policy.SPOKE) or (policy is Policy.LATEST and change.later):
        lost = (*decision.lost, *(Lost(clash, incoming=False, row=gone) for gone in rows))
        return Decision(decision.outcome, row, conflicts, tuple(rows), lost)
    older = policy is Policy.LATEST and change.later is not None
    outcome = Outcome.VERDICT if policy is Policy.ARBITER or older else Outcome.PARK
    return _kept(outcome, clash, change, met.row, decision.conflicts)


def kept(policies: Policies, change: Arriving, *, foreign: bool) -> Decision:
    """Decides about a change of which nothing can be written here.  `foreign`: as a foreign key does not allow it; any
    policy but `stop` then leaves the arbiter's rows as they are.  `row` is not told."""
    decided = foreign and policies.of(Conflict.FOREIGN_KEY) is not Policy.STOP
    outcome = Outcome.VERDICT if decided else Outcome.PARK
    if not foreign:
        return Decision(outcome, None)
    return Decision(outcome, None, (Conflict.FOREIGN_KEY,), (), (Lost(Conflict.FOREIGN_KEY, True, change.after),))


def _kept(
    outcome: Outcome, conflict: Conflict, change: Arriving, here: Row | None, others: tuple[Conflict, ...] = ()
) -> Decision:
    """The arbiter's row stays."""
    lost = () if here == change.after else (Lost(conflict, incoming=True, row=change.after),)
    return Decision(outcome, here, (*others, conflict), (), lost)


def blind(after: Row | None, holders: tuple[Row, ...] = ()) -> Decision:
    """Decides about a change of the arbiter at a spoke: it stands, whatever is there.

    Rows that hold a value which it wants make room; their own changes are under way to the arbiter and meet the same
    row there.
    """
    rows = tuple(dict.fromkeys(holders)) if after is not None else ()
    lost = tuple(Lost(Conflict.INSERT_EXISTS, incoming=False, row=row) for row in rows)
    return Decision(Outcome.WRITE, after, (), rows, lost)
