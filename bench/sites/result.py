"""Result of a run of sites, and what speaks against it."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping
from typing import Final

from bench.outcome import table
from bench.sites.kept import End
from bench.sites.lags import KINDS, Lag, spread

SHOWN: Final = 5


@dataclasses.dataclass(frozen=True)
class Blow:
    """`at`: seconds since the start.  `lasted`: the blow itself.  `flowing`: by edge, seconds from its end until the
    feed had applied something new; None: not at all while we waited."""

    at: float
    kind: str
    what: str
    lasted: float
    flowing: dict[str, float | None]

    @property
    def longest(self) -> float | None:
        """Seconds until rows flowed on each edge."""
        took = list(self.flowing.values())
        return None if None in took else max(seconds for seconds in took if seconds is not None)

    def __str__(self) -> str:
        flows = "rows do NOT flow" if self.longest is None else f"rows flow {self.longest:.1f} s after it"
        return f"{self.at:6.0f} s  {self.kind:<16} {self.what:<20} lasted {self.lasted:5.1f} s, {flows}"


@dataclasses.dataclass(frozen=True)
class Result:
    """`refused`: transactions that the servers refused.  `lost`: rows that `tidelock_conflicts` tells of.
    `unaccounted`: changes of which nobody knows what became of them.  `sums`: what was added, then each site's total.
    `rested`: seconds from the last write until all sites were equal; None: they were not.  `busy`: batches afterwards.
    `lags`: between the arbiter and its spokes (`bench.sites.lags`); `broken`: probes of them that lost a session.
    `permit`: of the feeds.  `failures`: of writers.
    """

    network: str
    minutes: float
    rate: float
    seed: int
    changes: dict[str, int]
    refused: int
    conflicts: dict[str, int]
    lost: int
    unaccounted: list[str]
    sums: list[int]
    came_back: list[str]
    differences: int
    rested: float | None
    busy: int
    starts: int
    unasked: list[End]
    failures: list[str]
    blows: list[Blow]
    lags: list[Lag] = dataclasses.field(default_factory=list)
    broken: int = 0
    permit: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def faults(self) -> list[str]:
        """Everything that speaks against it, in words; empty: it stood."""
        return [
            *([f"{self.differences} rows differ"] if self.differences else []),
            *(["the sites did not come to rest"] if self.rested is None else []),
            *self._silent,
            *([f"{self.sums[0]} was added, the sites have {self.sums[1:]}"] if len(set(self.sums)) > 1 else []),
            *([f"{len(self.came_back)} batches came back: {self.came_back[:SHOWN]}"] if self.came_back else []),
            *([f"{self.busy} batches while nobody wrote"] if self.busy else []),
            *(f"rows did not flow: {blow}" for blow in self.blows if blow.longest is None),
            *self.failures,
            *(f"at {end.at:.0f} s {end.feed} ended: {end.said}" for end in self.unasked),
        ]

    def __str__(self) -> str:
        told = (
            f"{self.network}: {sum(self.changes.values()):,} changes at {len(self.changes)} sites in {self.minutes:g} "
            f"minutes under {len(self.blows)} blows ({self.starts} starts of feeds): {self.differences} rows differ, "
            f"{len(self.came_back)} batches came back, {sum(self.conflicts.values()):,} conflicts, {self.lost:,} rows "
            f"told as lost, {len(self.unaccounted)} lost without a word; equal {self.rested} s after the last write, "
            f"{self.busy} batches after that"
        )
        kinds = [(kind, count) for kind, count in self.conflicts.items()]
        blows = table(("blow", "times", "p50 s until rows flow", "longest s"), self._rows)
        words = ", ".join(f"{key} {value}" for key, value in self.permit.items()) or "none"
        return "\n".join(
            [told, "", blows, f"permit: {words}", "", *self._lags, table(("conflict", "times"), kinds), *self.faults]
        )

    @property
    def _lags(self) -> list[str]:
        if not self.lags:
            return []
        lines = [(kind, *self._spread(kind)) for kind in KINDS]
        note = f"{self.broken} probes came to nothing, as a session was lost; a blow counts with its whole time"
        return [table(("lag of a spoke's change", "times", "p50 s", "p99 s", "longest s"), lines), note, ""]

    def _spread(self, kind: str) -> tuple[object, ...]:
        times, *seconds = spread(self.lags, kind)
        return (times, *(f"{one:.3f}" for one in seconds))

    @property
    def _silent(self) -> list[str]:
        some = self.unaccounted[:SHOWN]
        return [f"{len(self.unaccounted)} changes are lost without a word: {some}"] if some else []

    @property
    def _rows(self) -> list[tuple[object, ...]]:
        lines: list[tuple[object, ...]] = []
        for kind in dict.fromkeys(sorted(blow.kind for blow in self.blows)):
            took = [blow.longest for blow in self.blows if blow.kind == kind and blow.longest is not None]
            middle, most = (f"{statistics.median(took):.1f}", f"{max(took):.1f}") if took else ("–", "–")
            lines.append((kind, sum(blow.kind == kind for blow in self.blows), middle, most))
        return lines
