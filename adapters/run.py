"""`tidelock run`: one feed, embedded: source log → capture machine → apply machine → target, in one process tree.

Start-up overlaps what it can: the capture process imports while the source is asked and the target taken over.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from adapters.bookkeeping import TABLES, create_statements, present_query, quote
from adapters.capture import CaptureProcess
from adapters.config import Feed
from adapters.frames import Order
from adapters.journal import Journal, NoJournal
from adapters.mysql.errors import SourceError
from adapters.mysql.source import Source, look
from adapters.progress import Progress, Sample, State
from adapters.session import session
from adapters.shell import Shell
from adapters.sink import Sink
from engine.apply import ApplyMachine, Options
from engine.events import GoalSet
from engine.filter import Condition
from engine.mapping import Mapping, Rule
from engine.pattern import Pattern
from engine.records import Ddl, Position, TableName

if TYPE_CHECKING:
    from adapters.finding import Finding

OK, REFUSED, OPERATOR = 0, 1, 4
AGAIN = -1  # take the feed over anew
SAMPLE_SECONDS = 0.25
NO_LOCKS = "TIDELOCK_TEST_WITHOUT_LOCKS"  # set by one test only: the churn workload must fail without them


async def run(feed: Feed, until_caught_up: bool, progress: Progress) -> int:
    """The exit code of design 9.  Raises SourceError, TargetError: the operator must mend something first."""
    # Rows in flight are young, many and free of cycles: at the default thresholds the collector would walk them all
    # again and again (measured: a fifth of the CPU).
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    while True:
        capture = CaptureProcess()
        try:
            code = await _run(feed, until_caught_up, progress, capture)
        except BaseException:
            await capture.stop()
            raise
        if code != AGAIN:
            return code


async def _run(feed: Feed, until_caught_up: bool, progress: Progress, capture: CaptureProcess) -> int:
    mapping = Mapping(rules_of(feed), feed.schema)
    source, refusals, there = await asyncio.gather(_look(feed), _refusals(feed), _there(feed))
    if refusals:
        for finding in refusals:
            progress.message(str(finding))
        await capture.stop()
        return REFUSED
    if isinstance(source, SourceError):
        raise source
    tables = list(dict.fromkeys([*(mapping.target(name) for name in source.tables if mapping.selects(name)), *there]))
    sink = make_sink(feed, mapping)

    def tables_after(ddl: Ddl) -> Sequence[TableName]:
        """The feed's target tables once the statement is applied: it may make a new one."""
        made = [mapping.target(name) for name in ddl.tables if mapping.selects(name)]
        tables.extend(name for name in made if name not in tables)
        return tables

    taken = await sink.take_over(tables, start_of(feed, source))
    options = options_of(feed, mapping, source)
    machine = ApplyMachine(options)
    journal = Journal(Path(feed.journal), options) if feed.journal else NoJournal()
    shell = Shell(machine, sink, lambda at: order_of(feed, at), tables_after, journal, capture)
    shell.post(taken)
    if until_caught_up:
        shell.post(GoalSet(source.now))
    shell.begin_reading(taken.checkpoint)
    board = Board(machine, shell, progress)
    async with contextlib.AsyncExitStack() as stack:
        if feed.http_address is not None:
            from adapters.web import serve

            await stack.enter_async_context(serve(feed.http_address, lambda: board.latest))
        stack.enter_context(_signals(shell))
        reporter = asyncio.get_running_loop().create_task(board.report())
        try:
            await shell.run()
        finally:
            reporter.cancel()
            await asyncio.gather(reporter, return_exceptions=True)
    return _ending(machine, shell, progress)


async def _look(feed: Feed) -> Source | SourceError:
    """An error is kept for later: `check` says the same with the statement that mends it."""
    try:
        return await asyncio.to_thread(
            look, feed.source_url, [rule.source for rule in feed.tables], earliest=feed.start == "earliest"
        )
    except SourceError as error:
        return error


async def _there(feed: Feed) -> list[TableName]:
    """Target tables that the rules may mean: the log may hold rows of a table that the source has dropped since."""
    patterns = [Pattern.of(rule.target or rule.source) for rule in feed.tables]
    async with session(feed.target_url) as target:
        found = await target.fetch(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
            "AND table_schema NOT IN ('pg_catalog', 'information_schema', 'mysql', 'performance_schema', 'sys')"
        )
    names = [TableName(str(schema), str(table)) for schema, table in found if schema != feed.schema]
    return [name for name in names if any(pattern.matches(name) for pattern in patterns)]


async def _refusals(feed: Feed) -> Sequence[Finding]:
    """A first run must pass `check`, and makes the bookkeeping then; nothing is written before.

    A later run goes on where the target's checkpoint says: the log may hold the very statements that make the tables
    alike, so the machine judges each table when its rows come by.
    """
    async with session(feed.target_url) as target:
        present = {str(name) for (name,) in await target.fetch(present_query(feed.schema))}
        if present >= set(TABLES):
            owner = f"{quote(target.dialect, feed.schema)}.tidelock_owner"
            if await target.fetch(f"SELECT epoch FROM {owner} WHERE feed = %s", feed.name):
                return ()
        from adapters.check import check

        report = await check(feed)
        if report.ok and not present >= set(TABLES):
            for statement in create_statements(target.dialect, feed.schema):
                await target.execute(statement)
    return report.errors


async def fix_start(feed: Feed) -> Position | None:
    """`init --apply`: store where the first run begins, so that `start: now` means the time of init.  None where a
    position is stored already."""
    source = await asyncio.to_thread(
        look, feed.source_url, [rule.source for rule in feed.tables], earliest=feed.start == "earliest"
    )
    position = start_of(feed, source)
    async with session(feed.target_url) as target:
        table = f"{quote(target.dialect, feed.schema)}.tidelock_checkpoint"
        if await target.fetch(f"SELECT 1 FROM {table} WHERE feed = %s", feed.name):
            return None
        words = msgspec.json.encode(position).decode()
        await target.execute(f"INSERT INTO {table} (feed, grp, position) VALUES (%s, 0, %s)", feed.name, words)
    return position


def _ending(machine: ApplyMachine, shell: Shell, progress: Progress) -> int:
    progress.update(sample_of(machine, shell, 0.0))
    if shell.halt is not None:
        progress.message(str(shell.halt.alarm))
        return OPERATOR
    if shell.stood_down is not None:
        progress.message(shell.stood_down.reason)
        return AGAIN if shell.stood_down.again else REFUSED
    parked = len(machine.batches.lot)
    if parked and shell.caught_up:
        progress.message(f"{parked} row changes are parked: tidelock rows list FEED")
        return OPERATOR
    return OK


# ---------------------------------------------------------------------- from the feed's YAML to the parts


def rules_of(feed: Feed) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            source=rule.source,
            target=rule.target or rule.source,
            include=rule.columns.include,
            exclude=rule.columns.exclude,
            rename=rule.columns.rename,
            where=_where(rule.where),
        )
        for rule in feed.tables
    )


def _where(text: str) -> Condition | None:
    if not text:
        return None
    from adapters.where import parse_where

    return parse_where(text)


def start_of(feed: Feed, source: Source) -> Position:
    match feed.start_place:
        case "now":
            return source.now
        case "earliest":
            return source.earliest
        case position:
            return position


def options_of(feed: Feed, mapping: Mapping, source: Source) -> Options:
    weights = {
        mapping.target(name): rule.weight for name in source.tables if (rule := feed.select(name)) and rule.weight
    }
    return Options(
        lanes=feed.lanes,
        batch_rows=feed.batch_rows,
        atomic=feed.consistency == "transaction",
        weights=weights,
        locking=NO_LOCKS not in os.environ,
    )


def order_of(feed: Feed, start: Position) -> Order:
    target = feed.target_url
    return Order(
        source=feed.source_url,
        server_id=feed.server_id,
        rules=rules_of(feed),
        own=feed.schema,
        node=f"{target.host}:{target.port}",
        start=start,
    )


def make_sink(feed: Feed, mapping: Mapping) -> Sink:
    source = f"{feed.source_url.host}:{feed.source_url.port}"
    if feed.target_url.dialect == "postgres":
        from adapters.postgres.sink import PostgresSink

        return PostgresSink(
            feed.target_url,
            feed.name,
            schema=feed.schema,
            lanes=feed.lanes,
            origin=source,
            path=source,
            zero_dates=feed.zero_dates,
            synchronous_commit=feed.synchronous_commit,
            target_name=mapping.target,
        )
    from adapters.mysql.sink import MySqlSink

    return MySqlSink(
        feed.target_url,
        feed.name,
        schema=feed.schema,
        lanes=feed.lanes,
        origin=source,
        path=source,
        zero_dates=feed.zero_dates,
        target_name=mapping.target,
    )


# ---------------------------------------------------------------------- for people


class Board:
    """What is shown: `latest` is taken a few times a second, for the progress and for HTTP alike."""

    def __init__(self, machine: ApplyMachine, shell: Shell, progress: Progress) -> None:
        self.latest = Sample()
        self._machine = machine
        self._shell = shell
        self._progress = progress

    async def report(self) -> None:
        rows, then = 0, time.monotonic()
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            now = time.monotonic()
            sample = sample_of(self._machine, self._shell, 0.0)
            rate = (sample.rows_total - rows) / (now - then)
            rows, then = sample.rows_total, now
            self.latest = msgspec.structs.replace(sample, rows_per_second=rate)
            self._progress.update(self.latest)


def sample_of(machine: ApplyMachine, shell: Shell, rate: float) -> Sample:
    if machine.state.value == "starting":
        return Sample()
    batches = machine.batches
    lag = max(0.0, time.time() - machine.watermark.end_us / 1e6) if machine.watermark.end_us else None
    return Sample(
        state=_state(machine, shell),
        rows_total=batches.committed_rows,
        rows_per_second=rate,
        lag_seconds=lag,
        lanes=tuple(lane.rows for lane in batches.lanes),
        lock_waits_total=batches.dispatcher.waits,
        locks_held=len(batches.locks),
        parked_rows=len(batches.lot),
        batches_total=batches.committed_batches,
        position=str(machine.watermark.position),
        alarm=str(shell.halt.alarm) if shell.halt else None,
        retries_total=batches.retries,
        restarts=shell.restarts,
    )


def _state(machine: ApplyMachine, shell: Shell) -> State:
    if shell.halt is not None:
        return "halted"
    if shell.caught_up:
        return "caught up"
    if shell.stopping:
        return "draining"
    if machine.paused:
        return "paused"
    return "running"


@contextlib.contextmanager
def _signals(shell: Shell) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, shell.stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
