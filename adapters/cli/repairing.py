"""`tidelock repair`: asks the feed to write rows again that a report of verify lists, and shows how far it is."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from tidelock.adapters.cli.failure import OK, OPERATOR, REFUSED, USAGE, CommandError
from tidelock.adapters.cli.output import print_json, print_table
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.feed_file import load
from tidelock.adapters.operator import feed_control

if TYPE_CHECKING:
    from tidelock.adapters.app.repair import Left, RepairProgress, Work

POLL_SECONDS = 0.5


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of the command.  `statements`: of a dry run."""

    feed: str
    tables: Sequence[RepairProgress] = ()
    left: Sequence[Left] = ()
    statements: Sequence[str] = ()
    notes: Sequence[str] = ()


def repair(
    path: str, report: str, tables: Sequence[str], dry_run: bool, yes: bool, wait: float, json: bool
) -> int:
    """Queues rows of a report for repair and shows their progress; returns the exit code."""
    feed = load(path)
    if feed.target_url.scheme == "hive":
        raise CommandError(f"{path}: a Hive target has no `tidelock repair`")
    from tidelock.adapters.app.repair import work_of
    from tidelock.adapters.verify.report import read_report

    with _refusals():
        work = asyncio.run(work_of(feed, read_report(report, feed), tables))
    if dry_run:
        return _dry_run(feed, work, tables, wait, json)
    return _carry_out(feed, work, yes, wait, json)


def take_source(
    path: str, ids: Sequence[str], table: str, everything: bool, yes: bool, wait: float, json: bool
) -> int:
    """Queues the rows of failed changes for repair and shows their progress; returns the exit code."""
    if bool(ids) + bool(table) + everything != 1:
        raise CommandError("Say which rows to take from the source: their ids, --table db.table, or --all")
    feed = load(path)
    if feed.target_url.scheme == "hive":
        raise CommandError(f"{path}: a Hive target has no failed rows")
    from tidelock.adapters.app.take_source import work_of

    with _refusals():
        work = asyncio.run(work_of(feed, ids, table))
    return _carry_out(feed, work, yes, wait, json)


def _carry_out(feed: Feed, work: Work, yes: bool, wait: float, json: bool) -> int:
    from tidelock.adapters.app.repair import ask

    if work.rows:
        if not yes:
            _confirm(feed, work)
        asyncio.run(ask(feed, work))
    seen = asyncio.run(_watched(feed, work, wait, json)) if work.rows else []
    return _told(feed, work, seen, json)


@contextmanager
def _refusals() -> Iterator[None]:
    from tidelock.adapters.ports.target_inspection import CannotRun

    try:
        yield
    except CannotRun as refused:
        raise CommandError(refused.finding.message, refused.finding.hint, REFUSED) from None


def _confirm(feed: Feed, work: Work) -> None:
    tables = ", ".join(f"{part.table} ({len(part.keys):,})" for part in work.parts)
    said = f"{work.rows:,} rows at {feed.target_url} are replaced by the source's: {tables}"
    if not sys.stdin.isatty():
        raise CommandError(said, "Say --yes if that is meant, or look first with --dry-run", USAGE)
    print(f"{said}.")
    if input("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise CommandError("Nothing was asked for", exit_code=REFUSED)


def _dry_run(feed: Feed, work: Work, tables: Sequence[str], wait: float, json: bool) -> int:
    from tidelock.adapters.cli.termination import terminated
    from tidelock.adapters.cli.verifying import Screen
    from tidelock.adapters.verify.plan import plan
    from tidelock.adapters.verify.repair_sql import repair_statements

    statements, notes = list[str](), list(work.notes)
    if work.rows:
        with _refusals(), terminated(), Screen(feed.name, sys.stderr.isatty() and not json, True) as screen:
            made = asyncio.run(plan(feed, tables, {part.table: part.keys for part in work.parts}))
            statements, note = repair_statements(feed, made, wait, screen)
        notes += [note] if note else []
    if json:
        print_json(Told(feed=feed.name, left=work.left, statements=statements, notes=notes))
        return OK
    print(f"-- {feed.name}: statements for these rows as they are now. `repair` itself has the feed read them again.")
    for note in (*notes, *(f"{left.table}: {left.why}" for left in work.left)):
        print(f"-- {note}")
    for statement in statements:
        print(statement)
    return OK


async def _watched(feed: Feed, work: Work, wait: float, json: bool) -> list[RepairProgress]:
    """Shows progress until all rows are repaired or refused, or nothing has happened for `wait` seconds."""
    from tidelock.adapters.app.repair import progress_of

    seen: list[RepairProgress] = []
    last = time.monotonic()
    said = ""
    while True:
        now = await progress_of(feed, work)
        if now != seen:
            last = time.monotonic()
            for part in now:
                if not json and part not in seen:
                    print(f"{feed.name}: {part.table}: {_line(part)}", flush=True)
        seen = now
        if all(part.ended for part in seen) or time.monotonic() - last > wait:
            return seen
        idle = await _idle(feed)
        if idle and idle != said and not json:
            said = idle
            print(f"{feed.name}: {idle}", flush=True)
        await asyncio.sleep(POLL_SECONDS)


def _line(part: RepairProgress) -> str:
    words = {"waiting": "queued for repair", "reading": "being read again", "lost": "not repaired"}
    return f"{part.rows:,} rows {words.get(part.state, _state(part))}{f': {part.why}' if part.why else ''}"


def _state(part: RepairProgress) -> str:
    return f"{part.state}, but for {len(part.unrepaired):,}" if part.unrepaired else part.state


async def _idle(feed: Feed) -> str:
    """Returns why nothing will happen, where the bookkeeping says so, or ''."""
    async with feed_control.books(feed) as book:
        owners = (await book.owners()).values()
    if halted := next((owner.halted for owner in owners if owner.halted), None):
        return f"the feed is halted: {halted.alarm}"
    if any(owner.desired_state == "paused" for owner in owners):
        return "the feed is paused: `tidelock resume` lets it go on"
    return await feed_control.nobody_runs(feed)


def _told(feed: Feed, work: Work, seen: Sequence[RepairProgress], json: bool) -> int:
    open_ = [part for part in seen if not part.ended]
    failed = [part for part in seen if part.state in ("refused", "lost") or part.unrepaired]
    if json:
        print_json(Told(feed=feed.name, tables=seen, left=work.left, notes=work.notes))
        return OPERATOR if open_ or failed or work.left else OK
    if seen:
        print()
        print_table(("table", "rows", "state"), [(part.table, f"{part.rows:,}", _state(part)) for part in seen])
    elif not work.left:
        print(f"{feed.name}: nothing to repair")
    for part in seen:
        for row in part.unrepaired:
            print(f"{part.table}: {row.key} stays as it is: {row.why}")
    for left in work.left:
        print(f"{left.table}: {left.rows:,} rows are left: {left.why}")
    for note in work.notes:
        print(f"Note: {note}")
    if open_:
        print(
            f"{feed.name}: not all is done. What was asked for stays: a feed that runs does it by itself "
            "(`tidelock run`, `tidelock status`)"
        )
    return OPERATOR if open_ or failed or work.left else OK
