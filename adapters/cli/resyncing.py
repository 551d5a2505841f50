"""`tidelock resync`: moves a feed past what it cannot read, together with a copy of its tables."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelock.adapters.cli.failure import OK, REFUSED, CommandError
from tidelock.adapters.cli.output import print_json
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.feed_file import load
from tidelock.adapters.process.way_out import FILL_ANEW

if TYPE_CHECKING:
    from tidelock.adapters.app.resync import Resync


def resync(path: str, tables: Sequence[str], yes: bool, json: bool) -> int:
    """Moves the feed after a confirmation; returns the exit code."""
    feed = load(path)
    _refuse_others(path, feed, tables)
    from tidelock.adapters.app.resync import begin, plan
    from tidelock.adapters.ports.target_inspection import CannotRun

    try:
        planned = asyncio.run(plan(feed, lambda said: print(f"{feed.name}: {said}", file=sys.stderr)))
    except CannotRun as refused:
        raise CommandError(refused.finding.message, refused.finding.hint, REFUSED) from None
    if not yes:
        _confirm(feed, planned)
    asyncio.run(begin(feed, planned))
    _tell(path, feed, planned, json)
    return OK


def _refuse_others(path: str, feed: Feed, tables: Sequence[str]) -> None:
    if feed.target_url.scheme == "hive":
        raise CommandError(f"{path}: a Hive target has no `tidelock resync` yet", f"Instead {FILL_ANEW}")
    if tables:
        raise CommandError(
            "--table: what the feed cannot read may hold changes of any of its tables",
            f"`tidelock resync {path}` copies them all; where it is only about rows of a table that the feed can read, "
            "`tidelock copy --table` does without moving it",
        )


def _confirm(feed: Feed, planned: Resync) -> None:
    names = ", ".join(map(str, planned.tables))
    said = (
        f"The feed {feed.name} goes on at {planned.place}, and what {feed.target_url} holds of {names} is replaced by "
        "the source's rows"
    )
    if not sys.stdin.isatty():
        raise CommandError(said, "Say --yes if that is meant")
    print(f"{said}.")
    if input("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise CommandError("Nothing was done", exit_code=REFUSED)


def _tell(path: str, feed: Feed, planned: Resync, json: bool) -> None:
    if json:
        print_json({"feed": feed.name, **_facts(planned)})
        return
    if planned.halted:
        print(f"{feed.name}: it was halted: {planned.halted}")
    before = f", after {planned.before}" if planned.before else ""
    count = len(planned.tables)
    print(f"{feed.name}: goes on at {planned.place}{before}")
    does = "run" if feed.log_url is None else "worker"
    print(f"{feed.name}: {count} table{'s' if count > 1 else ''} to be copied first: `tidelock {does} {path}` does it")
    for name in planned.left:
        print(
            f"{feed.name}: {name} stays as it is, as no table at the source becomes it: drop it if it was dropped there"
        )


def _facts(planned: Resync) -> dict[str, object]:
    return {
        "place": str(planned.place),
        "before": str(planned.before) if planned.before else None,
        "halted": planned.halted or None,
        "tables": [str(name) for name in planned.tables],
        "left": [str(name) for name in planned.left],
    }
