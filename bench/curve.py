"""A curve as an SVG that needs nothing else: a few lines over time, an axis each, and a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

WIDTH: Final = 860
HEIGHT: Final = 380
LEFT: Final = 60
RIGHT: Final = 190
TOP: Final = 40
BOTTOM: Final = 40
COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf")
STEPS: Final = 5
FONT: Final = 'font-family="sans-serif" font-size="12"'

Points = Sequence[tuple[float, float]]


def svg(title: str, unit: str, lines: Mapping[str, Points], limit: float) -> str:
    """`lines`: name → points (seconds, value in `unit`).  `limit`: a dashed line, and the top of the axis."""
    last = max((points[-1][0] for points in lines.values() if points), default=1.0)

    def x(seconds: float) -> float:
        return LEFT + seconds / last * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - value / limit * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 22, title, "start"),
    ]
    for step in range(STEPS + 1):
        value, seconds = limit * step / STEPS, last * step / STEPS
        parts.append(_line(LEFT, y(value), WIDTH - RIGHT, y(value), "#dddddd"))
        parts.append(_text(LEFT - 6, y(value) + 4, f"{value:.0f}", "end"))
        parts.append(_text(x(seconds), HEIGHT - BOTTOM + 18, f"{seconds:.0f} s", "middle"))
    parts.append(_line(LEFT, y(limit), WIDTH - RIGHT, y(limit), "#d62728", ' stroke-dasharray="6 4"'))
    parts.append(_text(WIDTH - RIGHT + 8, y(limit) + 4, f"limit, {limit:.0f} {unit}", "start"))
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = " ".join(f"{x(seconds):.1f},{y(value):.1f}" for seconds, value in points)
        parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        highest = max((value for _, value in points), default=0.0)
        height = TOP + 34 + 18 * number
        parts.append(_line(WIDTH - RIGHT + 8, height - 4, WIDTH - RIGHT + 26, height - 4, colour))
        parts.append(_text(WIDTH - RIGHT + 32, height, f"{name}, at most {highest:.0f} {unit}", "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x: float, y: float, other_x: float, other_y: float, colour: str, more: str = "") -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{other_x:.1f}" y2="{other_y:.1f}" stroke="{colour}"{more}/>'
