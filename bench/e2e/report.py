"""Report over rounds: medians with their spread, ratios taken round by round, cost by process.

A ratio is that of two rates of the same round, which ran next to one another; the median over the rounds is kept, with
the lowest and the highest.  Rates that are compared are those from the takeover to the last commit; a few hundred
milliseconds of start-up are the same for all and would hide a difference in a short run.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from bench.e2e.backlog import Round
from bench.e2e.setup import Setup
from bench.e2e.suites import Suite


class Costly(Protocol):
    """Round that was measured with its processes watched."""

    @property
    def changes(self) -> int: ...

    @property
    def cpu_seconds(self) -> Mapping[str, float]: ...


def spread(values: Sequence[float], digits: int = 0) -> dict[str, float]:
    """`median`, `low`, `high`."""
    kept = [round(value, digits) for value in (statistics.median(values), min(values), max(values))]
    return dict(zip(("median", "low", "high"), kept, strict=True))


def report(suite: Suite, seed: int, groups: Sequence[Sequence[Round]]) -> dict[str, Any]:
    """Make the report that is written; `met`: whether every ratio's median reaches the goal, None without a goal."""
    systems = [system for group in groups for system in _systems(group)]
    ratios = [system["ratio"]["median"] for system in systems if system["against"]]
    return {
        "question": suite.question,
        "changes": suite.changes,
        "rounds": suite.rounds,
        "seed": seed,
        "goal": suite.goal or None,
        "met": all(ratio >= suite.goal for ratio in ratios) if suite.goal else None,
        "setups": systems,
    }


def _systems(group: Sequence[Round]) -> Iterator[dict[str, Any]]:
    by_setup: dict[Setup, list[Round]] = {}
    for one in group:
        by_setup.setdefault(one.setup, []).append(one)
    first = next(iter(by_setup.values()))
    for setup, rounds in by_setup.items():
        ratios = [
            one.flowing_rows_per_second / other.flowing_rows_per_second
            for one, other in zip(rounds, first, strict=True)
        ]
        yield {
            "label": setup.label,
            "changes": rounds[0].changes,
            "setup": dataclasses.asdict(setup),
            "rows_per_second": spread([one.rows_per_second for one in rounds]),
            "flowing_rows_per_second": spread([one.flowing_rows_per_second for one in rounds]),
            "against": first[0].setup.label if rounds is not first else None,
            "ratio": spread(ratios, 3),
            "cpu_seconds_a_million": cost(rounds),
            "peak_mb": max(one.peak_mb for one in rounds),
            "wal_bytes_a_change": rounds[0].wal_bytes,
            "target_log_bytes_a_change": spread([one.target_log_bytes for one in rounds], 1),
            "load": [one.load for one in rounds],
            "seconds": [one.seconds for one in rounds],
            "flowing_seconds": [one.flowing_seconds for one in rounds],
        }


def cost(rounds: Sequence[Costly]) -> dict[str, float]:
    """CPU seconds for a million row changes, by process: the median of the rounds."""
    names = sorted({name for one in rounds for name in one.cpu_seconds})
    return {
        name: round(statistics.median(one.cpu_seconds.get(name, 0.0) / one.changes for one in rounds) * 1e6, 2)
        for name in names
    }


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The outcome on a screen."""
    for system in found["setups"]:
        rate, ratio = system["flowing_rows_per_second"], system["ratio"]
        text = f"{system['label']:<52} {rate['median']:>9,.0f} rows/s ({rate['low']:,.0f} to {rate['high']:,.0f})"
        if system["wal_bytes_a_change"]:
            text += f", WAL {system['wal_bytes_a_change']:,.0f} bytes a change"
        if system["against"]:
            text += f", {ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f}) times {system['against']}"
        yield text
    if found["goal"]:
        yield f"goal: at least {found['goal']:g} times; {'met' if found['met'] else 'NOT MET'}"
