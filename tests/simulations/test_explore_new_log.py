"""Every order of events around a log that is published again, and each rule of that missed when it is broken."""

from __future__ import annotations

import pytest

from tidelock.simulations.explore.new_log import NEW_LOG_RULES, SCOPES, NewLogModel
from tidelock.simulations.explore.search import search


@pytest.mark.parametrize("scope", [pytest.param(n, marks=[pytest.mark.proof] * (n == 1)) for n in range(len(SCOPES))])
def test_every_order_ends_with_each_transaction_applied_once(scope: int) -> None:
    outcome = search(NewLogModel(SCOPES[scope]), set())
    assert outcome.way is None, (outcome.error, outcome.way)
    assert outcome.states > 1_000


SLOW = ("own-again", "told-first")


@pytest.mark.parametrize(
    "rule", [pytest.param(rule, marks=[pytest.mark.proof] * (rule in SLOW)) for rule in NEW_LOG_RULES]
)
def test_each_rule_is_needed(rule: str) -> None:
    _, model = NEW_LOG_RULES[rule]
    assert any(search(model(scope), set()).way is not None for scope in SCOPES), "nothing misses it"
