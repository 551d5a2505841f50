"""The page of lanes: who waits for whom in a run, and the keys that are waited for most."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.batch.lock_waits import MOST, HotKey, LaneLook, Wait

Machines: TypeAlias = Callable[[], Iterable[tuple[int, ApplyMachine]]]
"""Tells the groups of tables that a process has now, by number, each with the machine that applies it."""


class GroupLane(LaneLook, frozen=True, kw_only=True):
    """A lane of a group; as `LaneLook`."""

    group: int


class GroupWait(Wait, frozen=True, kw_only=True):
    """A wait in a group; as `Wait`."""

    group: int


class GroupKey(HotKey, frozen=True, kw_only=True):
    """A key that is waited for in a group; as `HotKey`."""

    group: int


class LanesPage(msgspec.Struct, frozen=True):
    """The content of the page, at most `MOST` of each, first of the first groups; of the hottest keys the hottest.

    `total_waiting`: how many segments of lanes wait for others, all of them; a segment is a row or more of one lane.
    """

    lanes: Sequence[GroupLane]
    waits: Sequence[GroupWait]
    hottest: Sequence[GroupKey]
    total_waiting: int


def lanes_page(machines: Iterable[tuple[int, ApplyMachine]]) -> LanesPage:
    """Returns the page of all groups of a process."""
    looks = ((group, machine.lock_waits()) for group, machine in machines)
    each = [(group, look) for group, look in looks if look is not None]
    fields = msgspec.structs.asdict
    hottest = [GroupKey(**fields(one), group=group) for group, look in each for one in look.hottest]
    return LanesPage(
        [GroupLane(**fields(one), group=group) for group, look in each for one in look.lanes][:MOST],
        [GroupWait(**fields(one), group=group) for group, look in each for one in look.waits][:MOST],
        sorted(hottest, key=lambda one: -one.waiting)[:MOST],
        sum(look.total_waiting for _, look in each),
    )
