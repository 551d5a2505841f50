"""`tidelock verify --every`: compares a share of all rows each round, until stopped; prints a line a round, serves
metrics if asked.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tidelock.adapters.cli.failure import DIFFERENT, OK, CommandError, explained
from tidelock.adapters.cli.termination import terminated
from tidelock.adapters.cli.verifying import Screen, summary, write
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.feed_file import load

if TYPE_CHECKING:
    from tidelock.adapters.verify.schedule import ScheduleState


class Schedule(msgspec.Struct, frozen=True):
    """The options of the command.  `place`: file of its state, '' for the usual one; `http`: `HOST:PORT` or ''."""

    every: str
    share: float
    place: str = ""
    http: str = ""
    report: str = ""
    stop_on_difference: bool = False


def verify_on(path: str, tables: Sequence[str], wait: float, json: bool, wanted: Schedule) -> int:
    """Compares round after round until SIGTERM or Ctrl-C, which are no failure; returns the exit code."""
    from tidelock.adapters.config.moments import span
    from tidelock.adapters.verify import schedule

    feed, every = load(path), span(wanted.every)
    if every is None or not every:
        raise CommandError(f"--every {wanted.every} is no length of time", "Write 30min, 1h, 1d")
    place = Path(wanted.place) if wanted.place else schedule.place_of(feed)
    state = schedule.load(place)
    try:
        with terminated(), _served(wanted.http, state, feed):
            while True:
                begun = time.monotonic()
                differs = _round(feed, tables, wait, json, wanted, state)
                _store(place, state)
                if differs and wanted.stop_on_difference:
                    return DIFFERENT
                threading.Event().wait(max(every.total_seconds() - (time.monotonic() - begun), 0.0))
    except KeyboardInterrupt:
        return OK


def _round(feed: Feed, tables: Sequence[str], wait: float, json: bool, wanted: Schedule, state: ScheduleState) -> bool:
    """Runs one round and returns whether it found differences.  A failure is printed, and the next round tries again.
    """
    from tidelock.adapters.ports.target_inspection import CannotRun
    from tidelock.adapters.verify.schedule import round_of

    try:
        with Screen(feed.name, False, True) as screen:
            report = round_of(feed, tables, wanted.share, state, wait, screen)
    except CannotRun as refused:
        _failed(feed, state, f"{refused.finding.message}. {refused.finding.hint}")
        return False
    except Exception as error:
        said = explained(error)
        if said is None:
            raise
        _failed(feed, state, said[0])
        return False
    if wanted.report and not report.equal:
        write(wanted.report, msgspec.json.format(msgspec.json.encode(report), indent=2))
    if json:
        print(msgspec.json.encode(report).decode(), flush=True)
    else:
        names = ", ".join(dict.fromkeys(table.table for table in report.tables))
        done = f"{state.share:.0%} of pass {state.passes + 1}" if state.place.table else f"pass {state.passes} is done"
        print(f"{feed.name}: {summary(report)}; {names}; {done}", flush=True)
    return not report.equal


def _failed(feed: Feed, state: ScheduleState, why: str) -> None:
    state.failures += 1
    print(f"{feed.name}: not compared: {why}", file=sys.stderr, flush=True)


def _store(place: Path, state: ScheduleState) -> None:
    from tidelock.adapters.verify.schedule import store

    try:
        store(place, state)
    except OSError as error:
        raise CommandError(
            f"{place}: {error.strerror or 'cannot be written'}", "Say with --place where it may keep how far it is"
        ) from None


@contextmanager
def _served(http: str, state: ScheduleState, feed: Feed) -> Iterator[None]:
    from tidelock.adapters.verify.schedule import metrics
    from tidelock.adapters.web.plain import served
    from tidelock.adapters.web.serving import ready_tls

    host, colon, port = http.rpartition(":")
    if http and not (colon and port.isdigit()):
        raise CommandError(f"--http {http} is no address", "Write HOST:PORT")
    if not http:
        yield
        return
    tls = ready_tls(feed.http_tls)
    with served((host.strip("[]"), int(port)), lambda: metrics(state, feed.name), tls) as number:
        print(f"{feed.name}: metrics at http{'s' if tls else ''}://{host}:{number}/metrics", flush=True)
        yield
