"""Microbenchmarks of this checkout and another, in turns: how many times as long does each take here?

The other one is a folder with compiled forms of its own (`python -m tidelock.adapters.compiled.build`, started in it).
Its modules are found before this one's because they are in the working folder; the interpreter and what is installed
are this one's.  What only one of the two has is left out.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.micro.suite import Figure, measured
from bench.outcome import table

HERE: Final = Path(__file__).parents[2]
NAMES: Final = "from bench.micro.suite import CASES, __file__ as at; print(at, *CASES, sep='\\n')"


class Compared(msgspec.Struct, frozen=True):
    """`here`, `there`: CPU microseconds a row, the least.  `ratios`: of the rounds, here to there."""

    name: str
    here: float
    there: float
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)


def names_of(tree: Path) -> list[str]:
    """Names of another checkout's benchmarks.  Raises ValueError where it is none."""
    said = subprocess.run([sys.executable, "-c", NAMES], cwd=tree, capture_output=True, text=True, check=False)
    at, *names = said.stdout.split("\n")[:-1] or [""]
    if said.returncode or not Path(at).is_relative_to(tree.resolve()):
        raise ValueError(f"{tree} is no checkout with microbenchmarks: {said.stderr.strip()[-300:] or at}")
    return names


def turns(tree: Path, names: Sequence[str], rounds: int, values: int) -> Iterator[tuple[list[Figure], list[Figure]]]:
    """Figures of each round, here and there; who is first changes from round to round."""
    for number in range(rounds):
        order = (HERE, tree) if number % 2 == 0 else (tree, HERE)
        found = {where: measured(names, values, tree=where) for where in order}
        yield found[HERE], found[tree]


def compared(rounds: Sequence[tuple[Sequence[Figure], Sequence[Figure]]]) -> list[Compared]:
    """Over all rounds, by name."""
    here: dict[str, list[float]] = {}
    there: dict[str, list[float]] = {}
    for ours, theirs in rounds:
        for kept, figures in ((here, ours), (there, theirs)):
            for figure in figures:
                kept.setdefault(figure.name, []).append(figure.us)
    return [
        Compared(
            name,
            min(found),
            min(there[name]),
            tuple(round(one / other, 3) for one, other in zip(found, there[name], strict=True)),
        )
        for name, found in here.items()
    ]


def shown(found: Sequence[Compared]) -> str:
    """A table, what has grown most first."""
    header = ("stage", "µs a row here", "there", "ratio", "least", "most")
    lines = [
        (one.name, f"{one.here:.3f}", f"{one.there:.3f}", f"{one.ratio:.3f}", min(one.ratios), max(one.ratios))
        for one in sorted(found, key=lambda one: -one.ratio)
    ]
    return table(header, lines)
