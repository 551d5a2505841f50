"""Display of the results of growth: the part `shown` of a result's file, which `tidelock bench report` reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bench import giant
from bench.growth.ground import MEMORY_LIMIT_MB, OURS, Run
from bench.growth.pressure import Passed
from bench.outcome import table

KEPT: Final = 0.8
SKEWED: Final = "2,000, 20 hot"
FLAT: Final = 1.2
SERIES_HEADER: Final = (
    "case", "changes", "rows/s from start", "rows/s", "of the first", "PostgreSQL's own", "of the first",
    "capture, µs a row", "engine", "target", "process tree, MB",
)  # fmt: skip
PHASES_HEADER: Final = (
    "phase",
    "s",
    "rows so far",
    *(f"{name}, MB" for name in OURS),
    "process tree, MB",
    "lag before",
    "after",
)

Cases = Sequence[Mapping[str, Any]]


def shown(name: str, cases: Cases, runs: Sequence[Run]) -> dict[str, Any]:
    """`name`: of the series; `cases`: the medians, as in its file; `runs`: all of ours."""
    title, text, charts = _KINDS[name]
    return {
        "title": title,
        "text": text(cases),
        "header": SERIES_HEADER,
        "rows": [_row(case) for case in cases],
        "charts": charts(cases, runs),
    }


def _row(case: Mapping[str, Any]) -> list[str]:
    kept, cpu = case["kept"], case["cpu_us"]
    native = case.get("native_rows_per_second")
    return [
        case["case"],
        f"{case['changes']:,}",
        f"{case['rows_per_second']:,}",
        f"{case['flowing_rows_per_second']:,}",
        f"{kept['flowing_rows_per_second']:.0%}",
        f"{native:,}" if native else "–",
        f"{kept['native_rows_per_second']:.0%}" if native else "–",
        *(f"{cpu.get(name, 0.0):.1f}" for name in ("capture", "run", "target")),
        f"{case['tree_mb']:.0f}",
    ]


def _tables(cases: Cases) -> str:
    skewed = next((case["kept"]["flowing_rows_per_second"] for case in cases if case["case"] == SKEWED), None)
    verdict = f" Goal: {KEPT:.0%} of it with {SKEWED}; here {skewed:.0%}." if skewed is not None else ""
    return f"The rate of one table, and what is kept of it; 20 hot tables take 80 % of the changes.{verdict}"


def _width(cases: Cases) -> str:
    most = max(case["tree_mb"] for case in cases)
    return (
        f"Rows of growing length. Goal: tidelock's processes hold at most {MEMORY_LIMIT_MB:.0f} MB; here {most:.0f} MB."
    )


def costs(cases: Cases) -> list[float]:
    """CPU microseconds a row of tidelock's own processes, by case."""
    return [sum(case["cpu_us"].get(name, 0.0) for name in OURS) for case in cases]


def _backlog(cases: Cases) -> str:
    first, *_, last = costs(cases)
    return (
        f"Goal: a row costs the same however long the backlog; tidelock's processes spent {first:.1f} µs a row on the"
        f" shortest and {last:.1f} µs on the longest."
    )


def _lanes(cases: Cases) -> str:
    return "One table and a target that is near: lanes overlap commits and decoding, and two cores bound them."


def _rates(unit: str) -> Callable[[Cases, Sequence[Run]], list[dict[str, Any]]]:
    def charts(cases: Cases, runs: Sequence[Run]) -> list[dict[str, Any]]:
        even = [case for case in cases if case["case"] != SKEWED]
        lines = {"tidelock": [[case["x"], case["flowing_rows_per_second"]] for case in even]}
        peer = [[case["x"], case["native_rows_per_second"]] for case in even if "native_rows_per_second" in case]
        if peer:
            lines["PostgreSQL's own"] = peer
        return [_chart(f"Rate by {unit}", unit, "rows/s", lines)]

    return charts


def _memory_by_width(cases: Cases, runs: Sequence[Run]) -> list[dict[str, Any]]:
    line = {"process tree": [[case["x"], case["tree_mb"]] for case in cases]}
    return [_chart("Memory by row width", "bytes", "MB", line, MEMORY_LIMIT_MB)]


def _backlog_charts(cases: Cases, runs: Sequence[Run]) -> list[dict[str, Any]]:
    by_size = {"engine and capture": [[case["x"], cost] for case, cost in zip(cases, costs(cases), strict=True)]}
    longest = max(runs, key=lambda run: run.changes)
    title = f"Resident memory over {longest.changes:,} changes"
    return [
        _chart("Cost of a row by backlog", "changes", "µs", by_size),
        _chart(title, "s", "MB", longest.curves, MEMORY_LIMIT_MB, logarithmic=False),
    ]


_KINDS: Final[
    Mapping[str, tuple[str, Callable[[Cases], str], Callable[[Cases, Sequence[Run]], list[dict[str, Any]]]]]
] = {
    "tables": ("As tables grow", _tables, _rates("tables")),
    "width": ("As rows grow", _width, _memory_by_width),
    "backlog": ("As the backlog grows", _backlog, _backlog_charts),
    "lanes": ("As lanes grow", _lanes, _rates("lanes")),
}


def shown_pressure(found: Passed) -> dict[str, Any]:
    """The phases of a trial, with the curves of memory and of the lag."""
    rows = [
        [
            phase.name,
            f"{phase.seconds:.1f}",
            f"{phase.rows:,}",
            *(f"{phase.peak_mb.get(name, 0.0):.0f}" for name in OURS),
            f"{phase.tree_mb:.0f}",
            *("–" if lag is None else f"{lag:.1f} s" for lag in phase.lag),
        ]
        for phase in found.phases
    ]
    lag = {"lag": [[at, value] for at, value in found.lag if value is not None]}
    return {
        "title": "A target that stands still, then dies",
        "text": f"{found.changes:,} changes behind; the target is stopped, goes on, is killed and started again. Goal:"
        f" memory flat, at most {MEMORY_LIMIT_MB:.0f} MB (here {found.tree_mb:.0f} MB), a lag that grows by a second a"
        f" second while nothing moves; {found.differences} differences at the end.",
        "header": PHASES_HEADER,
        "rows": rows,
        "charts": [
            _chart("Resident memory", "s", "MB", found.curves, MEMORY_LIMIT_MB, logarithmic=False),
            _chart("Lag as told", "s", "s", lag, logarithmic=False),
        ],
    }


def shown_giant(found: giant.Passed, source: str, consistency: str) -> dict[str, Any]:
    """One giant transaction: its size, its time, and what each process held."""
    names = list(found.peak_mb)
    size = f"{found.transaction_bytes / 1e9:.2f} GB"
    return {
        "title": f"One transaction of {size}, {source} → postgres, consistency {consistency}",
        "text": f"Goal: no process of tidelock holds {giant.LIMIT_MB} MB, and no row differs.",
        "header": (
            "of the log",
            "rows",
            "s to commit",
            "s to apply",
            *(f"{name}, MB" for name in names),
            "differences",
        ),
        "rows": [
            [
                size,
                f"{found.rows:,}",
                f"{found.source_seconds:.1f}",
                f"{found.seconds:.1f}",
                *(f"{found.peak_mb[name]:.0f}" for name in names),
                f"{found.differences}",
            ]
        ],
        "charts": [_chart("Resident memory", "s", "MB", found.curves, giant.LIMIT_MB, logarithmic=False)],
    }


def _chart(
    title: str, x: str, y: str, lines: Mapping[str, Any], limit: float = 0.0, *, logarithmic: bool = True
) -> dict[str, Any]:
    return {"title": title, "units": [x, y], "series": lines, "logarithmic": logarithmic, "limit": limit}


def as_table(part: Mapping[str, Any]) -> str:
    """For a terminal."""
    return f"{part['text']}\n{table(part['header'], part['rows'])}"
