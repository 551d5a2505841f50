"""Progress of the groups of a scaled-out feed, as their owners report it.

Only the newest owner of a group counts: an older one may still report, and what it says of its vote is worth nothing.
A group that has never reported stands where its partition begins, and holds the whole feed there.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelock.engine.model.records import Position
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.group_reports import GroupReport, Statement


class GroupProgress:
    """The newest report of each group."""

    def __init__(self, reports: Iterable[GroupReport] = ()) -> None:
        self._newest: dict[int, GroupReport] = {}
        for report in reports:
            self.observe(report)

    def observe(self, report: GroupReport) -> None:
        """Takes a report, unless a newer owner of the group has reported."""
        known = self._newest.get(report.group)
        if known is None or report.epoch >= known.epoch:
            self._newest[report.group] = report

    @property
    def newest(self) -> tuple[GroupReport, ...]:
        """The newest report of each group that has one."""
        return tuple(self._newest.values())

    def votes(self, plan: TablePartitioning, statement: Statement) -> dict[int, int] | None:
        """The votes, group to epoch, once every group of the plan votes for exactly this statement; else None."""
        reports = [self._newest.get(group) for group in range(plan.partitions)]
        votes = {report.group: report.epoch for report in reports if report and report.vote == statement}
        return votes if len(votes) == plan.partitions else None

    def resolved(self, plan: TablePartitioning) -> Position:
        """The least of the groups' resolved positions: everything up to it is committed."""
        return _least([r.resolved if (r := self._newest.get(g)) else plan.since[g] for g in range(plan.partitions)])

    def checkpoint(self, plan: TablePartitioning) -> Position:
        """The least of the groups' checkpoints: everything up to it is committed and stored for good."""
        return _least([r.checkpoint if (r := self._newest.get(g)) else plan.since[g] for g in range(plan.partitions)])

    def parked(self, group: int) -> int:
        """Number of rows now parked in the group."""
        return r.parked if (r := self._newest.get(group)) else 0

    def sealed(self, plan: TablePartitioning, end: Position) -> bool:
        """True if every group's checkpoint is at or past `end`."""
        return self.checkpoint(plan).order >= end.order


def _least(positions: Iterable[Position]) -> Position:
    return min(positions, key=lambda position: position.order)
