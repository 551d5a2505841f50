"""`tidelock resync`: lets a feed go on at the source's present place, and copy its tables anew before all else.

It is for a log that cannot be applied any more from the checkpoint on: purged, reset, damaged, or with changes that say
too little.  The log between the checkpoint and the present place is a *hole*: nobody knows which rows of which tables
changed there, so all tables of the feed are copied.

The place moves in one transaction with the requests for the copy.  Their mode `resync` says that nothing may be applied
without it.  So after a crash at any moment the next run finds either the old place, which still cannot be passed, or
the new one with the requests.  A copy removes its requests in the transaction that empties the tables and stores how
they are split.  At no moment does the feed look caught up over the hole.

The tables that are copied are those of the file as it was read.  They are kept as what the feed has run with: where the
file takes more by now, the next run is refused (`checks.changed_tables`), as copies that were held for it are gone.

The epoch rises in the same transaction, which shuts out a run that was overlooked.  The rest of the bookkeeping is
about a history that ends here and is removed: receipts would cover transactions of a new log that have old numbers, a
statement that an operator passed could be another one, chunks and failed rows are of rows that are replaced.

Whatever would keep the copy from beginning is looked for first, because a feed that has moved and cannot copy applies
nothing.

*Workers over Kafka* must have ended: Kafka says whether its group has members.  Their log ends before the hole too, so
both topics are removed, and then the feed moves as a whole: the next worker finds no plan, and one place with the
requests for the copy.  A resync that ends in between leaves a feed without a log at its old places, to be resynced
again.  A worker that begins in between makes the move fail: the epochs are not those that were seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from tidelock.adapters.app.no_workers import still_workers
from tidelock.adapters.bookkeeping.lease import Claim
from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.checks.feed import check
from tidelock.adapters.checks.refusals import tables_there
from tidelock.adapters.checks.source import sees_all
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.mysql.grants import Grants, read_grants
from tidelock.adapters.operator import known_tables
from tidelock.adapters.operator.adoption import proven
from tidelock.adapters.operator.feed_control import books
from tidelock.adapters.operator.first_place import kept
from tidelock.adapters.operator.kept_forms import begin_anew
from tidelock.adapters.operator.runs import RunsAlready, admitted
from tidelock.adapters.operator.stamps import refuse_copies
from tidelock.adapters.operator.store import Books, never_ran
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.target_inspection import CannotRun
from tidelock.adapters.process.host import Missing
from tidelock.adapters.row_copy.direct import large
from tidelock.adapters.row_copy.failing import look_for_spark
from tidelock.adapters.row_copy.source import NotCopied, sources
from tidelock.adapters.wiring.inspection import opened
from tidelock.adapters.wiring.source_tables import MySqlTables, tables_at
from tidelock.adapters.wiring.sources import overview_of, source_of
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.copy.copy_validation import fault
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.records import Position, TableName

_WHAT_IT_IS_FOR = (
    "source-history", "source-position", "target-not-empty", "log-lost", "log-partitions", "log-cleanup",
    "log-message-size", "slot-missing", "slot-lost", "slot-recreated", "publication-missing", "publication-lacks",
)  # fmt: skip
"""Findings of `check` that do not keep a resync from being done: topics, slot and publication are made anew."""


class Resync(msgspec.Struct, frozen=True):
    """The plan of a resync: the feed goes on at `place`, and these `tables` of the target are copied.

    `before`: the checkpoint, of workers the least of their groups'.  `halted`: why the feed halted, '' where nothing is
    noted.  `left`: tables of the target that the feed's rules name and that no table at the source maps to: they stay
    as they are.  `epochs`: of all groups, as they were.
    """

    place: Position
    before: Position | None
    tables: tuple[TableName, ...]
    left: tuple[TableName, ...]
    halted: str
    epochs: dict[int, int]


async def plan(feed: Feed, tell: Callable[[str], None]) -> Resync:
    """Plans a resync; writes nothing.  `tell`: is given what is waited for.  Raises Refused, TargetError, SourceError,
    LogError.
    """
    refuse_copies(feed)
    async with books(feed) as book:
        stored = [place for place, _ in (await book.checkpoints()).values()]
        halted = await _stands(feed, book, tell, begun=bool(stored))
        epochs = {group: owner.epoch for group, owner in (await book.owners()).items()}
        source = await asyncio.to_thread(overview_of, feed)
        there = await tables_there(feed, book.session)
    mapping = Mapping(rules_of(feed), feed.schema)
    tables = tuple(dict.fromkeys(mapping.target(name) for name in source.tables if mapping.selects(name)))
    await _fit(feed)
    await _can_be_copied(feed, tables, there)
    left = tuple(sorted(set(there) - set(tables)))
    place = await proven(feed, source.now)
    before = min(stored, key=lambda position: position.order, default=None)
    return Resync(place, before, tables, left, halted, epochs)


async def begin(feed: Feed, resync: Resync) -> None:
    """Moves the feed's place and queues the copy, in one transaction; of workers, their log is removed in it.

    From the look at the owners on nobody can take the feed over: what is undone at the source, the slot that the feed
    stands on, is undone behind it.  Raises TargetError, where the feed stands where it stood; SourceError, LogError,
    where it does too, and may have lost its slot or its log.
    """
    async with books(feed) as book:
        name, run = feed.name, book.session.execute
        await run("BEGIN")
        if book.session.dialect == "postgres":
            await run("SET LOCAL synchronous_commit = on")
        if not await _all_as_seen(book, resync.epochs):
            await run("ROLLBACK")
            raise TargetError(
                f"feed {name} was taken over meanwhile, so it was not moved",
                "End that run or worker, then resync again",
            )
        if feed.log_url is not None:
            from tidelock.adapters.kafka.removal import remove

            await remove(feed.log_url, feed.name)
        beginning = await kept(feed, await asyncio.to_thread(overview_of, feed), resync.place)
        owner = f"UPDATE {book.table('tidelock_owner')} SET epoch = epoch + 1, halt = NULL, ddl_passed = NULL"
        if not await run(f"{owner} WHERE feed = %s", name):
            await run(f"INSERT INTO {book.table('tidelock_owner')} (feed, grp, epoch) VALUES (%s, 0, 1)", name)
        for table in ("progress", "chunks", "wanted", "parked", "shadows", "checkpoint"):
            await run(f"DELETE FROM {book.table(f'tidelock_{table}')} WHERE feed = %s", name)
        words = msgspec.json.encode(beginning.place).decode()
        checkpoint = f"INSERT INTO {book.table('tidelock_checkpoint')} (feed, grp, position) VALUES (%s, 0, %s)"
        await run(checkpoint, name, words)
        await begin_anew(book, beginning.forms)
        await known_tables.begin_anew(book)
        wish = f"INSERT INTO {book.table('tidelock_wanted')} (feed, grp, ordinal, table_schema, table_name, mode) "
        now = time.time_ns() // 1000
        for ordinal, wanted in enumerate(resync.tables, now):
            await run(f"{wish} VALUES (%s, 0, %s, %s, %s, 'resync')", name, ordinal, wanted.schema, wanted.table)
        await run("COMMIT")


async def _all_as_seen(book: Books, epochs: dict[int, int]) -> bool:
    """Tells whether no group has a newer owner; waits for what older ones are committing, and lets none begin."""
    sql = f"SELECT grp, epoch FROM {book.table('tidelock_owner')} WHERE feed = %s FOR UPDATE"
    return {int(group): int(epoch) for group, epoch in await book.session.fetch(sql, book.feed.name)} == epochs


# ---------------------------------------------------------------------- what would keep it from being done


async def _stands(feed: Feed, book: Books, tell: Callable[[str], None], *, begun: bool) -> str:
    """Returns why the feed is halted.  `begun`: it has a checkpoint, which `init` stores before the first run.

    Raises Refused where the feed is running, or is scaled out and its file does not say so; TargetError where it never
    ran.
    """
    owners = await book.owners()
    if not owners and not begun:
        raise never_ran(feed)
    if workers := await still_workers(feed, tell):
        raise _refused("running", workers, "End all of them (SIGTERM), then resync again")
    if feed.log_url is None and any(group != 0 for group in owners):
        raise _refused(
            "scaled-out",
            f"feed {feed.name} has run as workers over Kafka, and its file names no log there",
            "Set its `log: kafka://…` again, then resync",
        )
    try:
        await admitted(book.session, Claim.new(feed.schema, feed.name), tell)
    except RunsAlready as problem:
        raise _refused("running", str(problem), "End that run (SIGTERM), then resync again") from None
    return next((str(owner.halted.alarm) for owner in owners.values() if owner.halted is not None), "")


async def _fit(feed: Feed) -> None:
    """Runs `check`.  Raises Refused with everything that it finds wrong."""
    errors = [finding for finding in (await check(feed)).errors if finding.kind not in _WHAT_IT_IS_FOR]
    if errors:
        told = "\n".join(f"- {finding}" for finding in errors)
        raise _refused("unfit", f"feed {feed.name} cannot run as it is:\n{told}\n", "Correct it, then resync again")


async def _can_be_copied(feed: Feed, tables: Sequence[TableName], there: Sequence[TableName]) -> None:
    """Checks that the tables can be copied.  Raises Refused."""
    if not tables:
        raise _refused("empty", f"no table of feed {feed.name} is at the source", "Correct `tables` in the feed")
    try:
        async with tables_at(feed.source_url) as source:
            if isinstance(source, MySqlTables):  # PostgreSQL's catalogue hides nothing
                _sees_all(feed, await read_grants(source.server))
            found = await sources(feed, source, tables)
            if await large(source, found.values(), feed.spark.small_rows):
                look_for_spark()
            names = [one.table.name for one in found.values()]
            await asyncio.to_thread(source_of(feed.source_url).require_visibility, names)
    except NotCopied as problem:
        raise _refused("not-copied", str(problem), problem.hint) from None
    except Missing as problem:
        raise _refused("spark", f"larger tables are copied by Spark, and {problem}", "Then resync again") from None
    async with opened(feed.target_url) as target:
        known = await target.tables(list(dict.fromkeys((*tables, *there))))
    if why := fault([ChunkSplit(name) for name in tables], (), known):
        raise _refused("not-copied", f"tables of feed {feed.name} cannot be copied: {why}", "Correct it, resync again")


def _sees_all(feed: Feed, grants: Grants) -> None:
    """Checks that the account sees every table: one that it cannot see would be left out silently.  Raises Refused."""
    for rule in feed.tables:
        pattern = Pattern.of(rule.source)
        if "*" not in rule.source:
            continue
        if sees_all(grants, pattern):
            continue
        place = "*.*" if "*" in pattern.schema else f"{quote('mysql', pattern.schema)}.*"
        raise _refused(
            "source-grant",
            f"{grants.account} may not see every table of {rule.source} at {feed.source_url}, and those that it does "
            "not see would not be copied",
            f"GRANT SELECT ON {place} TO {grants.account};",
        )


def _refused(kind: str, message: str, hint: str) -> CannotRun:
    finding: Finding = error(f"resync-{kind}", message, hint)
    return CannotRun(finding)
