"""The distribution of latencies: percentiles, and a histogram whose bins grow by a constant factor.

Latencies span three orders of magnitude and their tail matters most, so equal bins would show a spike and nothing else.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

LOWEST_MS: Final = 0.1
BINS_A_DECADE: Final = 10


@dataclasses.dataclass(frozen=True)
class Distribution:
    """All in milliseconds.  `bins`: (upper edge, how many are below it and not below the edge before)."""

    samples: int
    p50: float
    p99: float
    p999: float
    highest: float
    bins: list[tuple[float, int]]


def distribution(seconds: Sequence[float]) -> Distribution:
    """Raises ValueError without a sample."""
    if not seconds:
        raise ValueError("no latency was measured")
    ordered = sorted(value * 1000 for value in seconds)
    return Distribution(
        samples=len(ordered),
        p50=round(percentile(ordered, 0.50), 2),
        p99=round(percentile(ordered, 0.99), 2),
        p999=round(percentile(ordered, 0.999), 2),
        highest=round(ordered[-1], 2),
        bins=_bins(ordered),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all are not above (the nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _bins(ordered: Sequence[float]) -> list[tuple[float, int]]:
    counts: dict[int, int] = {}
    for value in ordered:
        number = max(0, math.floor(math.log10(max(value, LOWEST_MS) / LOWEST_MS) * BINS_A_DECADE) + 1)
        number = 0 if value < LOWEST_MS else number
        counts[number] = counts.get(number, 0) + 1
    return [(round(_edge(number), 4), counts.get(number, 0)) for number in range(max(counts) + 1)]


def _edge(number: int) -> float:
    """The upper edge of a bin; the first holds all below the lowest edge."""
    return float(LOWEST_MS * 10 ** (number / BINS_A_DECADE))
