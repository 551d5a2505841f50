"""Runs the statements that `init` and `remove` have planned, those that the feed's own users may run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tidelock.adapters.app.init_plan import init_plan
from tidelock.adapters.app.planned_statement import PlannedStatement
from tidelock.adapters.app.removal import removal_plan
from tidelock.adapters.checks.inspection import source_inspected
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.feed_control import nobody_runs
from tidelock.adapters.ports.finding import error
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.ports.target_inspection import CannotRun
from tidelock.adapters.wiring.session import session


class StatementFailed(Exception):
    """A planned statement was refused; those before it have run and stay."""

    exit_code = 1

    def __init__(self, statement: PlannedStatement, error: Exception, number: int, all: int) -> None:
        super().__init__(f"{error} at `{' '.join(statement.sql.split())}` ({statement.why})")
        self.hint = f"{number} of {all} statements ran and stay; correct this one and run it again"


async def prepare(feed: Feed, apply: bool, indexes: bool = False) -> list[PlannedStatement]:
    """Returns what a feed needs before its first run, and with `apply` makes it, but for the place to begin at.
    `indexes`: plain indexes, checks and foreign keys of all tables, those that are there too.

    Raises CannotRun, StatementFailed, SourceError, TargetError, LogError.
    """
    plan = await init_plan(feed, indexes)
    if apply:
        await _require_stopped(feed, plan)
        await _at_source(feed, [s for s in plan if s.side == "source" and s.applied])
        await _at_target(feed, [s for s in plan if s.side == "target" and s.applied])
        await _make_topics(feed, plan)
    return plan


async def _require_stopped(feed: Feed, plan: Sequence[PlannedStatement]) -> None:
    """Raises CannotRun where the feed runs and a statement is one that it would not learn of: it orders changes by the
    foreign keys that were there when it started."""
    keys = [statement for statement in plan if statement.stopped]
    if keys and not await nobody_runs(feed):
        raise CannotRun(
            error(
                "target-foreign-keys",
                f"{len(keys)} foreign keys are to be added at the target, and {feed.name} runs: it orders changes by "
                "the keys that were there when it started",
                f"Stop {feed.name}, `tidelock init {feed.name}.yaml --indexes --apply`, then start it again",
            )
        )


async def take_away(feed: Feed, apply: bool) -> list[PlannedStatement]:
    """Returns what undoes a feed, and with `apply` does it.  Raises as `prepare` does."""
    plan = await removal_plan(feed)
    if apply:
        await _at_source(feed, [s for s in plan if s.side == "source" and s.applied])
        if any(s.side == "log" for s in plan):
            from tidelock.adapters.kafka.removal import remove as remove_topics

            await remove_topics(feed.log_url, feed.name)
        await _at_target(feed, [s for s in plan if s.side == "target" and s.applied])
    return plan


async def tell_commands(feed: Feed, apply: bool, *, wanted: bool) -> list[PlannedStatement]:
    """Returns what makes, or drops, that which tells schema changes at the source, and with `apply` does it.  Raises
    CannotRun, StatementFailed, SourceError."""
    async with source_inspected(feed) as source:
        needed = await source.tellers(wanted=wanted)
    plan = [PlannedStatement("source", one.sql, one.why, one.administrator) for one in needed]
    if apply:
        await _at_source(feed, [one for one in plan if one.applied])
    return plan


async def _at_source(feed: Feed, statements: Sequence[PlannedStatement]) -> None:
    if statements:
        async with source_inspected(feed) as source:
            await _run(source.execute, statements)


async def _at_target(feed: Feed, statements: Sequence[PlannedStatement]) -> None:
    if statements:
        async with session(feed.target_url) as target:
            await _run(target.execute, statements)


async def _run(execute: Callable[[str], Awaitable[object]], statements: Sequence[PlannedStatement]) -> None:
    """Runs statements one after another; a transaction that is not ended goes with the session.  Raises
    StatementFailed."""
    stay, within = 0, False
    for number, statement in enumerate(statements, 1):
        try:
            await execute(statement.sql)
        except (SourceError, TargetError) as error:
            raise StatementFailed(statement, error, stay, len(statements)) from None
        within = (within or statement.sql == "BEGIN") and statement.sql != "COMMIT"
        stay = stay if within else number


async def _make_topics(feed: Feed, plan: Sequence[PlannedStatement]) -> None:
    """Makes topics in Kafka.  Raises LogError."""
    if any(s.side == "log" and not s.administrator for s in plan):
        from tidelock.adapters.checks.log import first_partitions
        from tidelock.adapters.kafka.topics import ensure

        await ensure(feed.log_url, feed.name, first_partitions(feed))
