"""Is memory flat?  The resident memory of every process of a feed, once a second, and how it grows.

Two looks, as one alone can be deceived.  *Slope*: of all that was seen of a name in the last two thirds of the run, a
line of least squares; processes that were killed begin small, so what accumulates across restarts shows here.  *Life*:
the same for each single process that lived long enough, without its first two minutes, in which it grows to its size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from bench.usage import Sample

MOST_SLOPE: Final = 0.25
"""Megabytes a minute, over the last two thirds."""
MOST_LIFE_GROWTH: Final = 10.0
"""Megabytes within one process's life, by the line through it."""
JUDGED_MINUTES: Final = 10.0
"""What is shorter is not judged: it all is the beginning."""
WARM_SECONDS: Final = 120.0
LIFE_SECONDS: Final = 300.0
_MEGABYTE: Final = 1e6


@dataclasses.dataclass(frozen=True)
class Memory:
    """Of the processes of one name.  MB; `slope`: MB a minute; `life_growth`: the largest of `lives` lives."""

    name: str
    peak: float
    slope: float
    lives: int
    life_growth: float

    @property
    def flat(self) -> bool:
        return self.slope <= MOST_SLOPE and self.life_growth <= MOST_LIFE_GROWTH


def measured(name: str, samples: Sequence[Sample], peak_bytes: int) -> Memory:
    own = [sample for sample in samples if sample.name == name]
    end = max((sample.at for sample in own), default=0.0)
    late = [(sample.at, sample.resident_bytes / _MEGABYTE) for sample in own if sample.at >= end / 3]
    grown = [_growth(life) for life in _lives(own)]
    return Memory(
        name=name,
        peak=round(peak_bytes / _MEGABYTE, 1),
        slope=round(line(late) * 60.0, 3),
        lives=len(grown),
        life_growth=round(max(grown, default=0.0), 2),
    )


def _lives(samples: Sequence[Sample]) -> list[list[tuple[float, float]]]:
    """(seconds, MB) of each process that lived long enough, warm."""
    of: dict[int, list[tuple[float, float]]] = {}
    for sample in samples:
        of.setdefault(sample.pid, []).append((sample.at, sample.resident_bytes / _MEGABYTE))
    long = [life for life in of.values() if life[-1][0] - life[0][0] >= LIFE_SECONDS]
    return [[point for point in life if point[0] >= life[0][0] + WARM_SECONDS] for life in long]


def _growth(life: Sequence[tuple[float, float]]) -> float:
    return line(life) * (life[-1][0] - life[0][0])


def line(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the line of least squares; 0 for fewer than two points."""
    if len(points) < 2:
        return 0.0
    x_mean = sum(x for x, _ in points) / len(points)
    y_mean = sum(y for _, y in points) / len(points)
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread else 0.0
