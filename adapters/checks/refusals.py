"""Finds what keeps a feed from running.  Nothing is written before a first run passes `check`."""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.checks.changed_tables import check_tables_again
from tidelock.adapters.checks.kept_tables import check_kept_tables
from tidelock.adapters.checks.same_tables import check_new_rules
from tidelock.adapters.checks.stamps import check_stamps_again
from tidelock.adapters.checks.target_schemas import among
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator import unlogged
from tidelock.adapters.operator.store import Books
from tidelock.adapters.operator.upgrade import look as look_at_books
from tidelock.adapters.operator.upgrade import tables_of, upgrade
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.wiring.session import TargetSession
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.errors import RESYNC, Alarm
from tidelock.engine.model.records import TableName


async def tables_there(feed: Feed, target: TargetSession) -> list[TableName]:
    """Lists target tables that the rules may mean: the log may hold rows of a table that the source has dropped since.
    """
    patterns = [Pattern.of(rule.target or rule.source) for rule in feed.tables]
    where, schemas = among(patterns)
    found = await target.fetch(
        "SELECT table_schema, table_name FROM information_schema.tables "
        f"WHERE table_type = 'BASE TABLE' AND {where}",
        *schemas,
    )
    names = [TableName(str(schema), str(table)) for schema, table in found if schema != feed.schema]
    return [name for name in names if any(pattern.matches(name) for pattern in patterns)]


async def refusals(feed: Feed, target: TargetSession) -> Sequence[Finding]:
    """Lists what keeps a run from starting, and adds what the bookkeeping lacks.  Raises TargetError.

    A first run must pass `check`, and makes the bookkeeping then; nothing is written before.  Any run adds what an
    older version's bookkeeping lacks.  A later run goes on where the target's checkpoint says: the log may hold the
    very statements that make the tables alike, so the machine judges each table when its rows come.  What stamps need
    is looked at each time: rows that come without a trigger are lost in conflicts.  So is whether the file takes what
    it did not take before, or what another feed brings, and whether the target's tables keep their rows over a crash.
    A halt at a source that did not log all stays until a resync: its log goes on as if nothing was missing.
    """
    lacking = await look_at_books(target, feed.schema, tables_of(feed))
    if "tidelock_owner" not in lacking.tables:
        owner = f"{quote(target.dialect, feed.schema)}.tidelock_owner"
        groups = await target.fetch(f"SELECT grp, epoch FROM {owner} WHERE feed = %s", feed.name)
        if feed.log_url is None and any(group != 0 for group, _ in groups):
            return (_scaled_out(feed),)
        if groups:
            await upgrade(target, feed.schema, lacking, feed.target_url.user)
            book = Books(feed, target)
            if halt := await unlogged.kept(book):
                return (_unlogged(halt),)
            if feed.log_url is None and any(int(epoch) for _, epoch in groups) and not await book.checkpoints():
                return (_no_checkpoint(feed),)
            kept = await check_kept_tables(feed, target)
            tables = [*await check_tables_again(feed, target), *await check_new_rules(feed, target)]
            return [*kept, *await check_stamps_again(feed), *tables]
    from tidelock.adapters.checks.feed import check

    report = await check(feed)
    if report.ok:
        await upgrade(target, feed.schema, lacking, feed.target_url.user)
    return report.errors


def _unlogged(halt: Alarm) -> Finding:
    return error("unlogged", f"the feed halted, as changes are not in the source's log: {halt.message}", halt.hint)


def _no_checkpoint(feed: Feed) -> Finding:
    return error(
        "checkpoint-gone",
        f"feed {feed.name} has run, and {feed.target_url} holds no checkpoint of it any more, so nobody knows how far "
        "it was",
        f"Put rows and bookkeeping of one moment back; else {RESYNC}",
    )


def _scaled_out(feed: Feed) -> Finding:
    return error(
        "feed-scaled-out",
        f"feed {feed.name} has run as workers over Kafka, each table group with a position of its own",
        "Set its `log: kafka://…` again and run `tidelock worker FEED`",
    )
