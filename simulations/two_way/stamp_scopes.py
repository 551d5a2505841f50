"""Scopes of the stamp world: small ones that a test run explores, and full ones for `make proof`."""

from __future__ import annotations

from msgspec.structs import replace

from tidelock.simulations.two_way.rule import Sound
from tidelock.simulations.two_way.stamps import CHAIN, MESH, RING, Scope, StampWorld

PAIR = Scope()


def sound(name: str, full: Scope, **small: object) -> Sound:
    """`small`: in what the small scope differs; nothing: there is none."""
    less = replace(full, **small)
    return Sound(name, lambda: StampWorld(full), (lambda: StampWorld(less)) if small else None)


STAMP_SCOPES = [
    sound("stamps, pair", replace(PAIR, writes=5), writes=3),
    sound("stamps, ring", replace(PAIR, edges=RING), writes=2),
    sound("stamps, chain", replace(PAIR, edges=CHAIN), writes=2),
    sound("stamps, mesh", replace(PAIR, edges=MESH, writes=2), clocks=(1,)),
    sound("stamps, pair, tombstones purged", replace(PAIR, writes=4, rounds=3), writes=2),
    sound("stamps, ring, tombstones purged", replace(PAIR, edges=RING, rounds=5, hops=2), writes=2, clocks=(1,)),
    sound("stamps, pair, changes wait for the clock", replace(PAIR, waits=True), writes=2),
    sound("stamps, pair, greatest value", replace(PAIR, writes=4, greatest=True, deletes=False), writes=3),
    sound("stamps, mesh, greatest value", replace(PAIR, edges=MESH, writes=2, greatest=True, deletes=False)),
]
