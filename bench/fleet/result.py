"""Result of a run of a fleet, and what speaks against it."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.chaos.memory import JUDGED_MINUTES, MOST_LIFE_GROWTH, MOST_SLOPE, Memory
from bench.fleet.held import MOST_MORE, Held
from bench.outcome import table

SHOWN: Final = 8
ASKED_MINUTES: Final = 60
SHORT: Final = "Met, as far as so short a run tells: memory, descriptors and threads are not judged."
HEADER: Final = ("act", "times", "median s", "longest s")
MEMORY_HEADER: Final = (
    "process", "peak MB", "MB a minute at equal ages", "MB a minute in long lives", "long lives", "most MB in a life",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Act:
    """`at`: seconds since the start.  `took`: until its command said that it is done.  `failed`: it was not."""

    at: float
    kind: str
    feed: str
    what: str
    took: float
    failed: bool = False

    def __str__(self) -> str:
        failed = " FAILED" if self.failed else ""
        return f"{self.at:6.0f} s  {self.feed:<10} {self.kind:<22} {self.took:5.1f} s{failed}  {self.what}"


@dataclasses.dataclass(frozen=True)
class Result:
    """`kills`: by what was killed.  `statuses`: answers of the API to random requests.  `ends`: exit codes of feeds but
    0, with how often, that no kill of ours explains.  `equal`: seconds from the last write until all feeds' rows were
    equal; None: they were not.  `left`: processes and files that are there once `serve` has ended.  `wrong`: what else
    should not have been.  `violating`: what the targets' servers tell of the statements that failed on a unique key.
    """

    feeds: int
    minutes: float
    rate: float
    seed: int
    changes: int
    acts: list[Act]
    kills: dict[str, int]
    starts: int
    statuses: dict[str, int]
    verified: int
    rows: int
    differences: dict[str, str]
    parked: int
    unique_violations: int
    ends: dict[str, int]
    equal: float | None
    stopped: float
    code: int
    left: list[str]
    memory: list[Memory]
    held: list[Held]
    wrong: list[str]
    violating: list[str] = dataclasses.field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """Everything that speaks against it, in words; empty: it stood."""
        found = [
            *(f"{feed}: rows differ: {told}" for feed, told in self.differences.items()),
            *(["the feeds were not equal in the end"] if self.equal is None else []),
            *([f"{self.parked} rows are set aside"] if self.parked else []),
            *([f"{self.unique_violations} unique violations at targets"] if self.unique_violations else []),
            *self.violating,
            *([f"exit code {self.code} of serve"] if self.code else []),
            *([f"left behind: {self.left[:SHOWN]}"] if self.left else []),
            *(f"act failed: {act}" for act in self.acts if act.failed),
            *self.wrong,
        ]
        if self.minutes >= JUDGED_MINUTES:
            found += [f"memory grows: {memory}" for memory in self.memory if not memory.flat]
            found += [f"serve holds more and more {held}" for held in self.held if held.grows]
        return found

    @property
    def told(self) -> str:
        kills = ", ".join(f"{count} of a {what}" for what, count in self.kills.items())
        statuses = ", ".join(f"{count:,} × {status}" for status, count in self.statuses.items())
        ends = "; ".join(f"{words} ({count})" for words, count in self.ends.items()) or "none"
        return (
            f"{self.feeds} feeds of {self.changes:,} changes at {self.rate:g}/s each in {self.minutes:g} minutes;"
            f" {len(self.acts)} edits and other acts of operators, {sum(self.kills.values())} SIGKILLs ({kills}),"
            f" {self.starts} starts of feeds in the last `serve`; random requests: {statuses}, {len(self.wrong)}"
            f" answers or words that should not be; {self.verified} comparisons under load found nothing. In the end"
            f" {len(self.differences)} feeds with differences in {self.rows:,} rows, {self.parked} rows set aside,"
            f" {self.unique_violations} unique violations, {len(self.left)} things left behind by `serve`, which ended"
            f" within {self.stopped:.1f} s; equal {self.equal} s after the last write. Ends of feeds that no kill"
            f" explains: {ends}."
        )

    @property
    def rows_of_acts(self) -> list[Sequence[object]]:
        lines: list[Sequence[object]] = []
        for kind, count in sorted(Counter(act.kind for act in self.acts).items()):
            took = sorted(act.took for act in self.acts if act.kind == kind)
            lines.append((kind, count, f"{took[len(took) // 2]:.1f}", f"{took[-1]:.1f}"))
        return lines

    @property
    def rows_of_memory(self) -> list[Sequence[object]]:
        return [
            (m.name, f"{m.peak:.1f}", f"{m.drift:+.3f}", f"{m.slope:+.3f}", m.lives, f"{m.life_growth:+.2f}")
            for m in self.memory
        ]

    @property
    def _met(self) -> str:
        if self.minutes < JUDGED_MINUTES:
            return SHORT
        young = ", ".join(memory.name for memory in self.memory if not memory.lives)
        unjudged = f" Memory within a life is not judged: no life of {young} was long enough." if young else ""
        part = f", for {self.minutes:.0f} of the {ASKED_MINUTES} minutes" if self.minutes < ASKED_MINUTES else ""
        return f"Met{part}.{unjudged}"

    def __str__(self) -> str:
        return "\n".join(
            [self.told, "", table(HEADER, self.rows_of_acts), "", table(MEMORY_HEADER, self.rows_of_memory),
             *map(str, self.held), *self.faults]
        )  # fmt: skip

    def shown(self, curves: Mapping[str, list[tuple[float, float]]]) -> dict[str, Any]:
        """For the page of results.  `curves`: name → (minutes, MB)."""
        memory = "; ".join(
            f"{m.name}: at most {m.peak:.0f} MB, {m.drift:+.2f} MB a minute from life to life at equal ages, "
            f"{m.slope:+.2f} MB a minute within {m.lives} long lives, {m.life_growth:+.1f} MB at most in one"
            for m in self.memory
        )
        held = "; ".join(map(str, self.held)) or "its last life was too short to judge"
        asked = (
            f"Asked for: {ASKED_MINUTES} minutes, no difference, nothing set aside or left behind, memory that grows by"
            f" at most {MOST_SLOPE:.2f} MB a minute either way and by {MOST_LIFE_GROWTH:.0f} MB in a life, at most"
            f" {MOST_MORE} descriptors and threads more at the end of `serve`'s life."
        )
        verdict = f"**Not met:** {'; '.join(self.faults[:SHOWN])}." if self.faults else self._met
        return {
            "title": f"{self.feeds} feeds under one `serve`, {self.minutes:.0f} minutes, seed {self.seed}",
            "text": f"{self.told} Memory: {memory}. Of `serve`: {held}. {asked} {verdict}",
            "header": HEADER,
            "rows": self.rows_of_acts,
            "charts": [{"title": "Resident memory of a fleet", "units": ["minutes", "MB"], "series": curves}],
        }


def unasked(said: str) -> dict[str, int]:
    """Returns the exit codes of feeds, with the words before each, from what `serve` has said.

    Signal 9 is ours; what a feed says last before it ends otherwise stands in the line before.
    """
    found: Counter[str] = Counter()
    last: dict[str, str] = {}
    for line in said.splitlines():
        feed, colon, words = line.partition(": ")
        if not colon:
            continue
        if (ended := re.match(r"ended with exit code (\d+)", words)) and ended[1] != "0":
            found[f"exit code {ended[1]}: {without_names(last.get(feed, ''))}"] += 1
        last[feed] = words
    return dict(found.most_common())


def without_names(words: str) -> str:
    """Returns words in which names of feeds, numbers and places are one, so that like is counted with like; of a path
    only the file's name is left, since its folder is of one machine."""
    plain = re.sub(r"(?<!\S)/(?:[^\s/]+/)+", "", words)
    return re.sub(r"\d+", "N", re.sub(r"\bf\d+_rig\d+\b", "FEED", plain))[:300]
