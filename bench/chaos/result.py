"""Result of an hour of chaos at one process: each blow, how soon rows flowed again, and the verdict on all."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any, Final

from bench.chaos.memory import JUDGED_MINUTES, MOST_LIFE_GROWTH, MOST_SLOPE, Memory
from bench.chaos.supervised import End
from bench.outcome import table

WITHIN_SECONDS: Final = 60.0
"""From the end of a blow until rows of every table flow again."""


@dataclasses.dataclass(frozen=True)
class Blow:
    """`at`: seconds since the start.  `lasted`: the blow itself.  `flowing`: from its end until rows of every table
    flowed; None: not at all while we waited."""

    at: float
    kind: str
    lasted: float
    flowing: float | None

    @property
    def late(self) -> bool:
        return self.flowing is None or self.flowing >= WITHIN_SECONDS

    def __str__(self) -> str:
        flowing = "rows do NOT flow" if self.flowing is None else f"rows flow {self.flowing:5.1f} s after it"
        return f"{self.at:6.0f} s  {self.kind:<24} lasted {self.lasted:5.1f} s, {flowing}"


@dataclasses.dataclass(frozen=True)
class Result:
    """`backward`: checkpoints that went back.  `unasked`: ends of the process that no blow brought about.
    `left_out`: blows that cannot be struck here, and why.  `cut`: packets of work that the source's end cut off."""

    pair: str
    minutes: float
    seed: int
    rate: float
    changes: int
    cut: int
    history: int
    checkpoints: int
    starts: int
    differences: int
    unique_violations: int
    parked: int
    violations: list[str]
    backward: list[tuple[str, str]]
    unasked: list[End]
    left_out: dict[str, str]
    memory: list[Memory]
    blows: list[Blow]

    @property
    def faults(self) -> list[str]:
        """Everything that speaks against it, in words; empty: it stood."""
        found = [
            *([f"{self.differences} rows differ"] if self.differences else []),
            *([f"{self.unique_violations} unique violations at the target"] if self.unique_violations else []),
            *([f"{self.parked} changes are parked"] if self.parked else []),
            *self.violations,
            *(f"the checkpoint went back from {before} to {after}" for before, after in self.backward),
            *(f"rows flowed too late: {blow}" for blow in self.blows if blow.late),
            *(f"at {end.at:.0f} s the process ended with {end.code}: {end.said}" for end in self.unasked),
        ]
        if self.minutes >= JUDGED_MINUTES:
            found += [f"memory grows: {memory}" for memory in self.memory if not memory.flat]
        return found

    def __str__(self) -> str:
        return "\n".join([self.told, "", table(HEADER, self.rows), "", table(MEMORY_HEADER, self.held), *self.faults])

    @property
    def told(self) -> str:
        left_out = "".join(f" Left out: {kind} ({why})." for kind, why in self.left_out.items())
        return (
            f"{self.changes:,} changes at {self.rate:.0f}/s in {self.minutes:g} minutes under {len(self.blows)} blows"
            f" ({self.starts} starts of the process, {self.cut} packets of work cut off in their middle):"
            f" {self.differences} differences, {self.unique_violations} unique violations, {self.parked} parked,"
            f" {len(self.violations)} wrong versions in a history of {self.history:,} row changes; the checkpoint went"
            f" back {len(self.backward)} times in {self.checkpoints:,}; {len(self.unasked)} unasked ends.{left_out}"
        )

    @property
    def rows(self) -> list[Sequence[object]]:
        lines: list[Sequence[object]] = []
        for kind in dict.fromkeys(sorted(blow.kind for blow in self.blows)):
            blows = [blow for blow in self.blows if blow.kind == kind]
            took = [blow.flowing for blow in blows if blow.flowing is not None]
            lasted = max(blow.lasted for blow in blows)
            middle, most = (f"{statistics.median(took):.1f}", f"{max(took):.1f}") if took else ("–", "–")
            lines.append((kind, len(blows), f"{lasted:.1f}", middle, most, len(blows) - len(took)))
        return lines

    @property
    def held(self) -> list[Sequence[object]]:
        return [
            (m.name, f"{m.peak:.1f}", f"{m.drift:+.3f}", f"{m.slope:+.3f}", m.lives, f"{m.life_growth:+.2f}")
            for m in self.memory
        ]

    def shown(self, curves: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
        """For the page of results.  `curves`: name → (minutes, MB)."""
        memory = "; ".join(
            f"{m.name}: at most {m.peak:.0f} MB, {m.drift:+.2f} MB a minute from life to life at equal ages, "
            f"{m.slope:+.2f} MB a minute within {m.lives} long lives, {m.life_growth:+.1f} MB at most in one"
            for m in self.memory
        )
        asked = (
            f"Asked for: no difference, rows within {WITHIN_SECONDS:.0f} s of every blow, no unasked end, memory held"
            f" between blows that grows by at most {MOST_SLOPE:.2f} MB a minute either way, and by"
            f" {MOST_LIFE_GROWTH:.0f} MB in a life."
        )
        verdict = "**Not met.**" if self.faults else "Met."
        return {
            "title": f"{self.pair.replace(':', ' → ')}, {self.minutes:.0f} minutes, seed {self.seed}",
            "text": f"{self.told} Memory: {memory}. {asked} {verdict}",
            "header": HEADER,
            "rows": self.rows,
            "charts": [{"title": "Resident memory under chaos", "units": ["minutes", "MB"], "series": curves}],
        }


HEADER: Final = ("blow", "times", "lasted at most, s", "rows flow again, median s", "at most, s", "never")
MEMORY_HEADER: Final = (
    "process", "peak MB", "MB a minute at equal ages", "MB a minute in long lives", "long lives", "most MB in a life",
)  # fmt: skip
