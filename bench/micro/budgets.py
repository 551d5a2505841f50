"""Budgets of the stages: figures that were recorded once, and limits that were promised.

The file holds both, by a benchmark's name, in CPU microseconds a row.  *recorded*: what it cost when somebody last said
that this is what it should; `--record` writes it, and whoever records says why in the commit.  *limits*: what must not
be exceeded at all; written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

import msgspec

from bench.micro.suite import Figure

PATH: Final = Path(__file__).parent / "budgets.json"
TOLERANCE: Final = 1.2
SERVER_NOISE_US: Final = 0.1
"""Allowed beyond the tolerance where a server answers: in how many pieces its answers arrive is chance."""


class Budgets(msgspec.Struct):
    """`machine`: the processor that the recorded figures come from."""

    machine: str = ""
    limits: dict[str, float] = {}
    recorded: dict[str, float] = {}

    @classmethod
    def read(cls, path: Path) -> Self:
        return msgspec.json.decode(path.read_bytes(), type=cls) if path.exists() else cls()

    def record(self, figures: Iterable[Figure], machine: str, path: Path) -> None:
        """Take new figures; a stage that was not measured this time keeps its own."""
        self.machine = machine
        self.recorded |= {figure.name: figure.us for figure in figures}
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    def exceeded(self, figure: Figure) -> bool:
        """A regression of more than a fifth, or beyond a limit."""
        noise = SERVER_NOISE_US if figure.rows_a_second else 0.0
        allowed = self.recorded.get(figure.name, math.inf) * TOLERANCE + noise
        return figure.us > min(allowed, self.limits.get(figure.name, math.inf))
