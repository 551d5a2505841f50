"""A curve over time as an SVG, with a limit: what a process held while something passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.charts import lines

Points = Sequence[tuple[float, float]]


def svg(title: str, unit: str, curves: Mapping[str, Points], limit: float) -> str:
    """`curves`: name → points (seconds, value in `unit`).  `limit`: a dashed line."""
    named = {
        f"{name}, at most {max((v for _, v in line), default=0.0):.0f} {unit}": line for name, line in curves.items()
    }
    return lines(title, ("s", unit), named, limit=limit)
