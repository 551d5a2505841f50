"""A feed of workers as its control topic and the target's bookkeeping show it to an operator."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.former_words import share
from tidelock.adapters.operator.store import Halted
from tidelock.adapters.ports.capture_messages import Unanswered
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.group_reports import FeedState, GroupReport, Vacancy

if TYPE_CHECKING:
    from tidelock.adapters.kafka.connection import LogError
    from tidelock.adapters.kafka.control import SeenControl

Checkpoints: TypeAlias = dict[int, tuple[Position, float]]
"""Checkpoints by group: where, and how many seconds ago."""


class GroupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One group of a scaled-out feed, as its owner reported last.

    `checkpoint`, `checkpoint_seconds`: as the target has it, and how old.  `vote`: `source:number` of the statement
    that it waits before.  `hindrance`: what it tries again and again, and why.  `lag_seconds`: source time of what is
    committed, behind this machine's clock.  `report_seconds`: how old the report is, by the clocks of two machines.
    `parked`: the former name of `failed_rows`.
    """

    group: int
    worker: str = ""
    state: str = ""
    resolved: Position | None = None
    checkpoint: Position | None = None
    checkpoint_seconds: float | None = None
    lag_seconds: float | None = None
    rows: int = 0
    failed_rows: int = 0
    fenced: int = 0
    vote: str = ""
    hindrance: str = ""
    report_seconds: float | None = None
    halted: Halted | None = None
    parked: int = 0

    def __post_init__(self) -> None:
        share(self, failed_rows="parked")


class ScaleOut(msgspec.Struct, frozen=True, kw_only=True):
    """A scaled-out feed, as its control topic tells it; `unread`: why that could not be read.

    `resolved`: the least of the groups', as announced.  `checkpoint`: the feed's, that of `Status`.  `published`: the
    end of the log.  `plan`: its version.
    `hindrance`: why the source's log is not published just now, behind the end that hinders.  `vacant`: why nobody
    coordinates the feed, as the worker said that is to do it; `vacant_seconds`: how long ago.  `conductor`: the former
    name of `coordinator`.
    """

    unread: str = ""
    coordinator: str = ""
    state: str = ""
    state_seconds: float | None = None
    plan: int = 0
    resolved: Position | None = None
    checkpoint: Position | None = None
    published: Position | None = None
    lag_seconds: float | None = None
    refusal: str = ""
    hindrance: str = ""
    vacant: str = ""
    vacant_seconds: float | None = None
    groups: tuple[GroupStatus, ...] = ()
    prepared: Unanswered = Unanswered()
    conductor: str = ""

    def __post_init__(self) -> None:
        share(self, coordinator="conductor")


async def log_of(feed: Feed) -> SeenControl | LogError:
    """Returns what the control topic says, or why it could not be read."""
    from tidelock.adapters.kafka import control
    from tidelock.adapters.kafka.connection import LogError

    try:
        return await control.read(feed)
    except LogError as error:
        return error


def unbegun(log: SeenControl | LogError | None, stored: Checkpoints) -> Checkpoints:
    """Returns the places where groups of the plan begin that have stored no checkpoint yet."""
    plan = getattr(log, "plan", None)
    return {group: (since, 0.0) for group, since in enumerate(plan.since) if group not in stored} if plan else {}


def least(places: Checkpoints) -> tuple[Position, float] | None:
    """Returns the feed's checkpoint: the least of its groups', as the target has them."""
    return min(places.values(), key=lambda place: place[0].order, default=None)


def scale_out(
    seen: SeenControl | LogError,
    checkpoints: Checkpoints,
    halts: dict[int, Halted],
    feed: tuple[Position, float] | None,
) -> ScaleOut:
    """Returns what the control topic tells of the feed.  `feed`: its checkpoint."""
    if isinstance(seen, Exception):
        return ScaleOut(unread=str(seen), groups=_groups({}, {}, checkpoints, halts))
    groups = _groups(seen.groups, seen.vacancies, checkpoints, halts)
    lags = [group.lag_seconds for group in groups]
    told = ScaleOut(plan=seen.plan.version if seen.plan else 0, groups=groups)
    if vacancy := _vacancy(seen.vacancies, "feed", seen.state):
        told = msgspec.structs.replace(told, vacant=vacancy.why, vacant_seconds=_seconds_since(vacancy.at_us))
    if seen.state is None:
        return told
    return msgspec.structs.replace(
        told,
        coordinator=seen.state.worker,
        state=seen.state.state,
        state_seconds=_seconds_since(seen.state.at_us),
        resolved=seen.state.resolved,
        checkpoint=feed[0] if feed else None,
        published=seen.state.published,
        lag_seconds=None if None in lags else max((lag for lag in lags if lag is not None), default=None),
        refusal=seen.state.refusal,
        hindrance=seen.state.hindrance,
        prepared=Unanswered(seen.state.prepared, seen.state.prepared_since),
    )


def _vacancy(
    vacancies: dict[str, Vacancy], part: str, report: FeedState | GroupReport | None
) -> Vacancy | None:
    """Returns why a part of the feed has nobody; None where somebody has reported of it since, or nobody has said."""
    found = vacancies.get(part)
    if found is None or not found.why or (report is not None and report.at_us > found.at_us):
        return None
    return found


def _groups(
    reports: dict[int, GroupReport], vacancies: dict[str, Vacancy], checkpoints: Checkpoints, halts: dict[int, Halted]
) -> tuple[GroupStatus, ...]:
    groups = {
        group: _group(group, reports.get(group), checkpoints.get(group), halts.get(group))
        for group in sorted({**reports, **checkpoints})
    }
    for group, told in groups.items():
        if vacancy := _vacancy(vacancies, str(group), reports.get(group)):
            groups[group] = msgspec.structs.replace(
                told,
                worker=vacancy.worker,
                state="halted" if told.halted else "starting",
                hindrance=vacancy.why,
                report_seconds=_seconds_since(vacancy.at_us),
            )
    return tuple(groups.values())


def _group(
    group: int, report: GroupReport | None, place: tuple[Position, float] | None, halted: Halted | None
) -> GroupStatus:
    stored = GroupStatus(
        group=group,
        checkpoint=place[0] if place else None,
        checkpoint_seconds=place[1] if place else None,
        halted=halted,
    )
    if report is None:
        return stored
    return msgspec.structs.replace(
        stored,
        worker=report.worker,
        state=_group_state(report.state, halted),
        resolved=report.resolved,
        lag_seconds=_seconds_since(report.end_us),
        rows=report.rows,
        failed_rows=report.parked,
        fenced=report.fenced,
        vote=f"{report.vote.source}:{report.vote.number}" if report.vote else "",
        hindrance=report.hindrance,
        report_seconds=_seconds_since(report.at_us),
    )


def _group_state(told: str, halted: Halted | None) -> str:
    """Returns the state of a group: whether it is halted is what the target says, where an operator ends a halt."""
    if halted is not None:
        return "halted"
    return "starting" if told == "halted" else told


def _seconds_since(us: int) -> float | None:
    return max(0.0, time.time() - us / 1e6) if us else None
