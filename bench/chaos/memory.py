"""The memory of every process of a feed, once a second, and whether what it holds grows.

What a process holds is judged without pages of files (`Sample.own_bytes`), its peak with them: a kernel that reclaims
what is not touched (DAMON) takes the pages of a library from a process at rest, and they are back with the next rows.

A blow that keeps rows waiting costs memory for a while; what is held in between is judged: of each minute of a
process's life the least (its *floors*).  Processes that were killed begin small, so how a name's memory goes on over a
run tells more of when they were killed than of what they gather.  So like is compared with like, in three ways.

*Drift*: do later lives hold more than earlier ones did at the same age?  What accumulates outside of a process (at the
servers, on disk) shows here.  *Slope*: how much more do lives hold from minute to minute, once they are warm?  All long
lives together tell.  *Life*: by how much did the one life grow that grew the most, beyond what lives usually hold when
they are warm?

A process is warm once it has met about the longest silence: Python gives memory back by the megabyte, and only what is
wholly free, so what the most rows took that ever waited stays resident.  Seen over twenty minutes of blows: 50 to 73 MB
in the first six, 72 to 75 afterwards, with 15 MB in use between blows all along.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from bench.harness.usage import Sample

MOST_SLOPE: Final = 0.25
"""Megabytes a minute: drift and slope."""
MOST_LIFE_GROWTH: Final = 10.0
"""Megabytes within one process's life, by the line through it."""
JUDGED_MINUTES: Final = 10.0
"""Shortest life that is judged: in a shorter one all is the beginning."""
FLOOR_SECONDS: Final = 60.0
START_SECONDS: Final = 10.0
"""Age up to which a process only starts: it holds less than it ever will again."""
WARM_SECONDS: Final = 360.0
LIFE_SECONDS: Final = 900.0
_MEGABYTE: Final = 1e6

Point: TypeAlias = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Memory:
    """Memory of one name's processes, MB.  `drift`, `slope`: MB/minute; `life_growth`: the largest of `lives` lives.

    `grown`: (minute of its life, MB) of the life that grew the most.  A step in it is something that was loaded once.
    """

    name: str
    peak: float
    drift: float
    slope: float
    lives: int
    life_growth: float
    grown: Sequence[Point] = dataclasses.field(default=(), repr=False)

    @property
    def flat(self) -> bool:
        return max(self.drift, self.slope) <= MOST_SLOPE and self.life_growth <= MOST_LIFE_GROWTH


@dataclasses.dataclass(frozen=True)
class Life:
    """`begun`: when, in minutes of the run.  `floors`: (age at the end of the minute, MB)."""

    begun: float
    floors: list[Point]

    @property
    def warm(self) -> list[Point]:
        return [(age, mb) for age, mb in self.floors if age >= (WARM_SECONDS + FLOOR_SECONDS) / 60]


def measured(name: str, samples: Sequence[Sample], peak_bytes: int) -> Memory:
    lives = [_life(life) for life in _by_process(sample for sample in samples if sample.name == name)]
    long = [life.warm for life in lives if life.floors and life.floors[-1][0] >= LIFE_SECONDS / 60]
    usual = statistics.median(life[0][1] for life in long) if long else 0.0
    grown = max(long, key=lambda life: growth(life, usual), default=[])
    return Memory(
        name=name,
        peak=round(peak_bytes / _MEGABYTE, 1),
        drift=round(_common_line(_equal_ages(lives)), 3),
        slope=round(_common_line(long), 3),
        lives=len(long),
        life_growth=round(growth(grown, usual), 2),
        grown=[(round(age, 1), round(mb, 1)) for age, mb in grown],
    )


def _by_process(samples: Iterable[Sample]) -> list[list[Sample]]:
    of: dict[int, list[Sample]] = {}
    for sample in samples:
        of.setdefault(sample.pid, []).append(sample)
    return list(of.values())


def _life(samples: Sequence[Sample]) -> Life:
    """The part of a minute at its end is left out: it may be all blow."""
    begun = samples[0].at
    least: dict[int, float] = {}
    for sample in samples:
        minute = int((sample.at - begun - START_SECONDS) // FLOOR_SECONDS)
        least[minute] = min(least.get(minute, float("inf")), sample.own_bytes / _MEGABYTE)
    whole = int((samples[-1].at - begun - START_SECONDS) // FLOOR_SECONDS)
    ends = ((minute, (START_SECONDS + (minute + 1) * FLOOR_SECONDS) / 60) for minute in range(whole))
    return Life(begun / 60, [(end, least[minute]) for minute, end in ends if minute in least])


def _equal_ages(lives: Sequence[Life]) -> list[list[Point]]:
    """By age: (when the life began, MB) of all lives that reached it."""
    of: dict[float, list[Point]] = {}
    for life, (age, mb) in itertools.chain.from_iterable(((life, at) for at in life.floors) for life in lives):
        of.setdefault(age, []).append((life.begun, mb))
    return list(of.values())


def growth(life: Sequence[Point], usual: float) -> float:
    """Returns the MB by which the life grew, by the line through it.

    A life may hold less at first than lives `usual`ly do by then: it was at rest, and had not loaded what work takes.
    That much is no growth.
    """
    if not life:
        return 0.0
    return line(life) * (life[-1][0] - life[0][0]) - max(0.0, usual - life[0][1])


def line(points: Sequence[Point]) -> float:
    """The slope of the line of least squares; 0 for fewer than two points."""
    return _common_line([points])


def _common_line(groups: Sequence[Sequence[Point]]) -> float:
    """The one slope that lines of least squares through all groups have, each at a height of its own."""
    along = spread = 0.0
    for points in groups:
        if points:
            x_mean = sum(x for x, _ in points) / len(points)
            y_mean = sum(y for _, y in points) / len(points)
            spread += sum((x - x_mean) ** 2 for x, _ in points)
            along += sum((x - x_mean) * (y - y_mean) for x, y in points)
    return along / spread if spread else 0.0
