"""The comparisons that are kept: named sets of setups, each with the ratio that must come out.

In a suite the first setup of each group is the one that the others are held against.  `together`: all workloads are one
group, run in turn; otherwise each workload is a group of its own, measured before the next begins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from bench.e2e.setup import SERIAL, SOURCES, TARGETS, Setup
from bench.harness.workload.named import NAMED

BATCH: Final = (("batch_rows", 500),)
ONE_ROW: Final = (("batch_rows", 1),)
BETWEEN: Final = (("postgres", "postgres"), ("mariadb", "postgres"), ("mariadb", "mariadb"))
"""Pairs of source and target between which two ways are measured."""
FAR_MS: Final = 10.0
OTHERS: Final = tuple(name for name in NAMED if name not in ("plain", "toast"))


@dataclasses.dataclass(frozen=True)
class Suite:
    """`goal`: every later setup must reach so many times the rate of its group's first; 0.0: nothing is asked.

    `by_pair`: each pair of servers is a group of its own.
    `changes`, `rounds`: what a short run takes, a few minutes on two processors.
    """

    question: str
    setups: tuple[Setup, ...]
    goal: float = 0.0
    together: bool = False
    by_pair: bool = False
    changes: int = 60_000
    rounds: int = 3


SUITES: Final[Mapping[str, Suite]] = {
    "short": Suite("Is the rate what it was?", (Setup("mix"), Setup("churn")), changes=100_000, rounds=1),
    "pairs": Suite(
        "How fast is each pair of source and target?",
        tuple(
            Setup(workload, source, target) for workload in ("mix", "churn") for source in SOURCES for target in TARGETS
        ),
        changes=100_000,
        rounds=2,
    ),
    "matrix": Suite(
        "Does every workload pass between every pair, and at what rate?",
        tuple(Setup(workload, source, target) for workload in OTHERS for source in SOURCES for target in TARGETS),
        changes=40_000,
        rounds=1,
    ),
    "lanes": Suite(
        "Do lanes cost anything where they cannot pay, on one machine?",
        tuple(Setup(workload, lanes=lanes, settings=BATCH) for workload in OTHERS for lanes in (1, 8)),
        goal=0.9,
    ),
    "curve": Suite(
        "What do 1 to 16 lanes bring, near and far?",
        tuple(
            Setup("mix", lanes=lanes, settings=BATCH, delay_ms=delay_ms)
            for delay_ms in (0.0, FAR_MS)
            for lanes in (1, 2, 4, 8, 16)
        ),
        changes=200_000,
        rounds=5,
    ),
    "far": Suite(
        "Do lanes pay where a commit must be waited for?",
        tuple(Setup("mix", lanes=lanes, settings=BATCH, delay_ms=FAR_MS) for lanes in (1, 8)),
        goal=1.3,
        changes=100_000,
    ),
    "unique": Suite(
        "What does a secondary unique key cost?",
        (Setup("plain"), Setup("mix")),
        goal=0.85,
        together=True,
        changes=400_000,
        rounds=9,
    ),
    "hot": Suite(
        "What is merging worth where ten rows take all changes?",
        (Setup("hot", lanes=1, consistency="transaction", system=SERIAL), Setup("hot")),
        goal=10.0,
        changes=200_000,
    ),
    "sites": Suite(
        "What do sites cost: paths, marks, receipts with messages?",
        tuple(Setup("mix", source, target, two_way=two_way) for source, target in BETWEEN for two_way in ("", "sites")),
        goal=0.97,
        by_pair=True,
        changes=200_000,
        rounds=5,
    ),
    "arbiter": Suite(
        "What does an arbiter cost, where nothing is in conflict?",
        tuple(
            Setup("mix", source, target, two_way=two_way)
            for source, target in BETWEEN
            for two_way in ("sites", "up", "down")
        ),
        by_pair=True,
        changes=200_000,
        rounds=5,
    ),
    "marks": Suite(
        "How many bytes does a marked batch take in the target's log?",
        tuple(
            Setup("small", source, target, lanes=1, settings=ONE_ROW, two_way=two_way)
            for source, target in BETWEEN
            for two_way in ("", "sites")
        ),
        by_pair=True,
        changes=4_000,
        rounds=3,
    ),
    "modes": Suite(
        "What do source transactions as units cost, and waiting for the disk?",
        tuple(
            Setup(workload, consistency=consistency, commit=commit)
            for workload in ("mix", "churn")
            for commit in ("async", "sync")
            for consistency in ("row", "transaction")
        ),
        changes=400_000,
        rounds=5,
    ),
}
