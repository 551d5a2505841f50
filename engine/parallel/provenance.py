"""Provenance of a batch: what its receipt says of its changes besides which they are.

A batch has one origin, so a lane's batch ends before a segment of another.  Within a window changes of different
origins may overtake each other where they share no lock: a window of a hub of n sites makes n batches a lane at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tidelock.engine.model.index import Digest
from tidelock.engine.model.lineage import server_of
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Position
from tidelock.engine.parallel.segments import Change

Origins: TypeAlias = Mapping[tuple[str, int], Origin]
"""Origins of transactions, by source and number, that did not begin at the source."""


def least(places: Sequence[Position | None]) -> Position | None:
    """Returns the first of these places of a log; None, as nothing was seen, where one is None or they are of two
    servers, whose places do not compare."""
    least: Position | None = None
    for place in places:
        if place is None or (least is not None and server_of(place.proof) != server_of(least.proof)):
            return None
        if least is None or place.order < least.order:
            least = place
    return least


Keys: TypeAlias = Sequence[Sequence[tuple[Digest, bool]]]
"""Keys that each of several changes locks, and whether for itself alone."""


def parts(
    changes: list[Change], origins: Origins | None, keys_of: Callable[[list[Change]], Keys] | None
) -> list[tuple[Origin | None, list[Change]]]:
    """Cuts changes, in log order, so that each part has one origin and is to be planned behind those before it.

    `keys_of`: None where transactions stay as they are.
    """
    if not origins:
        return [(None, changes)]
    return runs(changes, origins) if keys_of is None else groups(changes, origins, keys_of(changes))


def runs(changes: Sequence[Change], origins: Origins) -> list[tuple[Origin | None, list[Change]]]:
    """Cuts changes, in log order, where the origin changes."""
    made: list[tuple[Origin | None, list[Change]]] = []
    for change in changes:
        origin = origins.get((change.source, change.number))
        if not made or made[-1][0] != origin:
            made.append((origin, []))
        made[-1][1].append(change)
    return made


def groups(
    changes: Sequence[Change], origins: Origins, keys: Keys
) -> list[tuple[Origin | None, list[Change]]]:
    """Groups changes, in log order, by origin; each group is to be planned behind those before it.

    `keys`: those that each change locks, and whether for itself alone.  A change joins the last group of its origin,
    unless a change that it shares a key with is in a later one: then it begins another.
    """
    made: list[tuple[Origin | None, list[Change]]] = []
    last: dict[Origin | None, int] = {}  # group of each origin that others may join
    written: dict[Digest, int] = {}  # group of the last change that has the key for itself
    read: dict[Digest, int] = {}  # last group that has a change with the key
    for change, own in zip(changes, keys, strict=True):
        origin = origins.get((change.source, change.number))
        behind = max([(read if alone else written).get(key, 0) for key, alone in own], default=0)
        at = last.get(origin, -1)
        if at < behind:
            at = last[origin] = len(made)
            made.append((origin, []))
        made[at][1].append(change)
        for key, alone in own:
            read[key] = max(at, read.get(key, 0))
            if alone:
                written[key] = max(at, written.get(key, 0))
    return made
