"""The counters of a worker over all lives of all groups that it ever had: they never fall."""

from __future__ import annotations

import msgspec

from tidelock.adapters.runtime.progress import Sample


class Totals(msgspec.Struct, frozen=True):
    """Counters since the worker's process started.  `fenced`: writes that a newer owner's fence rejected."""

    rows: int = 0
    retries: int = 0
    restarts: int = 0
    fenced: int = 0
    replaced: int = 0

    @classmethod
    def of(cls, sample: Sample, fenced: int = 0) -> Totals:
        """Returns those of one life of a group."""
        return cls(sample.rows_total, sample.retries_total, sample.restarts, fenced, sample.replaced_total)

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.rows + other.rows,
            self.retries + other.retries,
            self.restarts + other.restarts,
            self.fenced + other.fenced,
            self.replaced + other.replaced,
        )
