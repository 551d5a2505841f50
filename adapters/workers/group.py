"""Runs one table group at this worker: takes it over at the target, runs its apply machine over its partition, reports.

A group that stepped down (a newer owner, lost commits) or halted is not given up while Kafka says that the partition is
ours: after a while, or once an operator has cleared the halt, it is taken over anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

import msgspec
from aiokafka.errors import KafkaError

from tidelock.adapters.config.apply_options import options_of
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.kafka.connection import LogError
from tidelock.adapters.kafka.control import ControlTopic, News
from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.kafka.wire import WireError
from tidelock.adapters.operator import known_tables, start_copy
from tidelock.adapters.operator.feed_control import halted_group
from tidelock.adapters.operator.known_target import ahead, raise_epoch, require_known
from tidelock.adapters.ports.sink import Sink, TargetError, Wanted
from tidelock.adapters.process.ending import ended
from tidelock.adapters.process.gc_tuning import forget
from tidelock.adapters.process.way_out import of_workers
from tidelock.adapters.row_copy.copier import CopierProcess, SparkCopier
from tidelock.adapters.runtime.apply_shell import Shell
from tidelock.adapters.runtime.copy_shell import Copies
from tidelock.adapters.runtime.journal import Journal, JournalError, NoJournal, Recorder, path_of_group
from tidelock.adapters.runtime.meters import Meters
from tidelock.adapters.runtime.progress import Sample
from tidelock.adapters.runtime.sampler import sample_of
from tidelock.adapters.runtime.throttle import Throttle
from tidelock.adapters.wiring.sinks import make_sink
from tidelock.adapters.workers.copy_homes import requests_of
from tidelock.adapters.workers.partition import Fetcher, PartitionLog
from tidelock.adapters.workers.totals import Totals
from tidelock.adapters.workers.vacant import VacancyNotice
from tidelock.engine.apply.machine import ApplyMachine, Options
from tidelock.engine.apply.status import ApplyStatus
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.log.receipts import end_of
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.effects import ApplyDdl
from tidelock.engine.protocol.events import DdlApplied, DdlFailed, TakenOver
from tidelock.engine.protocol.group_reports import FeedState, GroupReport, Statement
from tidelock.engine.protocol.published_log import PublishedLog

log = logging.getLogger(__name__)

REPORT_SECONDS: Final = 0.25
QUIET_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 1.0
FENCED_SECONDS: Final = 8.0  # longer than a session lives at the broker: by then we know whether it is still ours
MEND_SECONDS: Final = 2.0
FIRST_LOG: Final = 1
Known = TypeVar("Known")


class GroupRunner:
    """One group.  `fenced`: how often a newer owner's fence stopped a write of ours.  `latest`: the newest sample, of
    the present life.  `meters`: what its lives here count.
    """

    def __init__(
        self,
        feed: Feed,
        number: int,
        worker: str,
        control: ControlTopic,
        places: Places,
        fetcher: Fetcher,
        copier: CopierProcess,
    ) -> None:
        """`copier`: shared by the groups of this worker."""
        self.number = number
        self.fenced = 0
        self.latest = Sample()
        self.meters = Meters(number)
        self.log = PartitionLog(number, places, fetcher)
        self._feed = feed
        self._worker = worker
        self._control = control
        self._places = places
        self._fetcher = fetcher
        self._copier = copier
        self._mapping = Mapping(rules_of(feed), feed.schema)
        self._shell: Shell | None = None
        self._stream_idle_us: int | None = None  # of the next machine (StepDown)
        self._vote: Statement | None = None
        self._alarm: Alarm | None = None
        self._fault: Alarm | None = None  # of the journal, where that is one
        self._past = Totals()  # of lives before the present one
        self._rows_before = 0  # applied by owners before, as they reported
        self._vacant = VacancyNotice(log, control, str(number), worker)
        self._epoch = 0
        self._tables: list[TableName] = []  # that the present life has asked the target for
        self._log_number = 0  # of the log that is read (`protocol.published_log`)
        self._news = asyncio.Event()
        self._stop = asyncio.Event()
        self._ours = asyncio.Event()

    def __str__(self) -> str:
        return f"group {self.number} of feed {self._feed.name}"

    @property
    def shell(self) -> Shell | None:
        """The shell of its present life, or of the last one."""
        return self._shell

    @property
    def totals(self) -> Totals:
        """The counters of all its lives here."""
        return self._past + Totals.of(self.latest, self.fenced)

    @property
    def machine(self) -> ApplyMachine | None:
        """The machine that applies it now; None while there is none."""
        return self._shell.machine if self._shell is not None else None

    async def run(self) -> None:
        """Owns the group until stopped.  Raises only what is a bug."""
        unwatch = self._control.watch(self._hear)
        try:
            while not self._stop.is_set():
                await self._own_once()
        finally:
            unwatch()

    async def _own_once(self) -> None:
        try:
            plan = await self._until_stopped(self._known_plan())
            if plan is not None:
                await self._own(plan)
        except TargetError as error:
            await self._trouble(Alarm("target", str(error), error.hint))
        except WireError as error:
            await self._trouble(Alarm("wire", str(error), error.hint))
        except KafkaError as error:
            await self._trouble(Alarm("kafka", str(error), "Is the broker up?"))
        except JournalError as error:
            await self._trouble(Alarm("journal", str(error), error.hint))

    async def stop(self) -> None:
        """Finishes what is in flight; then `run` returns."""
        self._stop.set()
        if self._shell is not None:
            self._shell.stop()

    async def reassigned(self) -> None:
        """Ends the wait of a fenced group: a rebalance has left the group with us, or given it to us again."""
        self._ours.set()
        await self.log.reassigned()

    def _hear(self, news: News) -> None:
        """Begins anew where the log does, or where a plan has tables that were not asked of the target: no statement of
        the log made them (a file with more tables, or one that was made at the target by hand).
        """
        plan = self._control.seen.settled
        if isinstance(news, FeedState) and plan is not None and self._vote is None:
            self._look_for_tables(plan)
        if not isinstance(news, PublishedLog) or not news.is_open:
            return
        if news.number == FIRST_LOG:  # what the topic held before anybody told of it
            self._log_number = self._log_number or FIRST_LOG
        if news.number > self._log_number:
            self._ours.set()
            if self._shell is not None:
                self._shell.begin_anew("the log is published again from the least checkpoint")

    def _look_for_tables(self, plan: TablePartitioning) -> None:
        more = [name for name, _ in plan.tables if name not in self._tables]
        if more and self._shell is not None:
            self._tables.extend(more)
            self._shell.begin_anew(f"the plan has more tables: {', '.join(map(str, more))}")

    async def _until_stopped(self, work: Coroutine[Any, Any, Known]) -> Known | None:
        """Returns what the work returns; None: stopped before."""
        working = asyncio.create_task(work)
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait((working, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not working.done() or self._stop.is_set():
            working.cancel()
            return None
        return working.result()

    async def _known_plan(self) -> TablePartitioning:
        """Returns the plan, once it has this group."""
        await self._control.ready.wait()  # what was reported before counts on
        return await self._control.plan_with(self.number)

    async def _own(self, plan: TablePartitioning) -> None:
        sink = make_sink(self._feed, self._mapping, group=self.number)
        tables = self._tables = [name for name, _ in plan.tables]
        try:
            taken = await self._take_over(sink, tables, plan)
            if taken is None:
                await sink.close()
                await self._until_stopped(self._control.log_open())
                return
            first = taken.checkpoint == plan.since[self.number] and not taken.receipts
            essential = await start_copy.due(self._feed, {n for n, g in plan.tables if g == self.number}, first=first)
            rows = await start_copy.rows_merged(self._feed) if _unfinished(taken) else {}
            left = await known_tables.tables_left_behind(self._feed, tables)
            options = options_of(self._feed, tables, self._stream_idle_us, left)
            journal = self._journal(options)
        except BaseException:
            await sink.close()
            raise
        self._begin_life()
        machine = ApplyMachine(options)
        partition = self.log = PartitionLog(self.number, self._places, self._fetcher)
        forget()  # the machine before, with its rows

        async def apply_ddl(effect: ApplyDdl) -> DdlApplied | DdlFailed:
            return await self._pass(effect, sink, tables)

        copier = SparkCopier(self._feed, log.warning, self.number, self._copier)
        copies = Copies(machine, sink, copier, log.info, essential=essential, own=self._requests)
        if _unfinished(taken):
            copies.resume(taken.chunks, rows)
        shell = self._shell = Shell(
            machine, sink, partition, apply_ddl, journal, copies, of_workers, stays=True, meters=self.meters
        )
        await self._vacant.over()
        self._epoch, self._alarm, self._vote = taken.epoch, None, None
        log.info("%s is ours: epoch %d, from %s", self, taken.epoch, taken.checkpoint)
        shell.post(taken)
        if self._stop.is_set():  # told so during the takeover
            shell.stop()
        if self._fault is not None:
            shell.give_up(self._fault)
        if self._feed.throttle is not None:
            shell.beside(Throttle(self._feed, shell, machine.status).run())
        reporter = asyncio.create_task(self._report(machine, shell, partition))
        try:
            await shell.run(taken.checkpoint)
        finally:
            self._shell = None
            await ended(reporter)
        if shell.stepped_down is not None:
            self._stream_idle_us = shell.stepped_down.stream_idle_us or self._stream_idle_us
        await self._ended(machine, shell)

    async def _take_over(self, sink: Sink, tables: list[TableName], plan: TablePartitioning) -> TakenOver | None:
        """Takes the group over.  None: the log was told anew meanwhile, and our checkpoint may be from before that."""
        log_before, told = self._control.seen.log, self._control.seen.groups.get(self.number)
        await require_known(self._feed, self._control.seen)
        taken = await sink.take_over(tables, plan.since[self.number])
        if told is not None and taken.epoch <= told.epoch:  # the target was put back: reports of ours would not count
            await raise_epoch(self._feed, self.number, told.epoch)
            taken = await sink.take_over(tables, plan.since[self.number])
        taken = msgspec.structs.replace(taken, log_end=_log_end(taken, await self._places.last(self.number)))
        await self._control.refreshed()  # after the takeover: see `new_log`
        log_now = self._control.seen.log
        if log_now != log_before or not (log_now is None or log_now.is_open):
            return None
        if ahead(self._control.state, taken.checkpoint):  # the coordinator does not know yet that it was put back
            await self._rest(AGAIN_SECONDS)
            return None
        self._log_number = log_now.number if log_now is not None else 0
        return taken

    def _begin_life(self) -> None:
        """Keeps the counters: those of this worker, and the rows that the last owner, whoever it was, had reported."""
        self._past += Totals.of(self.latest)
        self.latest = Sample()
        known = self._control.seen.groups.get(self.number)
        self._rows_before = known.rows if known is not None else 0

    def _journal(self, options: Options) -> Recorder:
        """Opens the group's journal, if the feed keeps one.  Raises JournalError."""
        feed = self._feed
        if not feed.journal:
            return NoJournal()
        self._fault = None
        path = path_of_group(feed.journal, self.number)
        return Journal(path, options, self._unwritten, feed.journal_mb << 20, feed.journal_keep)

    def _unwritten(self, problem: str) -> None:
        """Notes that the disk does not take the journal."""
        stop = self._feed.journal_fault == "stop"
        then = "the group stops" if stop else "it goes on without it"
        log.warning("%s: %s; %s (`journal_fault`). What it holds so far can be replayed", self, problem, then)
        if stop:
            self._fault = Alarm("journal", problem, "Make room, then `tidelock resume FEED`")
            if self._shell is not None:
                self._shell.give_up(self._fault)

    async def _requests(self, wanted: Sequence[Wanted]) -> Sequence[Wanted]:
        """Returns the requests for copies that are this group's; none while Kafka does not say."""
        try:
            return await requests_of(self._feed, self.number, self._control.seen, wanted)
        except LogError as error:
            log.warning("%s: who copies what is not known: %s", self, error)
            return ()

    # ------------------------------------------------------------------ the end of an ownership

    async def _ended(self, machine: ApplyMachine, shell: Shell) -> None:
        if shell.halt is not None:
            self._alarm = shell.halt.alarm
            log.error("%s halted: %s", self, shell.halt.alarm)
            seen = machine.status()
            assert seen is not None, "it halts once it has taken over"
            self.latest = msgspec.structs.replace(sample_of(seen, shell, 0.0), state="halted")
            await self._write(seen, "halted")
            await self._released()
        elif shell.stepped_down is not None and not shell.stepped_down.again:
            self.fenced += 1
            log.warning("%s: a write was rejected, %s", self, shell.stepped_down.reason)
            self._ours.clear()
            await self._rest(FENCED_SECONDS, self._ours)
        elif shell.stepped_down is not None:
            log.warning("%s: %s", self, shell.stepped_down.reason)

    async def _trouble(self, alarm: Alarm) -> None:
        await self._vacant.tell(f"{self} cannot be taken over", str(alarm))
        self._alarm = alarm
        await self._rest(AGAIN_SECONDS)

    async def _released(self) -> None:
        """Waits until an operator has passed the statement (`tidelock ddl done|skip`), or a worker is started again."""
        while not self._stop.is_set():
            with contextlib.suppress(TargetError):
                if not await halted_group(self._feed, self.number):
                    return
            await self._rest(MEND_SECONDS)

    async def _rest(self, seconds: float, sooner: asyncio.Event | None = None) -> None:
        """Waits until stopped, or until `sooner`."""
        waiting = [asyncio.create_task(event.wait()) for event in (self._stop, sooner) if event is not None]
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()

    # ------------------------------------------------------------------ statements

    async def _pass(self, effect: ApplyDdl, sink: Sink, tables: list[TableName]) -> DdlApplied | DdlFailed:
        """Votes for the statement and waits until it has run; then reads the tables."""
        failure = await sink.settle()
        if failure is not None:
            return DdlFailed(effect.id, failure)
        self._vote = statement = Statement(effect.ddl.source, effect.ddl.number, effect.end)
        self._news.set()
        state = await self._control.verdict(statement, (self.number, self._epoch))
        if state.refused == statement:
            self._vote = None
            return DdlFailed(effect.id, Failure(ErrorKind.TARGET, state.refusal))
        made = [self._mapping.target(name) for name in effect.ddl.tables if self._mapping.selects(name)]
        tables.extend(name for name in made if name not in tables)
        answer = await sink.pass_ddl(effect, tables)
        if isinstance(answer, DdlApplied):
            self._vote = None
        return answer

    # ------------------------------------------------------------------ reports

    async def _report(self, machine: ApplyMachine, shell: Shell, partition: PartitionLog) -> None:
        """Reports news soon, and a sign of life when there are none."""
        rows, then, spoke = 0, time.monotonic(), 0.0
        told: object = None
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), REPORT_SECONDS)
            self._news.clear()
            if (seen := machine.status()) is None:
                continue
            partition.saved(seen.saved)
            self.meters.saved(seen.saved, seen.position)
            now = time.monotonic()
            sample = of_kafka(sample_of(seen, shell, 0.0))
            rate = (sample.rows_total - rows) / (now - then)
            rows, then = sample.rows_total, now
            self.latest = msgspec.structs.replace(sample, rows_per_second=rate)
            hindrance = "; ".join(f"the {one.place}: {one.message}" for one in sample.hindrances)
            news = (seen.saved, seen.position, self._vote, sample.state, sample.failed_rows, hindrance, partition.lacks)
            if news != told or now - spoke > QUIET_SECONDS:
                told, spoke = news, now
                await self._write(seen, sample.state, hindrance)

    async def _write(self, seen: ApplyStatus, state: str, hindrance: str = "") -> None:
        await self._control.write(
            f"group/{self.number}",
            GroupReport(
                group=self.number,
                epoch=self._epoch,
                worker=self._worker,
                state=state,
                resolved=seen.position,
                checkpoint=seen.saved,
                vote=self._vote,
                rows=self._rows_before + seen.rows,
                parked=seen.parked,
                fenced=self.fenced,
                end_us=seen.end_us,
                at_us=time.time_ns() // 1000,
                alarm=self._alarm,
                hindrance=hindrance,
                log=self._log_number,
                lacks=self.log.lacks,
            ),
        )


def of_kafka(sample: Sample) -> Sample:
    """Returns the sample of a machine that reads a partition: what hinders its reading is no source."""
    hindrances = tuple(
        msgspec.structs.replace(one, at="log") if one.at == "source" else one for one in sample.hindrances
    )
    return msgspec.structs.replace(sample, hindrances=hindrances)


def _unfinished(taken: TakenOver) -> bool:
    """Tells whether a copy has begun that is not done."""
    return any(len(one.merged) < one.split.chunks for one in taken.chunks)
def _log_end(taken: TakenOver, last: Position | None) -> Position:
    """Returns a place at or behind every row that a receipt covers, though the log be published again up to before it.
    """
    ends = [end for receipt in taken.receipts if (end := end_of(receipt.covered)) is not None]
    return max([last or taken.checkpoint, *ends], key=lambda place: place.order)
