"""Partitions of the plan of which no worker has ever said anything: Kafka's group has given them to nobody.

A topic is widened when the first plan is made, or a later one has more partitions.  Kafka's client notices that alone
in the member that leads the group, and asks for a new sharing out.  By its code a static member that was killed and
came back is not told that it leads, so where that was the leader nobody asks; two of three partitions were seen without
a worker for minutes.  So each worker asks, once it has seen such a partition for a while.  The broker takes it from the
member that leads, and answers the others with what they have.
"""

from __future__ import annotations

from collections.abc import Collection

from tidelock.adapters.workers.silence import Silence
from tidelock.engine.model.table_partitioning import TablePartitioning


class Unowned:
    """Counts how long a partition of the plan lacks an owner."""

    def __init__(self) -> None:
        self._silence = Silence()

    def tick(
        self, seconds: float, plan: TablePartitioning | None, reported: Collection[int], own: Collection[int]
    ) -> bool:
        """Counts `seconds` more; returns whether to ask for a new sharing out now.  `reported`: groups of which a
        worker has told.  `own`: ours, of which we shall tell."""
        lacks = plan is not None and any(n not in reported and n not in own for n in range(plan.partitions))
        return self._silence.tick(seconds, lacks)
