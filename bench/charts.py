"""Charts as SVG that need nothing else: bars with their spread, histograms, lines.

Every chart is made of lines, rectangles and texts on a `Canvas`; a `Scale` says where a value stands on an axis.  The
file is text that a page shows and a diff can read, so coordinates are rounded and nothing in it depends on the moment.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

WIDTH: Final = 860
COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf")
GRID: Final = "#dddddd"
GOAL: Final = "#d62728"
FONT: Final = 'font-family="sans-serif" font-size="12"'
STEPS: Final = 5
FEW_DECADES: Final = 5
TOP: Final = 40
BOTTOM: Final = 40
RIGHT: Final = 190
LEFT: Final = 60
HEIGHT: Final = 380
CHARACTER: Final = 6.4
BARS_WIDTH: Final = 380
BAR_RIGHT: Final = 150
BAR_HEIGHT: Final = 22


class Canvas:
    """Collects the elements; `y` grows downwards."""

    def __init__(self, title: str, width: float = WIDTH, height: float = HEIGHT) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" {FONT}>',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        ]
        self.text(16, 22, title)

    def text(self, x: float, y: float, text: str, anchor: str = "start") -> None:
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>')

    def line(self, x: float, y: float, other_x: float, other_y: float, colour: str, *, dashed: bool = False) -> None:
        dashes = ' stroke-dasharray="6 4"' if dashed else ""
        self._parts.append(
            f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{other_x:.1f}" y2="{other_y:.1f}" stroke="{colour}"{dashes}/>'
        )

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.0):.1f}" height="{height:.1f}" fill="{colour}"/>'
        )

    def path(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"/>')

    def legend(self, names: Sequence[str]) -> None:
        """On the right, in the order of the colours."""
        for number, name in enumerate(names):
            y = TOP + 34 + 18 * number
            self.line(WIDTH - RIGHT + 8, y - 4, WIDTH - RIGHT + 26, y - 4, COLOURS[number % len(COLOURS)])
            self.text(WIDTH - RIGHT + 32, y, name)

    def svg(self) -> str:
        return "\n".join([*self._parts, "</svg>"]) + "\n"


@dataclasses.dataclass(frozen=True)
class Scale:
    """Values from `least` to `most` on the pixels from `start` to `end`; `logarithmic` takes positive values."""

    least: float
    most: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        least, most, value = map(self._place, (self.least, self.most, max(value, self.least)))
        return self.start + (value - least) / ((most - least) or 1.0) * (self.end - self.start)

    def _place(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    @property
    def ticks(self) -> list[float]:
        """Round numbers; on a logarithmic axis 1, 2 and 5 of each decade, or 1 alone where there are many decades."""
        if self.logarithmic:
            decades = range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1)
            factors = (1, 2, 5) if len(decades) <= FEW_DECADES else (1,)
            marks = [factor * 10.0**decade for decade in decades for factor in factors]
            return [mark for mark in marks if self.least <= mark <= self.most]
        step = _round_step((self.most - self.least) / STEPS)
        return [self.least + number * step for number in range(int((self.most - self.least) / step + 1e-9) + 1)]


@dataclasses.dataclass(frozen=True)
class Bar:
    """`low` and `high`: the spread that its whisker shows.  `group`: bars of one group have one colour."""

    label: str
    value: float
    low: float
    high: float
    group: int = 0


def bars(title: str, unit: str, rows: Sequence[Bar], goal: float = 0.0) -> str:
    """Horizontal bars, one a line.  `goal`: a dashed line; 0: none."""
    left = 24 + CHARACTER * max((len(row.label) for row in rows), default=0)
    right, foot = left + BARS_WIDTH, TOP + BAR_HEIGHT * len(rows)
    canvas = Canvas(title, right + BAR_RIGHT, foot + BOTTOM)
    scale = Scale(0.0, top(max([goal, *(row.high for row in rows)], default=1.0)), left, right)
    for tick in scale.ticks:
        canvas.line(scale(tick), TOP, scale(tick), foot, GRID)
        canvas.text(scale(tick), foot + 18, number(tick), "middle")
    canvas.text(right + 34, foot + 18, unit)
    for place, row in enumerate(rows):
        y = TOP + BAR_HEIGHT * place
        middle = y + BAR_HEIGHT / 2
        canvas.text(left - 8, middle + 4, row.label, "end")
        canvas.bar(left, y + 4, scale(row.value) - left, BAR_HEIGHT - 8, COLOURS[row.group % len(COLOURS)])
        canvas.line(scale(row.low), middle, scale(row.high), middle, "black")
        for end in (row.low, row.high):
            canvas.line(scale(end), middle - 4, scale(end), middle + 4, "black")
        spread = f" ({number(row.low)} to {number(row.high)})" if row.low != row.high else ""
        canvas.text(scale(row.high) + 6, middle + 4, f"{number(row.value)}{spread}")
    if goal:
        canvas.line(scale(goal), TOP - 6, scale(goal), foot, GOAL, dashed=True)
    return canvas.svg()


def histogram(title: str, unit: str, series: Mapping[str, Sequence[tuple[float, int]]]) -> str:
    """`series`: name → (upper edge of the bin, count), edges that grow by a factor; drawn as shares of their sum.

    The first bin, which holds all below its edge, is drawn as wide as the others.
    """
    edges = [edge for bins in series.values() for edge, _ in bins]
    factor = edges[1] / edges[0] if len(edges) > 1 else 2.0
    x = Scale(min(edges, default=1.0) / factor, max(edges, default=10.0), LEFT, WIDTH - RIGHT, logarithmic=True)
    shares = {name: _shares(bins) for name, bins in series.items()}
    y = Scale(0.0, top(max((s for bins in shares.values() for _, s in bins), default=1.0)), HEIGHT - BOTTOM, TOP)
    canvas = Canvas(title)
    _axes(canvas, x, y, unit, " %")
    for place, bins in enumerate(shares.values()):
        points, before = [], x.least
        for edge, share in bins:
            points += [(x(before), y(share)), (x(edge), y(share))]
            before = edge
        canvas.path(points, COLOURS[place % len(COLOURS)])
    canvas.legend(list(series))
    return canvas.svg()


def lines(
    title: str,
    units: tuple[str, str],
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    logarithmic: bool = False,
    limit: float = 0.0,
) -> str:
    """`units`: of x and y.  `logarithmic`: the x axis.  `limit`: a dashed line; 0: none."""
    points = [point for line in series.values() for point in line]
    across = [x for x, _ in points] or [1.0]
    x = Scale(min(across) if logarithmic else 0.0, max(across), LEFT, WIDTH - RIGHT, logarithmic)
    y = Scale(0.0, top(max([limit, *(value for _, value in points)], default=1.0)), HEIGHT - BOTTOM, TOP)
    canvas = Canvas(title)
    _axes(canvas, x, y, units[0], f" {units[1]}")
    for place, line in enumerate(series.values()):
        canvas.path([(x(at), y(value)) for at, value in line], COLOURS[place % len(COLOURS)])
    if limit:
        canvas.line(LEFT, y(limit), WIDTH - RIGHT, y(limit), GOAL, dashed=True)
        canvas.text(WIDTH - RIGHT + 8, y(limit) + 4, f"limit, {number(limit)} {units[1]}")
    canvas.legend(list(series))
    return canvas.svg()


def top(value: float) -> float:
    """The end of an axis that begins at zero: a round number not below `value`."""
    step = _round_step(value / STEPS)
    return step * max(1, math.ceil(value / step - 1e-9))


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 20 or value == int(value) else f"{value:.3g}"


def _axes(canvas: Canvas, x: Scale, y: Scale, x_unit: str, y_unit: str) -> None:
    for place, tick in enumerate(y.ticks):
        canvas.line(LEFT, y(tick), WIDTH - RIGHT, y(tick), GRID)
        canvas.text(LEFT - 6, y(tick) + 4, number(tick) + (y_unit if place == len(y.ticks) - 1 else ""), "end")
    for tick in x.ticks:
        canvas.line(x(tick), TOP, x(tick), HEIGHT - BOTTOM, GRID)
        canvas.text(x(tick), HEIGHT - BOTTOM + 18, number(tick), "middle")
    canvas.text(WIDTH - RIGHT + 8, HEIGHT - BOTTOM + 18, x_unit)


def _shares(bins: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    whole = sum(count for _, count in bins) or 1
    return [(edge, count / whole * 100) for edge, count in bins]


def _round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, not below `rough`."""
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
