"""Renders the report as one HTML page without other files: pictures of how much differs, and where in each table."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import Any

from tidelock.adapters.verify.report import SHOWN_CHARACTERS, Difference, TableReport, VerifyReport

BINS = 60
LISTED = 500
_WIDTH, _HEIGHT = 720, 90
_COLOURS = {"matched": "#3a9d5d", "missing": "#d1495b", "extra": "#8e5ea2", "different": "#e09f3e"}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
table { border-collapse: collapse; font-size: 0.85rem; } th, td { padding: 0.2rem 0.8rem 0.2rem 0; text-align: left; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } td code { overflow-wrap: anywhere; }
.key i { display: inline-block; width: 0.8em; height: 0.8em; margin: 0 0.3em 0 1em; border-radius: 2px; }
svg { width: 100%; height: auto; display: block; } svg text { fill: currentColor; font-size: 11px; }
.frame { fill: none; stroke: currentColor; stroke-opacity: 0.25; }
.note { border-left: 4px solid #e09f3e; padding-left: 1rem; }
"""


def page(report: VerifyReport) -> str:
    """Returns the page.  Every text that comes from a database is escaped."""
    title = f"{report.feed}: {report.verdict}"
    head = f"<meta charset='utf-8'><meta name='viewport' content='width=device-width'><title>{escape(title)}</title>"
    facts = (
        f"<p>{escape(report.source)} → {escape(report.target)}<br>begun {escape(report.begun)}, "
        f"{report.seconds:.1f} s, {report.rows_per_second:,} rows/s</p>"
    )
    note = f"<p class='note'>{escape(report.note)}</p>" if report.note else ""
    body = "".join(map(_section, report.tables))
    return (
        f"<!doctype html><html lang='en'><head>{head}<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
        f"{facts}{note}{_overview(report)}{body}</body></html>\n"
    )


def _overview(report: VerifyReport) -> str:
    names = ("source_rows", "target_rows", "matched", "missing", "extra", "different", "still_changing", "failed_rows")
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in ("table", *names))
    lines = []
    for table in report.tables:
        cells = "".join(f"<td class='n'>{getattr(table, name):,}</td>" for name in names)
        lines.append(f"<tr><td>{escape(table.table)}</td>{cells}</tr>")
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def _section(table: TableReport) -> str:
    origin = "" if table.source == table.table else f" from {escape(table.source)}"
    parts = [f"<h2>{escape(table.table)}{origin}</h2>", _shares(table), _legend()]
    if table.differences:
        parts += [_places(table), _listing(table)]
    return "".join(parts)


def _legend() -> str:
    marks = (f"<i style='background:{colour}'></i>{kind}" for kind, colour in _COLOURS.items())
    return f"<p class='key'>{''.join(marks)}</p>"


def _shares(table: TableReport) -> str:
    """Draws a bar of all rows; differing rows are at least a line wide."""
    counts = {kind: getattr(table, kind) for kind in _COLOURS}
    all_rows = sum(counts.values()) or 1
    widths = {kind: max(count / all_rows * _WIDTH, 3.0) if count else 0.0 for kind, count in counts.items()}
    scale = _WIDTH / (sum(widths.values()) or 1)
    x, bars = 0.0, []
    for kind, width in widths.items():
        label = f"<title>{kind}: {counts[kind]:,}</title>"
        bars.append(
            f"<rect x='{x:.1f}' y='0' width='{width * scale:.1f}' height='22' fill='{_COLOURS[kind]}'>{label}</rect>"
        )
        x += width * scale
    return f"<svg viewBox='0 0 {_WIDTH} 22' role='img'>{''.join(bars)}</svg>"


def _places(table: TableReport) -> str:
    """Draws the differences along the key, or along the pieces in which the table was read."""
    bins: dict[str, Counter[int]] = {kind: Counter() for kind in _COLOURS}
    for found in table.differences:
        bins[found.kind][min(int(found.place * BINS), BINS - 1)] += found.rows
    highest = max(sum(counter[n] for counter in bins.values()) for n in range(BINS)) or 1
    step, bars = _WIDTH / BINS, []
    for n in range(BINS):
        y = float(_HEIGHT)
        for kind, counter in bins.items():
            height = counter[n] / highest * (_HEIGHT - 14)
            if height:
                y -= height
                bars.append(
                    f"<rect x='{n * step + 1:.1f}' y='{y:.1f}' width='{step - 2:.1f}' height='{height:.1f}' "
                    f"fill='{_COLOURS[kind]}'><title>{kind}: {counter[n]:,}</title></rect>"
                )
    ends = f"<text x='0' y='{_HEIGHT + 14}'>first rows</text>"
    ends += f"<text x='{_WIDTH}' y='{_HEIGHT + 14}' text-anchor='end'>last rows</text>"
    ends += f"<text x='0' y='11'>{highest:,}</text>"
    frame = f"<path class='frame' d='M0 {_HEIGHT}H{_WIDTH}'/>"
    return f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT + 18}' role='img'>{frame}{''.join(bars)}{ends}</svg>"


def _listing(table: TableReport) -> str:
    rows = "".join(_row(found) for found in table.differences[:LISTED])
    more = len(table.differences) - LISTED
    note = f"<p>… and {more:,} more.</p>" if more > 0 else ""
    note += "" if table.complete else "<p>There are too many differences to hold all of them.</p>"
    head = "".join(f"<th>{name}</th>" for name in ("", "key", "column", "source", "target"))
    return f"<details open><summary>differences</summary><table><tr>{head}</tr>{rows}</table>{note}</details>"


def _row(found: Difference) -> str:
    key = escape(", ".join(f"{name}={value}" for name, value in found.key.items())[:SHOWN_CHARACTERS])
    cells = []
    source_is, target_is = found.ends
    for name, (source, target) in found.columns.items() or [("", ("a row", "a row"))]:
        cells.append(
            f"<tr><td style='color:{_COLOURS[found.kind]}'>{found.kind}</td><td>{key}</td><td>{escape(name)}</td>"
            f"<td>{_value(source, source_is)}</td><td>{_value(target, target_is)}</td></tr>"
        )
    return "".join(cells)


def _value(value: Any, instead: str) -> str:
    if instead:
        return f"<i>{instead}</i>"
    if value is None:
        return "<i>NULL</i>"
    return f"<code>{escape(repr(value) if isinstance(value, str) else str(value))}</code>"
