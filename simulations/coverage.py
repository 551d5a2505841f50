"""What a campaign must have exercised: counters of `World.coverage` that none may leave at zero."""

from __future__ import annotations

from simulations.plan import FAULTS

EXPECTED: tuple[str, ...] = tuple(f"fault: {name}" for name in FAULTS)
