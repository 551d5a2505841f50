"""All that is explored of two-way replication: scopes that are clean, and rules that are broken."""

from __future__ import annotations

from tidelock.simulations.two_way.hold_rules import HOLD_RULES, HOLD_SCOPES
from tidelock.simulations.two_way.hub_rules import HUB_RULES
from tidelock.simulations.two_way.hub_scopes import HUB_SCOPES
from tidelock.simulations.two_way.look_up import LOOK_UP_RULES, LOOK_UP_SCOPES
from tidelock.simulations.two_way.permits import PERMIT_RULES, PERMIT_SCOPES
from tidelock.simulations.two_way.rule import Rule, Sound
from tidelock.simulations.two_way.stamp_rules import STAMP_RULES
from tidelock.simulations.two_way.stamp_scopes import STAMP_SCOPES
from tidelock.simulations.two_way.tree import TREE_RULES, TREE_SCOPES

SCOPES: list[Sound] = [*HUB_SCOPES, *HOLD_SCOPES, *LOOK_UP_SCOPES, *TREE_SCOPES, *STAMP_SCOPES, *PERMIT_SCOPES]
RULES: dict[str, Rule] = {**HUB_RULES, **HOLD_RULES, **LOOK_UP_RULES, **TREE_RULES, **STAMP_RULES, **PERMIT_RULES}
