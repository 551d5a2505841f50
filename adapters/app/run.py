"""`tidelock run`: runs one feed, embedded: source log → capture machine → apply machine → target, in one process tree.

Start-up overlaps what it can: the capture process imports while this one does, asks the source and takes the target
over.
"""

from __future__ import annotations

import asyncio
import time
from importlib import import_module
from typing import Literal

from tidelock.adapters.app import at_target
from tidelock.adapters.app.pulse import Pulse
from tidelock.adapters.app.run_life import AGAIN, OK, REFUSED, RunLife
from tidelock.adapters.bookkeeping.lease import Claim, Overtaken
from tidelock.adapters.checks.same_tables import refuse_same_tables
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.operator import arbiter, sites, start_copy, unlogged
from tidelock.adapters.operator.first_place import first_place
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source_errors import Busy, SourceError, Unreachable
from tidelock.adapters.process.gc_tuning import calm, forget
from tidelock.adapters.process.service_manager import ServiceManager
from tidelock.adapters.process.signals import heard
from tidelock.adapters.runtime.progress import Progress
from tidelock.adapters.runtime.slot_watch import SlotWatch
from tidelock.adapters.wiring.capture import CaptureProcess
from tidelock.adapters.wiring.sinks import load_sink
from tidelock.adapters.wiring.sources import look, overview_of
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.records import Position

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
    life = RunLife(Pulse(feed, claim), SlotWatch(feed.source_url), socket, manager)
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


async def _begun(
    feed: Feed, until_caught_up: bool, progress: Progress, capture: CaptureProcess, life: RunLife, guest: Claim | None
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
    feed: Feed, until_caught_up: bool, progress: Progress, capture: CaptureProcess, life: RunLife, guest: Claim | None
) -> int:
    """Runs the feed once, until its machine ends.  `guest`: leaves a live run alone."""
    asked = at_target.ask(feed, guest, progress.message, had=life.has_run)
    source, target, _ = await asyncio.gather(look(feed), asked, asyncio.to_thread(_load, feed))
    if target.findings:
        for finding in target.findings:
            progress.error(str(finding))
        await capture.stop()
        return REFUSED
    if isinstance(source, SourceError):
        await unlogged.keep(feed, source)
        raise source
    await sites.bind(feed)
    await arbiter.agree(feed)
    await arbiter.require_times(feed)
    for pattern in source.unmatched:  # a first run has passed `check`; the log may hold what was dropped since
        progress.message(_unmatched(feed, pattern))
    if source.words and feed.sites is None:
        progress.message(source.words)
    from tidelock.adapters.app.embedded_run import follow

    return await follow(feed, source, target, until_caught_up, progress, capture, life)


def _load(feed: Feed) -> None:
    """Imports what comes behind the takeover, while servers are waited for."""
    load_sink(feed)
    import_module("tidelock.adapters.app.embedded_run")


def _unmatched(feed: Feed, pattern: str) -> str:
    told = f"no table at {feed.source_url} matches {pattern} now"
    if feed.source_url.dialect == "postgres":
        return told
    schema, user = Pattern.of(pattern).schema, feed.source_url.user
    return f"{told}; if there is one, the user cannot see it: GRANT SELECT ON `{schema}`.* TO '{user}'@'…'"


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


