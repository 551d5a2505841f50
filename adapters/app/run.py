"""`tidelock run`: runs one feed, embedded: source log → capture machine → apply machine → target, in one process tree.

Start-up overlaps what it can: the capture process imports while this one does, asks the source and takes the target
over.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from tidelock.adapters.app.embedded_log import EmbeddedLog
from tidelock.adapters.app.journal_fault import JournalFault
from tidelock.adapters.app.pulse import Pulse
from tidelock.adapters.app.takeover import take_over
from tidelock.adapters.bookkeeping.lease import Claim, Entry, Overtaken
from tidelock.adapters.checks.refusals import refusals, tables_there
from tidelock.adapters.checks.same_tables import has_run, refuse_same_tables
from tidelock.adapters.config.apply_options import options_of
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.operator import arbiter, sites, start_copy
from tidelock.adapters.operator.first_place import first_place, has_place
from tidelock.adapters.operator.runs import admitted
from tidelock.adapters.ports.finding import Finding
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source import Overview
from tidelock.adapters.ports.source_errors import Busy, SourceError, Unreachable
from tidelock.adapters.process.gc_tuning import calm, forget
from tidelock.adapters.process.service_manager import ServiceManager
from tidelock.adapters.process.signals import heard
from tidelock.adapters.row_copy.copier import SparkCopier
from tidelock.adapters.runtime import long_statement
from tidelock.adapters.runtime.apply_shell import Shell
from tidelock.adapters.runtime.copy_shell import Copies
from tidelock.adapters.runtime.journal import Journal, NoJournal
from tidelock.adapters.runtime.meters import Meters
from tidelock.adapters.runtime.permit_watch import PermitWatch
from tidelock.adapters.runtime.progress import Hindered, Progress, Sample
from tidelock.adapters.runtime.sampler import Sampler, Silent, sample_of
from tidelock.adapters.runtime.service_watch import ServiceWatch
from tidelock.adapters.runtime.slot_watch import SlotWatch
from tidelock.adapters.runtime.throttle import Throttle
from tidelock.adapters.runtime.tracing import tracing
from tidelock.adapters.wiring.capture import CaptureProcess
from tidelock.adapters.wiring.capture_order import order_of
from tidelock.adapters.wiring.session import session
from tidelock.adapters.wiring.sinks import load_sink, make_sink
from tidelock.adapters.wiring.sources import keeps_for_us, overview_of
from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.log.receipts import furthest
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.protocol.effects import ApplyDdl
from tidelock.engine.protocol.events import DdlApplied, DdlFailed

OK, REFUSED, OPERATOR = 0, 1, 4
_WHEREVER: Final = ("now", "earliest", "copy")
"""Values of `start` that mean another place in the log each time."""
GONE = "the bookkeeping of feed {} at {} is gone, which this run had: the target was put back, or somebody removed it"
GONE_HINT = (
    "Put rows and bookkeeping of one moment back, and run it again; else it is a new feed: `start: copy` and "
    "`copy: {existing: replace}` bring all rows anew"
)
AGAIN = -1  # take the feed over anew
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 1.0, 15.0


async def run(
    feed: Feed,
    until_caught_up: bool,
    progress: Progress,
    capture: CaptureProcess,
    *,
    by_force: bool = False,
    socket: str = "",
    manager: ServiceManager | None = None,
) -> int:
    """Runs a feed and returns its exit code (design 9).

    `capture`: a process that was started early, see above.  `by_force`: take the feed over from a live run.
    `socket`: path of a Unix socket that serves what `http` does.  `manager`: is told of the run.

    Raises SourceError, TargetError, RunsAlready: the operator must correct something first.  A server that says itself
    that it cannot now is asked again.
    """
    calm()
    claim = Claim.new(feed.schema, feed.name)
    life = _Life(Pulse(feed, claim), SlotWatch(feed.source_url), socket, manager)
    try:
        with heard(life.stop):
            while True:
                try:
                    code = await _begun(feed, until_caught_up, progress, capture, life, None if by_force else claim)
                except Overtaken:
                    code = AGAIN
                except BaseException:
                    await capture.stop()
                    raise
                if code != AGAIN:
                    return code
                life.let_go()
                await capture.stop()
                await asyncio.sleep(0)  # this turn of the loop still holds a cancelled task's error, and its frames
                forget()
                by_force = False
                capture = CaptureProcess(feed.source_url)
    except asyncio.CancelledError:
        if life.told_to_stop:
            return OK
        raise
    finally:
        await life.end()


class _Life:
    """The parts of a run that outlive a new takeover of the feed: the sign of life, HTTP, the watch on
    the source's slot, and how to stop.  `meters`: what is counted beside the machine.

    `has_run`: this process has had the feed.  `stream_idle_us`: of the next machine, in microseconds (`StepDown`).
    """

    def __init__(self, pulse: Pulse, slot: SlotWatch, socket: str, manager: ServiceManager | None) -> None:
        self.pulse = pulse
        self.slot = slot
        self.shell: Shell | None = None
        self.told_to_stop = False
        self.has_run = False
        self.stream_idle_us: int | None = None
        self.sampler: Sampler | None = None
        self.meters = Meters()
        self._socket = socket
        self._between = Sample()  # two machines
        self._http = contextlib.AsyncExitStack()
        self._serves = False
        self._manager = manager or ServiceManager({})
        watch = ServiceWatch(self._manager, lambda: [self.shell] if self.shell is not None else [])
        self._signs = asyncio.get_running_loop().create_task(watch.run())
        self._task = asyncio.current_task()

    async def serve(self, feed: Feed) -> None:
        """Serves HTTP from the first machine on, also while a server is waited for.  Raises ListenError, TlsError."""
        if not self._serves:
            from tidelock.adapters.web.serving import serve, served_at

            for at in served_at(feed, self._socket):
                page = serve(at, self._latest, feed.name, lambda: [self.meters], self._machines, feed.http_tls)
                await self._http.enter_async_context(page)
            self.meters.spans = (await self._http.enter_async_context(tracing(feed)))(0)
            self._serves = True

    def _machines(self) -> list[tuple[int, ApplyMachine]]:
        return [(0, self.shell.machine)] if self.shell is not None else []

    def _latest(self) -> Sample:
        return self.slot.shown(self._between) if self.sampler is None else self.sampler.latest

    def waits(self, at: Literal["source", "target"], said: str, seconds: float) -> None:
        """Notes that no machine runs, because that end cannot be reached."""
        self._between = Sample(unreachable=said, hindrances=(Hindered(at, seconds, said),))

    def took(self) -> None:
        """Notes that this process has had the feed."""
        self.has_run = True

    def begin(self, shell: Shell) -> None:
        """Notes the shell that runs the feed from now on."""
        self.shell = shell
        self._manager.ready()

    async def end(self) -> None:
        """Ends the signs of life, HTTP and the watch."""
        await self._http.aclose()
        await self.slot.end()
        await self.pulse.end()
        self._signs.cancel()

    def let_go(self) -> None:
        """Drops every reference to a shell that is over: its machine may hold all rows that were in flight."""
        if self.shell is not None and self.shell.stepped_down is not None:
            self.stream_idle_us = self.shell.stepped_down.stream_idle_us or self.stream_idle_us
        self.shell = None
        self.sampler, self._between = None, Sample()
        self.pulse.unwatch()

    def stop(self) -> None:
        """Stops the run once what is in flight is finished; at once before anything is."""
        self._manager.stopping()
        if self.shell is not None:
            self.shell.stop()
        elif not self.told_to_stop and self._task is not None:
            self.told_to_stop = True
            self._task.cancel()


async def _begun(
    feed: Feed, until_caught_up: bool, progress: Progress, capture: CaptureProcess, life: _Life, guest: Claim | None
) -> int:
    """Runs as `_run` does, and waits for servers meanwhile.

    A server that cannot be reached is waited for once the feed has run: then its URL is known to be right.  An
    exception of the shell itself is a bug.
    """
    delay, begun, told = FIRST_WAIT_SECONDS, time.monotonic(), ""
    at: Literal["source", "target"]
    while True:
        try:
            return await _run(feed, until_caught_up, progress, capture, life, guest)
        except Unreachable as error:
            if life.shell is not None or not (life.has_run or isinstance(error, Busy)):
                raise
            at, said, hint = "source", error.message, error.hint
        except TargetError as error:
            if life.shell is not None or not (error.passing or (life.has_run and error.unreachable)):
                raise
            at, said, hint = "target", str(error), error.hint
        life.waits(at, said, time.monotonic() - begun)
        advice = "" if said == told else f". {hint}"
        progress.message(f"{said}: tried again in {delay:.0f} s{advice}")
        told = said
        await asyncio.sleep(delay)  # back off, not synchronisation
        delay = min(2 * delay, LONGEST_WAIT_SECONDS)


async def _run(
    feed: Feed, until_caught_up: bool, progress: Progress, capture: CaptureProcess, life: _Life, guest: Claim | None
) -> int:
    """Runs the feed once, until its machine ends.  `guest`: leaves a live run alone."""
    mapping = Mapping(rules_of(feed), feed.schema)
    asked = _ask_target(feed, guest, progress, had=life.has_run)
    loads = asyncio.to_thread(load_sink, feed)
    source, (findings, over, there, begun), _ = await asyncio.gather(_look(feed), asked, loads)
    if findings:
        for finding in findings:
            progress.error(str(finding))
        await capture.stop()
        return REFUSED
    if isinstance(source, SourceError):
        raise source
    await sites.bind(feed)
    await arbiter.agree(feed)
    await arbiter.require_times(feed)
    for pattern in source.unmatched:  # a first run has passed `check`; the log may hold what was dropped since
        progress.message(_unmatched(feed, pattern))
    if source.words and feed.sites is None:
        progress.message(source.words)
    tables = list(dict.fromkeys([*(mapping.target(name) for name in source.tables if mapping.selects(name)), *there]))
    sink = make_sink(feed, mapping, entry=Entry(life.pulse.claim, over))

    async def apply_ddl(effect: ApplyDdl) -> DdlApplied | DdlFailed:
        """The statement may make a table of the feed's; one that has run at the target changes nothing there."""
        made = [mapping.target(name) for name in effect.ddl.tables if mapping.selects(name)]
        tables.extend(name for name in made if name not in tables)
        work = (sink.pass_ddl if effect.ddl.back else sink.apply_ddl)(effect, tables)
        return await long_statement.told(work, effect.ddl.statement, progress.message)

    life.pulse.begin()
    takeover = await take_over(
        feed, source, sink, mapping, tables, progress.message, begun=begun, ours=life.took
    )
    taken, forms = takeover.taken, takeover.forms
    if taken.receipts:  # an older owner may have read on until its last moment, so ask again
        now = await _look(feed)
        taken = msgspec.structs.replace(taken, log_end=now.now if isinstance(now, Overview) else None)
    options = options_of(feed, tables, life.stream_idle_us)
    machine = ApplyMachine(options)
    fault = JournalFault(feed, lambda: life.shell, progress)
    journal = (
        Journal(feed.journal, options, fault, feed.journal_mb << 20, feed.journal_keep) if feed.journal else NoJournal()
    )
    log = EmbeddedLog(
        lambda at, further, stored: order_of(
            feed,
            at,
            images=True,
            further=further,
            stored=stored,
            forms=forms.all,
            keeps_forms=True,
            tables=tuple(taken.tables.values()),
            policies=options.policies,
        ),
        capture,
        taken.checkpoint,
        forms,
        looks=keeps_for_us(feed.source_url),
    )
    exact = feed.conflicts is not None and feed.conflicts.echo == "exact"
    copies = Copies(
        machine,
        sink,
        SparkCopier(feed, progress.message),
        progress.message,
        essential=takeover.essential,
        at_first_alone=exact and feed.direction == "down",
    )
    if any(len(one.merged) < one.split.chunks for one in taken.chunks):
        copies.resume(taken.chunks, await start_copy.rows_merged(feed))
    shell = Shell(machine, sink, log, apply_ddl, journal, copies, meters=life.meters)
    shell.post(taken)
    if until_caught_up:
        log.aim(source.now)
    silent = lambda: Silent(log.silent_seconds, life.pulse.silent_seconds)  # noqa: E731
    sampler = life.sampler = Sampler(machine, shell, progress, silent, feed.ready_seconds, life.slot.shown)
    life.slot.begin()
    await life.serve(feed)
    life.begin(shell)
    permit = PermitWatch(feed, shell, log, machine.status, progress.message) if feed.permit else None
    word = (lambda: permit.word) if permit is not None else None
    life.pulse.watch(shell.displaced, lambda: shell.unanswered, word, lambda: sampler.latest.lag_seconds)
    if fault.stopped:
        shell.stop()
    reporter = asyncio.get_running_loop().create_task(sampler.report())
    if permit is not None:
        shell.beside(permit.run())
    if feed.throttle is not None:
        shell.beside(Throttle(feed, shell, machine.status).run())
    try:
        await shell.run(taken.checkpoint, furthest(taken.receipts, taken.checkpoint))
    finally:
        reporter.cancel()
        await asyncio.gather(reporter, return_exceptions=True)
    code = _ending(machine, shell, progress)
    return OPERATOR if fault.stopped and code in (OK, AGAIN) else code


async def _look(feed: Feed) -> Overview | SourceError:
    """Looks at the source.  An error is kept for later: `check` says the same with the statement that corrects it."""
    try:
        return await asyncio.to_thread(overview_of, feed, first_run=True)
    except SourceError as error:
        return error


def _unmatched(feed: Feed, pattern: str) -> str:
    told = f"no table at {feed.source_url} matches {pattern} now"
    if feed.source_url.dialect == "postgres":
        return told
    schema, user = Pattern.of(pattern).schema, feed.source_url.user
    return f"{told}; if there is one, the user cannot see it: GRANT SELECT ON `{schema}`.* TO '{user}'@'…'"


async def _ask_target(
    feed: Feed, guest: Claim | None, progress: Progress, *, had: bool
) -> tuple[Sequence[Finding], str | None, list[TableName], bool]:
    """Asks the target for: why the feed cannot run; the run that is over (`Entry.over`); the target's tables; and
    whether it holds a checkpoint, which only some sources need to know.  `had`: this process has had the feed, which
    it does not begin anew at another place."""
    async with session(feed.target_url) as target:
        if had and feed.start in _WHEREVER and not await has_run(feed, target):
            raise TargetError(GONE.format(feed.name, feed.target_url), GONE_HINT)
        findings = await refusals(feed, target)
        over = await admitted(target, guest, progress.message) if guest and not findings else None
        asks = (keeps_for_us(feed.source_url) or feed.starts_at_moment) and not findings
        begun = not asks or await has_place(feed, target)
        return findings, over, await tables_there(feed, target), begun


async def fix_start(feed: Feed) -> Position | None:
    """Stores where the first run begins (`init --apply`), so that `start: now` means the time of init.

    Returns None where a position is stored already.
    """
    await refuse_same_tables(feed)
    source = await asyncio.to_thread(overview_of, feed, first_run=True)
    await sites.bind(feed)
    await arbiter.agree(feed)
    if feed.start == "copy":
        await start_copy.ask(feed, Mapping(rules_of(feed), feed.schema), source.tables)
    return await first_place(feed, source)


def _ending(machine: ApplyMachine, shell: Shell, progress: Progress) -> int:
    seen = machine.status()
    progress.update(sample_of(seen, shell, 0.0))
    if shell.halt is not None:
        progress.error(str(shell.halt.alarm))
        return OPERATOR
    if shell.refusal is not None:
        progress.error(
            "the feed begins with this copy (`start: copy`, `tidelock resync`), so nothing runs without it"
        )
        return REFUSED
    if shell.stepped_down is not None:
        tell = progress.message if shell.stepped_down.again else progress.error
        tell(shell.stepped_down.reason)
        if shell.stopping and shell.stepped_down.again:
            return OK
        return AGAIN if shell.stepped_down.again else REFUSED
    if seen is not None and seen.parked and shell.caught_up:
        progress.error(f"{seen.parked} failed rows: `tidelock rows list FEED` shows them")
        return OPERATOR
    return OK
