"""The run of a feed from its takeover to its end: source log → capture process → apply machine → target.

What it imports takes as long as a server takes to answer, so it is imported while servers are asked (`app.run`).
"""

from __future__ import annotations

import asyncio

import msgspec

from tidelock.adapters.app.at_target import AtTarget
from tidelock.adapters.app.embedded_log import EmbeddedLog
from tidelock.adapters.app.journal_fault import JournalFault
from tidelock.adapters.app.run_life import AGAIN, OK, OPERATOR, REFUSED, RunLife
from tidelock.adapters.app.takeover import Takeover, take_over
from tidelock.adapters.bookkeeping.lease import Entry
from tidelock.adapters.config.apply_options import options_of
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.operator import start_copy
from tidelock.adapters.ports.sink import Sink
from tidelock.adapters.ports.source import Overview
from tidelock.adapters.row_copy.copier import SparkCopier
from tidelock.adapters.runtime import long_statement
from tidelock.adapters.runtime.apply_shell import Shell
from tidelock.adapters.runtime.copy_shell import Copies
from tidelock.adapters.runtime.journal import Journal, NoJournal
from tidelock.adapters.runtime.permit_watch import PermitWatch
from tidelock.adapters.runtime.progress import Progress
from tidelock.adapters.runtime.sampler import Sampler, Silent, sample_of
from tidelock.adapters.runtime.throttle import Throttle
from tidelock.adapters.wiring.capture import CaptureProcess
from tidelock.adapters.wiring.capture_order import order_of
from tidelock.adapters.wiring.sinks import make_sink
from tidelock.adapters.wiring.sources import keeps_for_us, look
from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.log.receipts import furthest
from tidelock.engine.model.options import Options
from tidelock.engine.protocol.effects import ApplyDdl
from tidelock.engine.protocol.events import DdlApplied, DdlFailed


async def follow(
    feed: Feed,
    source: Overview,
    target: AtTarget,
    until_caught_up: bool,
    progress: Progress,
    capture: CaptureProcess,
    life: RunLife,
) -> int:
    """Takes the feed over and runs it until its machine ends; returns the exit code, or AGAIN."""
    mapping = Mapping(rules_of(feed), feed.schema)
    mapped = [mapping.target(name) for name in source.tables if mapping.selects(name)]
    tables = list(dict.fromkeys([*mapped, *target.tables]))
    sink = make_sink(feed, mapping, entry=Entry(life.pulse.claim, target.over))
    life.pulse.begin()
    takeover = await take_over(
        feed, source, sink, mapping, tables, progress.message, begun=target.begun, ours=life.took
    )
    taken = takeover.taken
    if taken.receipts:  # an older owner may have read on until its last moment, so ask again
        now = await look(feed)
        taken = msgspec.structs.replace(taken, log_end=now.now if isinstance(now, Overview) else None)
    options = options_of(feed, tables, life.stream_idle_us, takeover.left_behind)
    machine = ApplyMachine(options)
    fault = JournalFault(feed, lambda: life.shell, progress)
    journal = (
        Journal(feed.journal, options, fault, feed.journal_mb << 20, feed.journal_keep) if feed.journal else NoJournal()
    )
    log = _log(feed, takeover, options, capture)
    copies = await _copies(feed, machine, sink, takeover, progress)

    async def apply_ddl(effect: ApplyDdl) -> DdlApplied | DdlFailed:
        """The statement may make a table of the feed's; one that has run at the target changes nothing there."""
        made = [mapping.target(name) for name in effect.ddl.tables if mapping.selects(name)]
        tables.extend(name for name in made if name not in tables)
        work = (sink.pass_ddl if effect.ddl.back else sink.apply_ddl)(effect, tables)
        return await long_statement.told(work, effect.ddl.statement, progress.message)

    shell = Shell(machine, sink, log, apply_ddl, journal, copies, meters=life.meters)
    shell.post(taken)
    if until_caught_up:
        log.aim(source.now)

    def silent() -> Silent:
        return Silent(log.silent_seconds, life.pulse.silent_seconds)

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


def _log(feed: Feed, takeover: Takeover, options: Options, capture: CaptureProcess) -> EmbeddedLog:
    taken, forms = takeover.taken, takeover.forms
    return EmbeddedLog(
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


async def _copies(feed: Feed, machine: ApplyMachine, sink: Sink, takeover: Takeover, progress: Progress) -> Copies:
    exact = feed.conflicts is not None and feed.conflicts.echo == "exact"
    copies = Copies(
        machine,
        sink,
        SparkCopier(feed, progress.message),
        progress.message,
        essential=takeover.essential,
        at_first_alone=exact and feed.direction == "down",
    )
    chunks = takeover.taken.chunks
    if any(len(one.merged) < one.split.chunks for one in chunks):
        copies.resume(chunks, await start_copy.rows_merged(feed))
    return copies


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
