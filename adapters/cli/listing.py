"""`tidelock feeds`: all feeds of a target."""

from __future__ import annotations

import asyncio

from tidelock.adapters.cli.failure import OK, OPERATOR
from tidelock.adapters.cli.output import print_json, print_table, span
from tidelock.adapters.config.feed_file import load
from tidelock.adapters.operator.feeds import ListedFeed
from tidelock.adapters.operator.feeds import feeds as feeds_of

_COLUMNS = ("feed", "state", "where", "lag", "checkpoint", "saved", "failed rows", "halt")


def feeds(path: str, json: bool) -> int:
    """Prints the feeds; returns the exit code."""
    found = asyncio.run(feeds_of(load(path)))
    if json:
        print_json(found)
    else:
        print_table(_COLUMNS, [_cells(one) for one in found])
    return OPERATOR if any(one.needs_operator for one in found) else OK


def _cells(one: ListedFeed) -> tuple[str, ...]:
    state = one.activity or f"{one.groups} groups over Kafka: see `tidelock status`"
    return (
        one.feed,
        f"{state}, paused" if one.desired_state == "paused" else state,
        f"{one.run.host}, process {one.run.pid}" if one.run is not None and one.activity == "running" else "",
        "" if one.lag_seconds is None else f"{one.lag_seconds:.1f} s",
        str(one.checkpoint or ""),
        "" if one.checkpoint_seconds is None else f"{span(one.checkpoint_seconds)} ago",
        f"{one.failed_rows:,}" if one.failed_rows else "",
        str(one.halted.alarm) if one.halted is not None else "",
    )
