"""A rule that is broken on purpose, and the small world in which that shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidelock.simulations.two_way.explorer import World


class Rule(msgspec.Struct, frozen=True):
    """`history`: its number in `docs/explanation/conflicts.md`, '' where it has none.  `broken`: what is done instead.
    `world`: makes the world where it is."""

    history: str
    broken: str
    world: Callable[[], World[Any]]


class Sound(msgspec.Struct, frozen=True):
    """A scope in which every history is clean, at two sizes; `small`: None where only the full one is explored."""

    name: str
    full: Callable[[], World[Any]]
    small: Callable[[], World[Any]] | None = None
