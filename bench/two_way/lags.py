"""Lags of a spoke's change at a pair that nothing disturbs (`bench.sites.lags`), idle and while both sites write."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bench.harness.network import Network
from bench.harness.rig import until
from bench.harness.servers import Server
from bench.sites.lags import KINDS, Prober, spread
from bench.sites.tied import tied
from bench.sites.topology import named
from bench.sites.writer import Writer
from bench.two_way.reopen import applies

BEGIN_SECONDS: Final = 60.0
PROBE_SECONDS: Final = 10.0
"""Within so long each probe comes to its end, on an average."""
EACH_SECONDS: Final = 0.05
KEYS: Final = 5_000
RATES: Final = (0.0, 500.0)
"""Changes a second that applications make at each site."""


@dataclasses.dataclass(frozen=True)
class Lags:
    """`rate`: of the writers, at each site.  `lags`: kind → how many, and their p50, p99 and the longest, in seconds.
    `broken`: probes that came to nothing."""

    pair: str
    rate: float
    lags: Mapping[str, tuple[int, float, float, float]]
    broken: int
    load: float

    def __str__(self) -> str:
        told = ", ".join(f"{kind} {p50:.3f} s, p99 {p99:.3f}" for kind, (_, p50, p99, _) in self.lags.items())
        return f"{self.pair} at {self.rate:g} changes/s: {told}"


def measured(pair: str, servers: Mapping[str, Server], folder: Path, probes: int, seed: int) -> Iterator[Lags]:
    """`servers`: of the arbiter eu and the spoke us.  Raises AssertionError where probes do not come to an end."""
    topology = named(pair)
    with tied(topology, folder, servers) as network:
        network.run()
        until(lambda: all(map(applies, network.feeds.values())), "feeds that apply", BEGIN_SECONDS)
        try:
            for number, rate in enumerate(RATES):
                yield _probed(pair, network, probes, rate, seed, number)
        finally:
            for feed in network.feeds.values():
                feed.stop()


def _probed(pair: str, network: Network, probes: int, rate: float, seed: int, number: int) -> Lags:
    with contextlib.ExitStack() as stack:
        writers = [Writer(node, rate, seed, KEYS, sums=True) for node in network.nodes.values()] if rate else []
        down = network.feeds["eu>us"]
        prober = Prober(network["eu"], network["us"], down, number + 1, EACH_SECONDS)
        for writer in writers:
            stack.callback(writer.stop)
            writer.start()
        stack.callback(prober.stop)
        prober.start()
        until(lambda: _count(prober) >= probes, f"{probes} probes", BEGIN_SECONDS + probes * PROBE_SECONDS)
        load = round(os.getloadavg()[0], 2)
    failures = [writer.failure for writer in writers if writer.failure]
    assert not failures, failures
    return Lags(pair, rate, {kind: spread(prober.lags, kind) for kind in KINDS}, prober.broken, load)


def _count(prober: Prober) -> int:
    return sum(lag.kind == "echo" for lag in prober.lags)
