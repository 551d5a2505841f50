"""`tidelock check`, `tidelock init` and `tidelock remove`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelock.adapters.cli.failure import OK, REFUSED, CommandError
from tidelock.adapters.cli.output import print_json
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import load

if TYPE_CHECKING:
    from tidelock.adapters.app.init_plan import PlannedStatement
    from tidelock.adapters.ports.finding import Finding


def check(path: str, json: bool) -> int:
    """Prints what would keep a feed from running; returns the exit code."""
    feed = load(path)
    from tidelock.adapters.app.check import check as check_feed

    report = asyncio.run(check_feed(feed))
    if json:
        print_json({"ok": report.ok, "findings": report.findings})
    else:
        _print_findings(report.findings)
        print(f"{feed.name}: {'can run' if report.ok else 'cannot run'}{_counted(report.findings)}")
    return OK if report.ok else REFUSED


def _print_findings(findings: Sequence[Finding]) -> None:
    """Prints findings.  A hint has lines of its own: it often is a statement to copy."""
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    for finding in findings:
        colour = {"error": "red", "warning": "yellow"}.get(finding.level, "cyan")
        console.print(Text.assemble((f"{finding.level:<7}", colour), f"  {finding.message}"), highlight=False)
        for line in finding.hint.splitlines():
            console.print(Text(f"{'':9}{line}"), highlight=False)
        console.print()


def _counted(findings: Sequence[Finding]) -> str:
    counts = [(level, sum(f.level == level for f in findings)) for level in ("error", "warning", "note")]
    said = [f"{count} {level}{'s' if count > 1 else ''}" for level, count in counts if count]
    return f" ({', '.join(said)})" if said else ""


class _Words(NamedTuple):
    """`nothing`: of a plan without statements.  `topics`: what happens to them."""

    nothing: str
    topics: str


def init(path: str, apply: bool, json: bool) -> int:
    """Prints, or with `apply` runs, the statements that a feed needs; returns the exit code."""
    feed = load(path)
    return _printed(feed, _plan(feed, apply), apply, json, _Words("nothing is missing", "made"))


def remove(path: str, apply: bool, json: bool) -> int:
    """Prints, or with `apply` runs, the statements that take a feed away; returns the exit code."""
    feed = load(path)
    return _printed(feed, _removal(feed, apply), apply, json, _Words("nothing is left of it", "removed"))


def _printed(
    feed: Feed, planned: Coroutine[Any, Any, list[PlannedStatement]], apply: bool, json: bool, words: _Words
) -> int:
    try:
        plan = asyncio.run(planned)
    except Exception as error:
        refused = getattr(error, "finding", None)
        if refused is None:
            raise
        raise CommandError(refused.message, refused.hint, REFUSED) from None
    if json:
        print_json({"applied": apply, "statements": plan})
    else:
        _print_plan(feed, plan, apply, words)
    return OK


async def _removal(feed: Feed, apply: bool) -> list[PlannedStatement]:
    from tidelock.adapters.app.removal import removal_plan

    plan = await removal_plan(feed)
    if apply:
        await _apply_source(feed, [s for s in plan if s.side == "source" and _applied(s)])
        if any(s.side == "log" for s in plan):
            from tidelock.adapters.kafka.removal import remove as remove_topics

            await remove_topics(feed.log_url, feed.name)
        await _apply(feed, [s for s in plan if s.side == "target" and _applied(s)])
    return plan


async def _plan(feed: Feed, apply: bool) -> list[PlannedStatement]:
    from tidelock.adapters.app.init_plan import init_plan

    plan = await init_plan(feed)
    if apply:
        from tidelock.adapters.app.run import fix_start

        await _apply_source(feed, [s for s in plan if s.side == "source" and _applied(s)])
        await _apply(feed, [s for s in plan if s.side == "target" and _applied(s)])
        await _make_topics(feed, plan)
        if feed.target_url.scheme != "hive":  # its place is beside the tables, made by a run
            await fix_start(feed)
    return plan


def _applied(statement: PlannedStatement) -> bool:
    return not (statement.administrator or statement.by_start)


async def _apply_source(feed: Feed, statements: Sequence[PlannedStatement]) -> None:
    """Runs statements at the source.  Raises CommandError."""
    if not statements:
        return
    from tidelock.adapters.checks.inspection import source_inspected
    from tidelock.adapters.ports.source_errors import SourceError

    async with source_inspected(feed) as source:
        for number, statement in enumerate(statements):
            try:
                await source.execute(statement.sql)
            except SourceError as error:
                raise _failed(statement, error, number, len(statements)) from None


async def _apply(feed: Feed, statements: Sequence[PlannedStatement]) -> None:
    """Runs statements one after another.  A failure names its statement; those before it stay.  Raises CommandError."""
    if not statements:
        return
    from tidelock.adapters.ports.sink import TargetError
    from tidelock.adapters.wiring.session import session

    async with session(feed.target_url) as target:
        for number, statement in enumerate(statements):
            try:
                await target.execute(statement.sql)
            except TargetError as error:
                raise _failed(statement, error, number, len(statements)) from None


def _failed(statement: PlannedStatement, error: Exception, number: int, all: int) -> CommandError:
    return CommandError(
        f"{error} at `{' '.join(statement.sql.split())}` ({statement.why})",
        f"{number} of {all} statements ran and stay; correct this one and run it again",
        REFUSED,
    )


async def _make_topics(feed: Feed, plan: Sequence[PlannedStatement]) -> None:
    """Makes topics in Kafka.  Raises LogError."""
    if any(s.side == "log" and not s.administrator for s in plan):
        from tidelock.adapters.checks.log import first_partitions
        from tidelock.adapters.kafka.topics import ensure

        await ensure(feed.log_url, feed.name, first_partitions(feed))


def _ended(feed: Feed, statement: PlannedStatement) -> str:
    """Returns a statement with its end; MySQL's client would end a trigger at the first `;` in its body."""
    place = feed.source_url if statement.side == "source" else feed.target_url
    if place.dialect == "mysql" and statement.sql.startswith("CREATE TRIGGER"):
        return f"DELIMITER //\n{statement.sql}//\nDELIMITER ;"
    return f"{statement.sql};"


def _print_plan(feed: Feed, plan: Sequence[PlannedStatement], applied: bool, words: _Words) -> None:
    """Prints the statements as SQL that can be piped into a client: everything else is comments."""
    if not plan:
        print(f"-- {feed.name}: {words.nothing}")
    for statement in plan:
        if not applied or statement.administrator:
            who = ", by an administrator" if statement.administrator else ""
            print(f"-- {statement.side}{who}: {' '.join(statement.why.split())}")
            print(f"-- {statement.sql}\n" if statement.side == "log" else f"{_ended(feed, statement)}\n")
    if applied and plan:
        ran = sum(s.side == "target" and _applied(s) for s in plan)
        at_source = sum(s.side == "source" and not s.administrator for s in plan)
        made = sum(s.side == "log" and not s.administrator for s in plan)
        topics = f", {made} topic{'s' if made != 1 else ''} {words.topics} in Kafka" if made else ""
        source = f", {at_source} at the source" if at_source else ""
        print(f"-- {feed.name}: {ran} statement{'s' if ran != 1 else ''} ran at the target{source}{topics}")
