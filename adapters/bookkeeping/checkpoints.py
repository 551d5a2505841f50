"""Checkpoints of a feed as its bookkeeping holds them: one of each group of tables, and the coordinator's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tidelock.engine.model.records import Position

COORDINATOR: Final = -1
"""Its group."""
_POSITION: Final = msgspec.json.Decoder(Position)


def least_checkpoint(stored: Iterable[Sequence[Any]]) -> Position | None:
    """Returns the least checkpoint of a feed's groups; before they have any, where their coordinator found that it
    begins.  `stored`: group and position of each, as the bookkeeping has them."""
    places = {int(group): _POSITION.decode(words) for group, words in stored}
    begun = places.pop(COORDINATOR, None)
    return min(places.values(), key=lambda place: place.order, default=begun)
