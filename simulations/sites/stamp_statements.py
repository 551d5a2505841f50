"""Statements of steps with stamps, in the order of the sinks': write first, then look.

A row is written if it is later than the one there, and a later statement deletes it again if its tombstone is later.
Who leaves a tombstone locks the row first, and deletes it if it is older.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from tidelock.engine.model.records import TableName
from tidelock.engine.model.stamp_columns import holds_tombstones, rows_of, tombstones_of
from tidelock.engine.protocol.steps import Step, UpsertRows
from tidelock.engine.two_way.stamp import Stamp, stands
from tidelock.simulations.layout import Token
from tidelock.simulations.session import Session
from tidelock.simulations.sites.stamp_session import Records, StampedSession, Statement


def statements(session: StampedSession, steps: Sequence[Step]) -> Iterator[Statement]:
    """Yields the statements of a batch."""
    for step in steps:
        if isinstance(step, UpsertRows) and step.stamp is not None:
            yield from _stamped(session, step, step.stamp)
        else:
            yield Statement(partial(_plain, step=step))


def _stamped(session: StampedSession, step: UpsertRows, stamp: tuple[int, int]) -> Iterator[Statement]:
    name = step.table.name
    keys = [session.table(name).key(row) for row in step.rows]
    alive = rows_of(name) if holds_tombstones(name) else name
    dead = tombstones_of(alive)
    rows, tombstones = _records(alive, keys), _records(dead, keys)
    passed = max(row[stamp[0]] for row in step.rows)
    write = partial(write_greater, step=step, stamp=stamp)
    bury = partial(bury_older, alive=alive, dead=dead, keys=keys)
    if holds_tombstones(name):
        yield Statement(look, locks=rows, passed=passed)
        yield Statement(write, locks=tombstones)
        yield Statement(bury, locks=rows)
    else:
        yield Statement(write, locks=rows, passed=passed)
        yield Statement(look, shares=tombstones)
        yield Statement(bury, locks=rows)


def _records(name: TableName, keys: Sequence[Token]) -> Records:
    return frozenset((name, key) for key in keys)


def _plain(session: StampedSession, step: Step) -> None:
    Session.run(session, [step])


def look(session: StampedSession) -> None:
    """Locks records, and does nothing with them."""


def write_greater(session: StampedSession, step: UpsertRows, stamp: tuple[int, int]) -> None:
    """Writes rows, or leaves tombstones, that are later than what is there."""
    time, site = stamp
    table = session.table(step.table.name)
    for row in step.rows:
        there = table.rows.get(table.key(row))
        here = None if there is None else Stamp(there[-2], there[-1])
        if stands(Stamp(row[time], row[site]), here, None):
            session.put(step.table.name, table.key(row), row)


def bury_older(session: StampedSession, alive: TableName, dead: TableName, keys: Sequence[Token]) -> None:
    """Deletes the rows of these keys whose tombstone is later."""
    rows, tombstones = session.table(alive).rows, session.table(dead).rows
    for key in keys:
        row, tombstone = rows.get(key), tombstones.get(key)
        if row is None or tombstone is None:
            continue
        if stands(Stamp(tombstone[-2], tombstone[-1]), Stamp(row[-2], row[-1]), None):
            session.delete(alive, key)
