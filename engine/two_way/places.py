"""Places in one site's log as the rules of two-way replication compare them.

A place is what `Position.order` tells: numbers, compared as numbers.  Names of files are never compared as text, since
`binlog.1000000` is behind `binlog.999999`.  Places of two logs do not compare: a place of another log counts as
nothing seen, which sends more back than is needed and never less.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from tidelock.engine.model import lineage
from tidelock.engine.model.records import Position

Place: TypeAlias = tuple[int, ...]

NOTHING: Final[Place] = ()
"""Place before every other: nothing was seen, sent or covered."""


def place_in(log: str, position: Position) -> Place:
    """Returns the place of a position of the server `log`; NOTHING where it is one of another log, or of nobody knows
    which."""
    if not log or lineage.server_of(position.proof) != log:
        return NOTHING
    return position.order
