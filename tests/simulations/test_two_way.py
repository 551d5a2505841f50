"""Two-way replication: every small history is clean, and each rule that is left out is missed in a few steps."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tidelock.engine.two_way.conflicts import Conflict, Met
from tidelock.engine.two_way.decisions import Arriving, Decision, Outcome
from tidelock.engine.two_way.policies import Policies
from tidelock.simulations.two_way.__main__ import main
from tidelock.simulations.two_way.explorer import Found, explore
from tidelock.simulations.two_way.hub import HubWorld
from tidelock.simulations.two_way.hub_scopes import COUNTERS, PAIR, TAKEN
from tidelock.simulations.two_way.rule import Sound
from tidelock.simulations.two_way.scopes import RULES, SCOPES

# Scopes and rules of which a small search takes more than a second of a processor.
SLOW = (
    "permit, pair",
    "pair, groups of columns, reader restarts",
    "pair, groups of columns, batches folded at the spoke",
    "pair, groups of columns, batches gathered at the arbiter",
    "pair, three values that change hands",
    *("permit-silence", "purge-floor", "purge-rounds", "held-checkpoint", "images-of-the-log"),
    *("fresh-path", "forwarder"),
)


def slow(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.proof] * (name in SLOW)


@pytest.mark.parametrize(
    "scope", [pytest.param(s, marks=slow(s.name)) for s in SCOPES if s.small is not None], ids=lambda s: s.name
)
def test_every_small_history_is_clean(scope: Sound) -> None:
    assert scope.small is not None
    found = explore(scope.small())
    assert (found.error, found.story) == ("", ())
    assert found.states > 200


@pytest.mark.proof
@pytest.mark.parametrize("scope", SCOPES, ids=lambda s: s.name)
def test_every_longer_history_is_clean(scope: Sound) -> None:
    found = explore(scope.full())
    assert (found.error, found.story) == ("", ())


SHORTEST = {
    "echo": (6, "unequal: H 1=2, S0 1=1"),
    "echoes-count": (10, "unequal: H 1=-, S0 1=2"),
    "seen-in-place": (6, "unequal: H 1=2, S0 1=1"),
    "floor": (7, "unequal: H 1=2, S0 1=1"),
    "unique-registers": (8, "unequal: H 1=- 2=1, S0 1=- 2=-"),
    "verdict": (9, "unequal: H 1=1 2=2, S0 1=- 2=2"),
    "last-image": (6, "unequal: H 1=-, S0 1=1"),
    "rewound": (4, "unequal: H 1=1, S0 1=-"),
    "least-seen": (7, "unequal: H 1=2 2=1, S0 1=1 2=1"),
    "pruned": (9, "unequal: H 1=2, S0 1=1"),
    "full": (9, "unequal: H 1=2 2=1, S0 1=1 2=1"),
    "own-alone": (4, "unequal: H 1=1, S0 1=1, S1 1=-"),
    "sums": (6, "1 of 2 additions stand"),
    "recorded": (3, "row (1, 1) is displaced without a record"),
    "groups-of-deletes": (6, "unequal: H 1=-, S0 1=0,1"),
    "groups-written": (6, "unequal: H 1=1,1, S0 1=1,0"),
    "groups-of-batches": (4, "unequal: H 1=1,1, S0 1=0,1"),
    "hold-by-key": (10, "unequal: H 1=2 2=1, S0 1=- 2=1"),
    "hold-not-drop": (9, "unequal: H 1=2, S0 1=1"),
    "held-unseen": (11, "a row waits whose echo is not sent"),
    "held-checkpoint": (9, "unequal: H 1=2, S0 1=1"),
    "own-receipts": (6, "an older row shows at the spoke"),
    "hold-knows-all": (3, "an older row shows at the spoke"),
    "hold-by-values": (3, "a newer row of the spoke's own makes room"),
    "all-receipts": (5, "a row waits for ever"),
    "images-of-the-log": (6, "row (1, 1) of the arbiter's makes room at S0"),
    "forwarder": (15, "unequal: H 1=2, S 1=1, T 1=1"),
    "fresh-path": (12, "unequal: H 1=2, S 1=2, T 1=1"),
    "right-feed": (10, "unequal: H 1=2, S 1=1, T 1=1"),
    "source-wins": (6, "unequal: A 2, B 1"),
    "target-wins": (4, "unequal: A 1, B 2"),
    "always-stamps": (8, "unequal: A 1, B 2"),
    "tombstones": (8, "unequal: A 3, B -"),
    "missing": (7, "unequal: A -, B 3"),
    "ties": (6, "unequal: A 2, B 1"),
    "own-ties": (4, "unequal: A 1, B 2"),
    "monotone": (5, "unequal: A 2, B 1"),
    "purge-floor": (11, "unequal: A 3, B -"),
    "purge-rounds": (10, "unequal: A 3, B -"),
    "write-then-look": (9, "unequal: A -, B 1"),
    "stamp-then-write": (9, "unequal: A -, B 3"),
    "own-stamp": (7, "unequal: A 2, B 1, C 1"),
    "whole-path": (3, "unequal: A 1, B 1, C -"),
    "deletes-first": (8, "unequal: A 3, B -"),
    "dead-maximum": (8, "unequal: A 1, B 2"),
    "permit-lag": (1, "after 12 quiet ticks: eu-us holds, lag 3, us-eu holds, lag 0"),
    "permit-ready": (0, "after 12 quiet ticks: eu-us holds, lag 0, us-eu holds, lag 0"),
    "permit-silence": (8, "us-eu applies alone for 5 ticks"),
    "permit-probe": (6, "eu-us applies alone for 5 ticks"),
}


def test_every_rule_is_broken_once() -> None:
    assert list(SHORTEST) == list(RULES)


def missed(rule: str) -> Found:
    return explore(RULES[rule].world())


@pytest.mark.parametrize("rule", [pytest.param(rule, marks=slow(rule)) for rule in SHORTEST])
def test_without_a_rule_the_shortest_history_is_found(rule: str) -> None:
    found = missed(rule)
    assert (len(found.story), found.error) == SHORTEST[rule]


def test_without_an_echo_two_writes_are_enough() -> None:
    assert missed("echo").story == (
        "H writes 1=1",
        "S0 writes 1=2",
        "S0-H write 1=2, seen nothing",
        "H-S0 entry 0: send",
        "S0-H passes a mark",
        "H-S0 entry 1: not",
    )


def test_every_conflict_and_every_outcome_is_met() -> None:
    """A search that never gets there would be clean too.  Who had the row is known to have deleted it, in a hub; tables
    there refer to none."""
    met: set[str] = set()

    class Watched(HubWorld):
        def _decide(self, change: Arriving, found: Met) -> Decision:
            decision = super()._decide(change, found)
            met.update(conflict.value for conflict in decision.conflicts)
            met.add(decision.outcome.value)
            return decision

    for scope in (TAKEN, replace(COUNTERS, writes=3), replace(PAIR, policies=Policies())):
        assert explore(Watched(replace(scope, writes=3))).clean
    conflicts = {c.value for c in Conflict} - {"update_missing", "foreign_key"}
    assert met == conflicts | {o.value for o in Outcome} - {"verdict"}


def test_the_command_tells_a_history_and_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--without", "echo"]) == 0
    assert "✗ unequal: H 1=2, S0 1=1" in capsys.readouterr().out
    assert main(["--named", "index of one"]) == 0
    assert "clean" in capsys.readouterr().out


def test_the_page_lists_every_rule_with_its_history() -> None:
    page = Path(__file__).parents[2] / "docs/explanation/conflicts.md"
    listed = re.findall(r"^\| (\w+) \| `([\w-]+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted((rule.history, name) for name, rule in RULES.items())
