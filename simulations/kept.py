"""Runs that once failed, kept in `simulations/seeds/` so that none of them fails again: NAME.json, a plan each.

A plan keeps its meaning only as long as the world draws its chances in the same order.  What a kept run showed is
therefore told in words too, and what must never be lost belongs in `tests/scenarios`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tidelock.simulations.plan import Plan

FOLDER = Path(__file__).parent / "seeds"


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`mistake`: what the run once showed.  `mended`: the subject of the commit that mended it ('' until then)."""

    plan: Plan
    mistake: str = ""
    mended: str = ""


def keep(path: Path, kept: Kept) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


def load(path: Path) -> Kept:
    """Raises OSError, msgspec.ValidationError or msgspec.DecodeError."""
    return msgspec.json.decode(path.read_bytes(), type=Kept)
