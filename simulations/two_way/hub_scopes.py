"""Scopes of the hub world: small ones that a test run explores, and full ones for `make proof`."""

from __future__ import annotations

from msgspec.structs import replace

from tidelock.engine.two_way.conflicts import Conflict
from tidelock.engine.two_way.policies import Group, Policies, Policy
from tidelock.simulations.two_way.hub import HubWorld
from tidelock.simulations.two_way.hub_rules import COLUMN_POLICIES, REJECT
from tidelock.simulations.two_way.hub_state import BY_COLUMN, UNIQUE, UNIQUE_BY_COLUMN, Scope
from tidelock.simulations.two_way.rule import Sound

PAIR = Scope(writes=4)
SPOKES = Scope(spokes=2, writes=3)
KEYS = Scope(keys=2, writes=4, values=(1,))
COLUMNS = Scope(writes=4, columns=True, layout=BY_COLUMN, policies=COLUMN_POLICIES)
TAKEN = Scope(keys=2, writes=4, layout=UNIQUE)
TAKEN_COLUMNS = Scope(keys=2, columns=True, layout=UNIQUE_BY_COLUMN, policies=COLUMN_POLICIES)
COUNTERS = Scope(
    writes=5,
    counters=True,
    deletes=False,
    layout=replace(BY_COLUMN, groups=((1,),)),
    policies=Policies(Policy.STOP, groups=(Group((1,), Policy.DELTA),)),
)
MIXED = Policies(
    Policy.ARRIVAL,
    {Conflict.UPDATE_DELETED: Policy.ARBITER, Conflict.MULTIPLE_UNIQUE_CONFLICTS: Policy.ARBITER},
    (Group((1,), Policy.MAX), Group((2,), Policy.ARBITER)),
)


def sound(name: str, full: Scope, **small: object) -> Sound:
    """`small`: in what the small scope differs; nothing: there is none."""
    less = replace(full, **small)
    return Sound(name, lambda: HubWorld(full), (lambda: HubWorld(less)) if small else None)


HUB_SCOPES = [
    sound("pair", replace(PAIR, writes=5), writes=3),
    sound("pair, updates that change nothing are logged", replace(PAIR, noops=True), writes=3),
    sound("pair, `seen` from stale checkpoints", replace(PAIR, saves=2), writes=3),
    sound("pair, reader restarts", replace(PAIR, restarts=1), writes=3),
    sound("pair, reader restarts twice", replace(PAIR, writes=3, restarts=2)),
    sound("pair, spoke loses a commit", replace(PAIR, loses=True, restarts=1), writes=3),
    sound("pair, batches folded at the spoke", replace(PAIR, batches=True), writes=3),
    sound("pair, batches gathered at the arbiter", replace(PAIR, gathers=True), writes=3),
    sound("pair, index is pruned", replace(PAIR, prunes=True), writes=3),
    sound("pair, two keys, index of one", replace(KEYS, limit=1), writes=3),
    sound("pair, two keys, batches gathered", replace(KEYS, gathers=True), writes=3),
    sound("pair, conflicts found late", replace(PAIR, lags=True)),
    sound("pair, two columns", replace(COLUMNS, layout=Scope().layout)),
    sound("pair, two columns, registers of columns", COLUMNS, writes=3),
    sound("pair, groups of columns, batches folded at the spoke", replace(COLUMNS, batches=True), writes=3),
    sound("pair, groups of columns, batches gathered at the arbiter", replace(COLUMNS, gathers=True), writes=3),
    sound("pair, groups of columns, updates that change nothing are logged", replace(COLUMNS, noops=True), writes=3),
    sound("pair, groups of columns, reader restarts", replace(COLUMNS, restarts=1), writes=3),
    sound("pair, groups of columns, the arbiter's row stays", replace(COLUMNS, policies=REJECT), writes=3),
    sound("pair, groups of columns, `seen` from stale checkpoints", replace(COLUMNS, writes=3, saves=2)),
    sound("pair, groups of columns, unique value", replace(TAKEN_COLUMNS, writes=3), values=(1,)),
    sound("pair, groups of columns, unique value, batches", replace(TAKEN_COLUMNS, writes=3, batches=True)),
    sound("pair, groups of columns, values that stay make room", replace(TAKEN_COLUMNS, clears=True), writes=3),
    sound("pair, groups of columns, unique value, the arbiter's", replace(TAKEN_COLUMNS, policies=REJECT, values=(1,))),
    sound("pair, the arbiter's row stays", replace(PAIR, policies=REJECT), writes=3),
    sound("pair, the arbiter's row stays, found late", replace(PAIR, policies=REJECT, lags=True)),
    sound("pair, conflicts are parked", replace(PAIR, policies=Policies(Policy.STOP)), writes=3),
    sound("pair, the greater value stays", replace(PAIR, policies=Policies(Policy.LATEST)), writes=3),
    sound("pair, deletes win", replace(PAIR, policies=Policies(Policy.DELETE_WINS)), writes=3),
    sound("pair, the spoke's row stays", replace(PAIR, policies=Policies(Policy.SPOKE)), writes=3),
    sound("pair, counters add up", COUNTERS, writes=4),
    sound("pair, greatest of one column, arbiter's of the other", replace(COLUMNS, policies=MIXED), writes=3),
    sound("two spokes, counters add up", replace(COUNTERS, spokes=2, writes=4), writes=2),
    sound("pair, unique value, others make room", TAKEN, writes=3),
    sound("pair, unique value, the greater value stays", replace(TAKEN, policies=Policies(Policy.LATEST)), writes=3),
    sound("pair, unique value, the arbiter's row stays", replace(TAKEN, policies=REJECT), writes=3),
    sound("pair, unique value, stale checkpoints", replace(TAKEN, writes=3, policies=REJECT, saves=2)),
    sound("pair, unique value, reader restarts", replace(TAKEN, writes=3, restarts=1)),
    sound("two spokes", replace(SPOKES, writes=4, deletes=False), writes=2),
    sound("two spokes, deletes", SPOKES, values=(1,)),
    sound("two spokes, restart, stale checkpoint", replace(SPOKES, restarts=1, saves=1)),
    sound("two spokes, one loses a commit", replace(SPOKES, loses=True, restarts=1), writes=2),
    sound("two spokes, registers of columns", replace(COLUMNS, spokes=2, writes=3)),
    sound("two spokes, unique value, others make room", replace(TAKEN, spokes=2, writes=3), writes=2),
    sound("two spokes, unique value, the arbiter's row stays", replace(TAKEN, spokes=2, writes=3, policies=REJECT)),
]
