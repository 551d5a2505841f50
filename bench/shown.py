"""The way in which each kind of result is shown: a Markdown table, and pictures.

Each function takes what a benchmark wrote (`bench.outcome`) and returns Markdown with the pictures that it shows.  They
raise KeyError, TypeError or ValueError for a file of another form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bench import charts
from bench.outcome import table
from bench.peers.tournament import HEADER, rows

PICTURES: Final = "performance"
PEAK: Final = "MB at most"

Found = Mapping[str, Any]
Shown = tuple[str, Mapping[str, str]]
"""Markdown; name of a picture → SVG."""


def suite(found: Found) -> Shown:
    """A comparison of `bench.e2e`."""
    name, setups = str(found["benchmark"]), found["setups"]
    compared = any(setup["against"] for setup in setups)
    workloads = list(dict.fromkeys(setup["setup"]["workload"] for setup in setups))
    bars = [
        _bar(setup["label"], setup["flowing_rows_per_second"], workloads.index(setup["setup"]["workload"]))
        for setup in setups
    ]
    ratio = ["ratio"] if compared else []
    header = ("setup", "rows/s", "spread", "from start to exit", *ratio, "CPU s a million rows", PEAK)
    fewer = ", of *wide* a tenth" if "wide" in workloads else ""
    text = [
        f"{found['question']} {found['changes']:,} row changes{fewer}, {_rounds(found['rounds'])} each.",
        "",
        table(header, [_setup_line(setup, compared) for setup in setups]),
        "",
        _picture(found["question"], name),
    ]
    if found["goal"]:
        text += ["", f"Asked for: at least {found['goal']:g} times the first. {_verdict(found['met'])}"]
    return "\n".join(text), {name: charts.bars(found["question"], "rows/s", bars)}


def curve(found: Found) -> Shown:
    """The comparison of lanes: its table, and a line for each distance to the target."""
    text, _ = suite(found)
    series: dict[str, list[tuple[float, float]]] = {}
    for setup in found["setups"]:
        ways = setup["setup"]
        name = f"{ways['delay_ms']:g} ms each way"
        series.setdefault(name, []).append((ways["lanes"], setup["flowing_rows_per_second"]["median"]))
    drawn = charts.lines(found["question"], ("lanes", "rows/s"), series, logarithmic=True)
    return text, {str(found["benchmark"]): drawn}


def steady(found: Found) -> Shown:
    header = ("setup", "changes/s", "kept", "seconds behind at the end", "CPU s a million rows", PEAK)
    lines = [
        [
            rate["label"],
            f"{rate['rate']:,.0f}",
            f"{rate['kept_rate']['median']:,.0f}",
            f"{rate['behind_seconds']['median']:.2f}",
            _cost(rate),
            f"{rate['peak_mb']:.0f}",
        ]
        for rate in found["rates"]
    ]
    return f"{found['seconds']:g} s of load each, {_rounds(found['rounds'])}.\n\n{table(header, lines)}", {}


def _setup_line(setup: Found, compared: bool) -> list[object]:
    rate, ratio = setup["flowing_rows_per_second"], setup["ratio"]
    shown = f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})" if setup["against"] else "1"
    return [
        setup["label"],
        f"{rate['median']:,.0f}",
        f"{rate['low']:,.0f} to {rate['high']:,.0f}",
        f"{setup['rows_per_second']['median']:,.0f}",
        *([shown] if compared else []),
        _cost(setup) or "–",
        f"{setup['peak_mb']:.0f}" if setup["peak_mb"] else "–",
    ]


def _cost(measured: Found) -> str:
    return ", ".join(f"{name} {seconds:.1f}" for name, seconds in measured["cpu_seconds_a_million"].items())


def latency(found: Found) -> Shown:
    header = ("source", "changes/s", "kept", "p50 ms", "p99 ms", "p99.9 ms", "highest ms", PEAK)
    lines = [
        [
            rate["source"],
            f"{rate['rate']:,.0f}",
            f"{rate['kept_rate']['median']:,.0f}",
            *(_spread(rate[name]) for name in ("p50_ms", "p99_ms", "p999_ms")),
            f"{rate['highest_ms']:.0f}",
            f"{rate['peak_mb']:.0f}",
        ]
        for rate in found["rates"]
    ]
    series = {f"{rate['source']} {rate['rate']:,.0f}/s": rate["histogram_ms"] for rate in found["rates"]}
    title = "From COMMIT at the source to commit at the target: share of the changes"
    goals = found["goals"]
    asked = (
        f"Asked for at {found['goal_rate']:,.0f} changes/s: p50 below {goals['p50_ms']:g} ms, p99 below"
        f" {goals['p99_ms']:g} ms, memory below {goals['peak_mb']:g} MB. {_verdict(found['met'])}"
    )
    took = f"{found['seconds']:g} s each after {found['warm_seconds']:g} s to warm up, {_rounds(found['rounds'])}."
    text = [took, "", table(header, lines), "", _picture(title, "latency"), "", asked]
    return "\n".join(text), {"latency": charts.histogram(title, "ms", series)}


def peers(found: Found) -> Shown:
    text: list[str] = []
    pictures: dict[str, str] = {}
    for workload, measured in found["workloads"].items():
        ran = {name: system for name, system in measured["systems"].items() if "median" in system}
        bars = [
            _bar(name, {"median": system["median"], "low": system["least"], "high": system["most"]}, _ours(name))
            for name, system in ran.items()
        ]
        title, name = f"Catching up with {workload}, every system in turn", f"peers-{workload}"
        head = f"*{workload}*: {found['changes']:,} row changes, slow systems {found['slow_changes']:,};"
        text += [
            f"{head} {_rounds(found['rounds'])}.",
            "",
            table(HEADER, rows(measured)),
            "",
            _picture(title, name),
            "",
        ]
        pictures[name] = charts.bars(title, "rows/s", bars)
    return "\n".join(text).rstrip(), pictures


def micro(found: Found) -> Shown:
    header = ("stage", "µs a row", "rows a CPU second", "bytes a row", "rows/s with its server")
    lines = [
        [
            figure["name"],
            f"{figure['us']:.2f}",
            f"{1e6 / figure['us']:,.0f}",
            f"{figure['octets']:,.0f}" if figure["octets"] else "–",
            f"{figure['rows_a_second']:,.0f}" if figure["rows_a_second"] else "–",
        ]
        for figure in found["figures"]
    ]
    over = ", ".join(found["over_budget"])
    verdict = f"over their budget: {over}" if over else "none is over its budget"
    folded = f"<details>\n<summary>{len(lines)} stages; {verdict}</summary>"
    return f"{folded}\n\n{table(header, lines)}\n\n</details>", {}


def told(found: Found) -> Shown:
    """A result that says itself how it is shown: `shown` with `title`, `text`, `header`, `rows` and `charts`."""
    shown, name = found["shown"], str(found["benchmark"])
    text = [f"**{shown['title']}.** {shown['text']}"]
    if shown["rows"]:
        text += ["", table(shown["header"], shown["rows"])]
    pictures: dict[str, str] = {}
    for number, chart in enumerate(shown.get("charts", ()), 1):
        picture = f"{name}-{number}"
        x_unit, y_unit = chart["units"]
        pictures[picture] = charts.lines(
            chart["title"],
            (x_unit, y_unit),
            chart["series"],
            logarithmic=chart.get("logarithmic", False),
            limit=chart.get("limit", 0.0),
        )
        text += ["", _picture(chart["title"], picture)]
    return "\n".join(text), pictures


def machine(found: Found) -> str:
    """One line: where and when, with which servers, under what load."""
    at = found["machine"]
    versions = "; ".join(f"{label}: {_short(version)}" for label, version in at.get("servers", {}).items())
    return (
        f"<sub>{at['at'][:16].replace('T', ' ')} UTC, {at['cores']} × {at['processor']}, {at['memory_gib']} GiB, Linux"
        f" {at['kernel']}, Python {at['python']}; load {at['load_before']} before and {at['load_after']} after"
        f"{'; ' + versions if versions else ''}</sub>"
    )


def _short(version: str) -> str:
    """Without how and with what the server was compiled."""
    return version.partition(" (")[0].partition(" on ")[0]


def _bar(label: str, rate: Mapping[str, float], group: int) -> charts.Bar:
    return charts.Bar(label, rate["median"], rate["low"], rate["high"], group)


def _ours(system: str) -> int:
    """Ours have the first colour."""
    return 0 if system.startswith("tidelock") else 1


def _picture(title: str, name: str) -> str:
    return f"![{title}]({PICTURES}/{name}.svg)"


def _spread(value: Mapping[str, float]) -> str:
    one = f"{value['median']:.1f}"
    return one if value["low"] == value["high"] else f"{one} ({value['low']:.1f} to {value['high']:.1f})"


def _rounds(count: int) -> str:
    return "one round" if count == 1 else f"{count} rounds"


def _verdict(met: bool | None) -> str:
    return "Not measured at that rate." if met is None else "Met." if met else "**Not met.**"
