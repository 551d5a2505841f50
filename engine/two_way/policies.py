"""Policies of a table: who stays where changes are in conflict, for the table, for types, for groups of columns.

No policy decides whether sites become equal.  Under an arbiter they are equal whatever it says, since the spoke gets
the arbiter's row; so a wrong clock costs fairness and nothing else.  Without an arbiter only those may be used that
give one result in whatever order changes come.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from tidelock.engine.two_way.conflicts import Conflict


class Policy(enum.Enum):
    """STOP: parked.  ARRIVAL: what comes last to the arbiter stays.  ARBITER, SPOKE: that side's row stays.  LATEST:
    the greater stamp.  DELTA: what the change adds is added.  MAX, MIN: the greater or smaller value.  DELETE_WINS: a
    delete stays, and of two others the greater stamp."""

    STOP = "stop"
    ARRIVAL = "arrival"
    ARBITER = "arbiter"
    SPOKE = "spoke"
    LATEST = "latest"
    DELTA = "delta"
    MAX = "max"
    MIN = "min"
    DELETE_WINS = "delete wins"


class Order(enum.Enum):
    """Way in which sites become equal: an arbiter's log, stamps in the rows, or nothing (one direction only)."""

    ARBITER = "arbiter"
    STAMP = "stamp"
    ONE_WAY = "one way"


ALLOWED: Final[Mapping[Order, frozenset[Policy]]] = {
    Order.ARBITER: frozenset(Policy),
    Order.STAMP: frozenset({Policy.STOP, Policy.LATEST, Policy.MAX, Policy.MIN}),  # MAX and MIN without deletes
    Order.ONE_WAY: frozenset(Policy) - {Policy.ARBITER, Policy.SPOKE},
}
BY_COLUMN: Final = frozenset({Policy.DELTA, Policy.MAX, Policy.MIN})


class Group(msgspec.Struct, frozen=True):
    """Columns, by position, that one policy is for; any change of one carries all."""

    columns: tuple[int, ...]
    policy: Policy


class Policies(msgspec.Struct, frozen=True):
    """Policies of a table.  `types`: for one type of conflict.  `groups`: all columns but the key's, or none."""

    default: Policy = Policy.STOP
    types: Mapping[Conflict, Policy] = {}
    groups: tuple[Group, ...] = ()

    def of(self, conflict: Conflict) -> Policy:
        return self.types.get(conflict, self.default)


def refused(
    policies: Policies, order: Order, uniques: tuple[tuple[int, ...], ...] = (), *, deletes: bool = True
) -> Iterator[str]:
    """Yields why these policies cannot be used.  `uniques`: columns of each unique index besides the key.  `deletes`:
    rows of the table are deleted; then, without an arbiter, a value of a dead row may be merged into its successor at
    one site and not at another."""
    named = [policies.default, *policies.types.values(), *(group.policy for group in policies.groups)]
    for policy in dict.fromkeys(named):
        if policy not in ALLOWED[order]:
            yield f"`{policy.value}` gives no equal rows where the order is by {order.value}"
    for policy in dict.fromkeys(named[: len(named) - len(policies.groups)]):
        if policy in BY_COLUMN:
            yield f"`{policy.value}` is for columns, not for whole rows"
    if order is Order.STAMP:
        yield from _refused_by_stamps(policies, deletes=deletes)
    for columns in uniques:
        holding = [group for group in policies.groups if set(columns) & set(group.columns)]
        if len(holding) > 1 or any(group.policy in BY_COLUMN for group in holding):
            yield f"the columns {columns} of a unique index must be in one group that is not merged by value"


def _refused_by_stamps(policies: Policies, *, deletes: bool) -> Iterator[str]:
    for group in policies.groups:
        if group.policy not in (Policy.LATEST, Policy.MAX, Policy.MIN):
            yield f"a stamp is one for the whole row: `{group.policy.value}` of some columns needs an arbiter"
        elif deletes and group.policy in BY_COLUMN:
            yield f"`{group.policy.value}` gives no equal rows by stamps where rows are deleted"
