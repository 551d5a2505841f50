"""*several*: workloads side by side, whose tables nothing joins: each is a table group of its own.

One stream draws from all of them, so that a larger transaction touches several groups: what a feed over several
partitions must take apart.  Each part keeps its own model and counts its own versions.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.harness.workload.workload import Change, Workload


class Several(Workload):
    """`Several(Mix(), Churn(), Family())`: their tables must have different names."""

    def __init__(self, *parts: Workload) -> None:
        self._parts = parts
        self.name = "_".join(part.name for part in parts)
        self.specs = tuple(table for part in parts for table in part.specs)
        assert len(set(self.tables)) == len(self.tables), "two parts have a table of one name"
        super().__init__()
        for part in parts:
            part.deleted = self.deleted

    def seed(self, seed: int) -> None:
        super().seed(seed)
        for number, part in enumerate(self._parts, 1):
            part.seed(seed * 100 + number)

    def changes(self) -> Iterator[Change]:
        while True:
            yield self._parts[int(self._rng.random() * len(self._parts))].draw()
