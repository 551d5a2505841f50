"""`python -m tidelock.simulations.two_way [--scope small|full] [--named TEXT] [--without RULE|all]`"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tidelock.simulations.two_way.explorer import Told, explore
from tidelock.simulations.two_way.scopes import RULES, SCOPES


def main(argv: Sequence[str]) -> int:
    """0: all is clean, or every rule that was broken is missed; 1: not so."""
    parser = argparse.ArgumentParser(
        "python -m tidelock.simulations.two_way", description="explore every small history of two-way replication"
    )
    parser.add_argument("--scope", choices=("small", "full"), default="small")
    parser.add_argument("--named", default="", metavar="TEXT", help="only scopes with this in their name")
    parser.add_argument("--without", choices=("all", *RULES), metavar="RULE", help=f"all, {', '.join(RULES)}")
    given = parser.parse_args(argv)
    if given.without is None:
        return sound(given.scope, given.named)
    return broken(list(RULES) if given.without == "all" else [given.without])


def sound(size: str, named: str) -> int:
    """Explore the scopes of this size, a line each."""
    failed = states = steps = 0
    seconds = 0.0
    for scope in SCOPES:
        make = scope.full if size == "full" else scope.small
        if make is None or named not in scope.name:
            continue
        found = explore(make(), _told(scope.name))
        _clear()
        print(f"{scope.name:58} {found.states:>9,} {found.steps:>10,} {found.seconds:7.1f} s  {found.error or 'clean'}")
        print(*found.story, sep="\n", end="\n" if found.story else "", flush=True)
        failed += not found.clean
        states, steps, seconds = states + found.states, steps + found.steps, seconds + found.seconds
    print(f"{'in all':58} {states:>9,} {steps:>10,} {seconds:7.1f} s")
    return 1 if failed else 0


def broken(names: Sequence[str]) -> int:
    """Break these rules, and show the shortest history that goes wrong."""
    missed = 0
    for name in names:
        rule = RULES[name]
        found = explore(rule.world(), _told(name))
        _clear()
        print(f"{name} (history {rule.history}): {rule.broken}")
        print(*(f"  {line}" for line in found.story), f"  ✗ {found.error}" if found.error else "  clean", sep="\n")
        missed += found.clean
    return 1 if missed else 0


def _told(name: str) -> Told | None:
    """Show how far a search is, on a terminal."""
    if not sys.stderr.isatty():
        return None
    return lambda states, depth: print(f"\r{name}: {states:,} states, {depth} steps", end="", file=sys.stderr)


def _clear() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
