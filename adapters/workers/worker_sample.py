"""A worker's sample: those of its groups together, beside what the coordinator reported of the feed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tidelock.adapters.ports.capture_messages import Unanswered
from tidelock.adapters.runtime.progress import RunState, Sample
from tidelock.adapters.runtime.sampler import Silent
from tidelock.adapters.workers.group import GroupRunner
from tidelock.adapters.workers.totals import Totals
from tidelock.engine.protocol.group_reports import FeedState

TELLS_SECONDS: Final = 6.0  # of its own accord the coordinator speaks every five seconds
_FORGOTTEN_SECONDS: Final = 20.0  # a prepared transaction that was reported before may be gone


class Reported(msgspec.Struct, frozen=True):
    """The feed's `state` as the coordinator told it last, and the seconds since it said anything, or, where `heard` is
    False, since this worker began."""

    state: FeedState | None
    seconds: float
    heard: bool

    @property
    def alarm(self) -> str:
        """Returns why the feed has halted."""
        return str(self.state.alarm) if self.state is not None and self.state.alarm is not None else ""

    def silent(self, target_seconds: float) -> Silent:
        """Returns how long the source has been silent; a coordinator that has halted says no more."""
        if self.alarm:
            return Silent(0.0, target_seconds)
        silent = self.state.silent_seconds if self.state is not None else None
        return Silent(silent + self.seconds if silent else 0.0, target_seconds, max(0.0, self.seconds - TELLS_SECONDS))

    @property
    def prepared(self) -> Unanswered:
        """Returns the prepared transaction that was reported, unless that was long ago."""
        if self.state is None or not self.heard or self.seconds > _FORGOTTEN_SECONDS:
            return Unanswered()
        return Unanswered(self.state.prepared, self.state.prepared_since)


def sample_of(groups: Mapping[int, GroupRunner], totals: Totals, reported: Reported, bare: RunState) -> Sample:
    """Returns the sample.  `bare`: the state of a worker that has no groups."""
    samples = [group.latest for group in groups.values()]
    alarms = [f"group {number}: {group.latest.alarm}" for number, group in groups.items() if group.latest.alarm]
    alarm = "; ".join([reported.alarm, *alarms] if reported.alarm else alarms) or None
    return Sample(
        state=_state(samples, bare) if alarm is None else "halted",
        alarm=alarm,
        rows_total=totals.rows,
        rows_per_second=sum(s.rows_per_second for s in samples),
        lag_seconds=max((s.lag_seconds for s in samples if s.lag_seconds is not None), default=None),
        lanes=tuple(rows for s in samples for rows in s.lanes),
        failed_rows=sum(s.failed_rows for s in samples),
        retries_total=totals.retries,
        replaced_total=totals.replaced,
        restarts=totals.restarts,
        copies=tuple(one for s in samples for one in s.copies),
        hindrances=tuple(one for s in samples for one in s.hindrances),
        fenced_total=totals.fenced,
        prepared=reported.prepared.xid,
        prepared_seconds=reported.prepared.seconds,
    )


def _state(samples: Sequence[Sample], bare: RunState) -> RunState:
    """Returns the state in one word: what needs somebody first."""
    states = {sample.state for sample in samples}
    first: tuple[RunState, ...] = ("starting", "draining", "paused")
    return next((state for state in first if states == {state}), "running") if states else bare
