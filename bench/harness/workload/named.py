"""The workloads that benchmarks are run with, by name.

*mix* and *churn* are here as the recorded figures of other tools have them: one unique key, no version column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from bench.harness.workload.churn import Churn
from bench.harness.workload.hot import Hot
from bench.harness.workload.mix import Mix
from bench.harness.workload.oltp import Oltp
from bench.harness.workload.plain import Plain
from bench.harness.workload.sizes import Huge, Small
from bench.harness.workload.toast import Toast
from bench.harness.workload.wide import Wide
from bench.harness.workload.workload import Workload

HEAVY: Final[Mapping[str, int]] = {"wide": 10, "toast": 10}
"""How many of another workload's changes one of these is worth, in bytes: a run makes so many fewer of them."""
NAMED: Final[Mapping[str, Callable[[], Workload]]] = {
    "mix": partial(Mix, peers=True),
    "churn": partial(Churn, peers=True),
    "plain": partial(Plain, peers=True),
    "hot": Hot,
    "wide": Wide,
    "small": partial(Small, peers=True),
    "huge": partial(Huge, peers=True),
    "oltp": Oltp,
    "toast": Toast,
}
