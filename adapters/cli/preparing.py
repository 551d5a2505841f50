"""`tidelock check`, `tidelock init` and `tidelock remove`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelock.adapters.cli.failure import OK, REFUSED, CommandError
from tidelock.adapters.cli.output import print_json
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.feed_file import load

if TYPE_CHECKING:
    from tidelock.adapters.app.planned_statement import PlannedStatement
    from tidelock.adapters.ports.finding import CheckReport, Finding


def check(path: str, json: bool) -> int:
    """Prints what would keep a feed from running; returns the exit code."""
    feed = load(path)
    from tidelock.adapters.app.check import check as check_feed

    return print_check(feed.name, asyncio.run(check_feed(feed)), json)


def print_check(name: str, report: CheckReport, json: bool) -> int:
    """Prints whether a feed, or a pair, can run; returns the exit code."""
    if json:
        print_json({"ok": report.ok, "findings": report.findings})
    else:
        print_findings(report.findings)
        print(f"{name}: {'can run' if report.ok else 'cannot run'}{counted(report.findings)}")
    return OK if report.ok else REFUSED


def print_findings(findings: Sequence[Finding]) -> None:
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


def counted(findings: Sequence[Finding]) -> str:
    """Returns how many findings there are of each level."""
    counts = [(level, sum(f.level == level for f in findings)) for level in ("error", "warning", "note")]
    said = [f"{count} {level}{'s' if count > 1 else ''}" for level, count in counts if count]
    return f" ({', '.join(said)})" if said else ""


class Words(NamedTuple):
    """`nothing`: of a plan without statements.  `topics`: what happens to them."""

    nothing: str
    topics: str


def init(path: str, apply: bool, json: bool, indexes: bool = False) -> int:
    """Prints, or with `apply` runs, the statements that a feed needs; returns the exit code."""
    feed = load(path)
    return _printed(feed, _plan(feed, apply, indexes), apply, json, Words("nothing is missing", "made"))


def remove(path: str, apply: bool, json: bool) -> int:
    """Prints, or with `apply` runs, the statements that take a feed away; returns the exit code."""
    feed = load(path)
    return _printed(feed, _removal(feed, apply), apply, json, Words("nothing is left of it", "removed"))


def tell_ddl(path: str, apply: bool, json: bool, *, wanted: bool) -> int:
    """Prints, or with `apply` runs, the statements that make or drop what tells schema changes at the source; returns
    the exit code."""
    feed = load(path)
    words = Words("the event triggers are there" if wanted else "there are no event triggers", "")
    return _printed(feed, _tellers(feed, apply, wanted), apply, json, words)


def _printed(
    feed: Feed, planned: Coroutine[Any, Any, list[PlannedStatement]], apply: bool, json: bool, words: Words
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
        print_plan(feed.name, plan, apply, words)
    return OK


async def _removal(feed: Feed, apply: bool) -> list[PlannedStatement]:
    from tidelock.adapters.app.planned import take_away

    return await take_away(feed, apply)


async def _tellers(feed: Feed, apply: bool, wanted: bool) -> list[PlannedStatement]:
    from tidelock.adapters.app.planned import tell_commands

    return await tell_commands(feed, apply, wanted=wanted)


async def _plan(feed: Feed, apply: bool, indexes: bool) -> list[PlannedStatement]:
    from tidelock.adapters.app.planned import prepare

    plan = await prepare(feed, apply, indexes)
    if apply and not indexes and feed.target_url.scheme != "hive":  # its place is beside the tables, made by a run
        from tidelock.adapters.app.run import fix_start
        from tidelock.adapters.operator.first_place import found_by_time

        if (place := await fix_start(feed)) and feed.starts_at_moment:
            print(f"tidelock: {found_by_time(feed, place)}", file=sys.stderr)
    return plan


def _ended(statement: PlannedStatement) -> str:
    """Returns a statement with its end; MySQL's client would end a trigger at the first `;` in its body."""
    if statement.sql.startswith("CREATE TRIGGER") and ";" in statement.sql:  # PostgreSQL's call a function
        return f"DELIMITER //\n{statement.sql}//\nDELIMITER ;"
    return f"{statement.sql};"


def print_plan(name: str, plan: Sequence[PlannedStatement], applied: bool, words: Words) -> None:
    """Prints the statements as SQL that can be piped into a client: everything else is comments."""
    if not any(s.applied or s.administrator or s.by_start for s in plan):
        print(f"-- {name}: {words.nothing}")
    for statement in plan:
        if not (statement.left_out or statement.later) and (not applied or statement.administrator):
            who = ", by an administrator" if statement.administrator else ""
            print(f"-- {statement.side}{who}: {' '.join(statement.why.split())}")
            print(f"-- {statement.sql}\n" if statement.side == "log" else f"{_ended(statement)}\n")
    for statement in plan:
        if statement.left_out:
            print(f"-- left out: {' '.join(statement.sql.split())} of {' '.join(statement.why.split())}")
    if waiting := sum(s.later for s in plan):
        what = "indexes, checks and foreign keys"
        print(f"-- {waiting} {what} wait for the copied rows: tidelock init FEED --indexes --apply")
    if applied and plan:
        print(f"-- {name}: {_ran(plan, words)}")


def _ran(plan: Sequence[PlannedStatement], words: Words) -> str:
    """Returns how many statements ran where."""
    ran = sum(s.side == "target" and s.applied for s in plan)
    at_source = sum(s.side == "source" and not s.administrator for s in plan)
    made = sum(s.side == "log" and not s.administrator for s in plan)
    topics = f", {made} topic{'s' if made != 1 else ''} {words.topics} in Kafka" if made else ""
    source = f", {at_source} at the source" if at_source else ""
    return f"{ran} statement{'s' if ran != 1 else ''} ran at the target{source}{topics}"
