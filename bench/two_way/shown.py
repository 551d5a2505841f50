"""Tables of what two ways cost, from the results that its parts write."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from bench.outcome import table

PROCESSES = ("capture", "run", "source", "target")
Found = Mapping[str, Any]


def rates(found: Found) -> str:
    """Table of rates of a suite of `bench.e2e`."""
    header = ("feed", "rows/s", "spread", "ratio", "CPU s a million rows, ours")
    return table(header, [_rate(setup) for setup in found["setups"]])


def _rate(setup: Found) -> list[str]:
    rate, ratio = setup["flowing_rows_per_second"], setup["ratio"]
    times = f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})" if setup["against"] else "1"
    cost = f"{setup['cpu_seconds_a_million'].get('ours', 0.0):.1f}"
    return [setup["label"], f"{rate['median']:,.0f}", f"{rate['low']:,.0f} to {rate['high']:,.0f}", times, cost]


def marks(found: Found) -> str:
    """Table of the suite of that name: each setup against the one before it that has none."""
    lines, plain = [], 0.0
    for setup in found["setups"]:
        octets = setup["target_log_bytes_a_change"]["median"]
        plain = plain if setup["against"] else octets
        lines.append([setup["label"], f"{octets:,.0f}", f"{octets - plain:+,.0f}" if setup["against"] else "–"])
    return table(("feed, one row a batch", "bytes of the target's log a batch", "more"), lines)


def live(found: Found) -> str:
    """Table of delays under a steady load."""
    header = ("feed", *(f"{name}, CPU s a million rows" for name in PROCESSES), "s behind at the end")
    lines = [
        [
            rate["label"],
            *(f"{rate['cpu_seconds_a_million'].get(name, 0.0):.1f}" for name in PROCESSES),
            f"{rate['behind_seconds']['median']:.3f}",
        ]
        for rate in found["rates"]
    ]
    return table(header, lines)


def both(found: Found) -> str:
    """Table of `bench.two_way.both`; a ratio is taken within each round."""
    header = ("pair", "one way, rows/s", "both at once", "ratio", "passing what came")
    lines = []
    for pair, rounds in found["pairs"].items():
        one = statistics.median(one["changes"] / one["one"] for one in rounds)
        two = statistics.median(2 * one["changes"] / one["both"] for one in rounds)
        ratio = statistics.median(2 * one["one"] / one["both"] for one in rounds)
        passing = statistics.median(one["changes"] / one["passing"] for one in rounds)
        lines.append([pair, f"{one:,.0f}", f"{two:,.0f}", f"{ratio:.2f}", f"{passing:,.0f}"])
    return table(header, lines)


def lags(found: Found) -> str:
    """Table of `bench.two_way.lags`."""
    lines = [
        (f"{one['pair']}, {_writing(one['rate'])}", kind, times, *(f"{seconds:.3f}" for seconds in spread))
        for one in found["lags"]
        for kind, (times, *spread) in one["lags"].items()
    ]
    return table(("pair", "lag of", "times", "p50 s", "p99 s", "longest s"), lines)


def _writing(rate: float) -> str:
    return f"{rate:,.0f} changes/s at each site" if rate else "nobody else writes"


def reopen(found: Found) -> str:
    """Table of `bench.two_way.reopen`: the median of the cuts of each pair, and the longest."""
    header = ("pair", "cuts", "holds after, s", "first row flows, s", "all of both sites, s", "longest")
    pairs: dict[str, list[Found]] = {}
    for one in found["cuts"]:
        pairs.setdefault(one["pair"], []).append(one)
    lines = []
    for pair, cuts in pairs.items():
        held, level = ([float(one[name]) for one in cuts] for name in ("held", "level"))
        flows = [max(one["flows"].values()) for one in cuts]
        middle = (f"{statistics.median(took):.2f}" for took in (held, flows, level))
        lines.append((pair, len(cuts), *middle, f"{max(level):.2f}"))
    return table(header, lines)


def crossed(found: Found) -> str:
    """Table of `bench.two_way.crossed`, in medians of the rounds."""
    cost = "CPU ms a row, ours and the servers'"
    header = ("pair, the arbiter first", "in conflict", "up, rows/s", cost, "down, rows/s", cost)
    return table(header, [_crossed(pair, rounds) for pair, rounds in found["pairs"].items()])


def _crossed(pair: str, rounds: list[Found]) -> list[str]:
    part = statistics.median(one["conflicts"] / one["changes"] for one in rounds)
    line = [pair, f"{part:.0%}"]
    for name in ("up", "down"):
        legs = [one[name] for one in rounds]
        rate = statistics.median(leg["rows"] / leg["seconds"] for leg in legs)
        ours, servers = (_cost(legs, of) for of in (("run", "capture"), ("source", "target")))
        line += [f"{rate:,.0f}", f"{ours:.3f}, {servers:.3f}"]
    return line


def _cost(legs: list[Found], names: tuple[str, ...]) -> float:
    """Milliseconds of processor time a row."""
    used: list[float] = [sum(leg["cpu_seconds"].get(name, 0.0) for name in names) / leg["rows"] for leg in legs]
    return 1000 * statistics.median(used)
