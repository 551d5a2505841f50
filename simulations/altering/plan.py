"""Plans of worlds in which tables are altered: that of the same seed, with few other tables and nothing copied."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from tidelock.simulations.altering.carrying_out import IMPLICIT, NOTED
from tidelock.simulations.plan import DEFAULT_CHANGES, Plan
from tidelock.simulations.plan import draw as draw_any

RARELY = 2_000_000
"""Microseconds between checkpoints that nothing hurries."""


def draw(seed: int, changes: int = DEFAULT_CHANGES) -> Plan:
    """The plan that this seed makes."""
    plan, chance = draw_any(seed, changes), Random(f"altering {seed}")
    return replace(
        plan,
        families=plan.families[:1] if chance.random() < 0.5 else (),
        features=tuple(sorted({*plan.features, "ddl"})),
        copy=None,
        repairs=False,
        keyed=(),
        image=chance.random() < 0.2,
        altered=chance.choice((IMPLICIT, NOTED)),
        engine=replace(plan.engine, checkpoint_us=chance.choice((plan.engine.checkpoint_us, RARELY))),
    )
