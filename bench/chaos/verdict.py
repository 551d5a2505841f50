"""Result of a run of `bench.chaos.over_kafka`: each blow, how soon rows flowed again, and the verdict on all."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Final

RESULTS: Final = Path(__file__).parents[1] / "results"
TAKEOVER_SECONDS: Final = 12.0
GRACEFUL_SECONDS: Final = 2.0
WITHIN_SECONDS: Final = {
    "kill": TAKEOVER_SECONDS,
    "coordinator killed": TAKEOVER_SECONDS,
    "kill, away": TAKEOVER_SECONDS,
    "freeze": TAKEOVER_SECONDS,
    "stop": GRACEFUL_SECONDS,
}


@dataclasses.dataclass(frozen=True)
class Blow:
    """`at`: seconds since the start.  `seconds`: until rows of every group flowed.  `undisturbed`: nobody else was
    frozen or away, or had come back only just before."""

    at: float
    kind: str
    worker: str
    seconds: float
    undisturbed: bool

    def __str__(self) -> str:
        beside = "" if self.undisturbed else "  (another worker was frozen, away or just back)"
        return f"{self.at:6.0f} s  {self.kind:<15} {self.worker:<3} rows flow after {self.seconds:5.1f} s{beside}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of a run.  `backward`: how often the feed's checkpoint or watermark went back.  `rate`: asked for,
    row changes a second.  `wrong`: what else should not have happened, in words."""

    minutes: float
    seed: int
    load_average: float
    changes: int
    history: int
    differences: int
    unique_violations: int
    parked: int
    violations: list[str]
    states: int
    backward: int
    fenced: int
    rate: float
    wrong: list[str]
    blows: list[Blow]

    @property
    def late(self) -> list[Blow]:
        """Kills after which rows flowed too late, where nothing else was in the way."""
        return [blow for blow in self.blows if blow.undisturbed and blow.seconds >= WITHIN_SECONDS.get(blow.kind, 1e9)]

    @property
    def ok(self) -> bool:
        bad = self.differences or self.unique_violations or self.parked or self.violations or self.backward or self.late
        bad = bad or self.wrong
        return not bad and self.fenced >= 1

    def __str__(self) -> str:
        verdict = (
            f"{self.changes:,} changes at {self.rate:.0f}/s in {self.minutes:.0f} minutes under {len(self.blows)}"
            f" blows: {self.differences} differences, {self.unique_violations} unique violations, {self.parked} parked,"
            f" {len(self.violations)} wrong versions in a history of {self.history:,};\n"
            f"the checkpoint went back {self.backward} times in {self.states:,} states;"
            f" {self.fenced} writes of zombies rejected; load {self.load_average}."
        )
        lines = [
            verdict,
            "",
            "| blow | alone | rows flow again after, median | at most | limit | beside others | at most |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]
        for kind in dict.fromkeys(blow.kind for blow in self.blows):
            alone = [blow.seconds for blow in self.blows if blow.kind == kind and blow.undisturbed]
            beside = [blow.seconds for blow in self.blows if blow.kind == kind and not blow.undisturbed]
            limit = f"{WITHIN_SECONDS[kind]:.0f} s" if kind in WITHIN_SECONDS else ""
            cells = [kind, len(alone), _seconds(alone, statistics.median), _seconds(alone, max), limit]
            lines.append("| " + " | ".join(map(str, [*cells, len(beside), _seconds(beside, max)])) + " |")
        return "\n".join([*lines, *map(str, self.late), *self.violations, *self.wrong])


def _seconds(took: list[float], of: Callable[[list[float]], float]) -> str:
    return f"{of(took):.1f} s" if took else ""


def write(outcome: Verdict) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "chaos.json").write_text(json.dumps(dataclasses.asdict(outcome), indent=1) + "\n")
