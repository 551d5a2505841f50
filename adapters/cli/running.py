"""`tidelock run` and `tidelock replay`."""

from __future__ import annotations

import sys
from json import dumps

import msgspec

from tidelock.adapters.cli.failure import OK, CommandError
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.feed_file import load


def run(
    path: str, until_caught_up: bool, json: bool, take_over: bool, without_permit: bool = False, socket: str = ""
) -> int:
    """Runs a feed; returns the exit code.

    One that ends by itself once it has caught up asks no permit: of two, the first to end would stop the other.
    """
    feed = load(path)
    if until_caught_up or without_permit:
        feed = msgspec.structs.replace(feed, permit=None)
    if feed.log_url is not None:
        raise CommandError(f"{path}: `log` is in Kafka: that is `tidelock worker FEED`; `run` needs log: embedded")
    if feed.target_url.scheme == "hive":
        if take_over:
            raise CommandError(f"{path}: a feed with a Hive target knows no --take-over")
        return _hive(feed, until_caught_up, json)
    from tidelock.adapters.process.service_manager import ServiceManager
    from tidelock.adapters.wiring.capture import CaptureProcess

    manager = ServiceManager()
    capture = CaptureProcess(feed.source_url, statements=feed.starts_where_kept)  # it imports while we do
    import uvloop

    from tidelock.adapters.app.run import run as run_feed
    from tidelock.adapters.compiled import forms as compiled_forms
    from tidelock.adapters.runtime.progress import progress_on

    progress = progress_on(sys.stdout, feed.name, json)
    progress.message(compiled_forms.one_line(feed.source_url.dialect))
    work = run_feed(feed, until_caught_up, progress, capture, by_force=take_over, socket=socket, manager=manager)
    try:
        return uvloop.run(work)
    finally:
        progress.close()


def _hive(feed: Feed, until_caught_up: bool, json: bool) -> int:
    from tidelock.adapters.cli.termination import terminated
    from tidelock.adapters.hive.run import run as run_feed
    from tidelock.adapters.process.service_manager import ServiceManager
    from tidelock.adapters.runtime.progress import progress_on

    manager = ServiceManager()
    progress = progress_on(sys.stdout, feed.name, json)
    try:
        with terminated():
            return run_feed(feed, until_caught_up, progress, manager)
    finally:
        progress.close()


def worker(path: str, name: str, until_caught_up: bool, json: bool, socket: str = "") -> int:
    """Runs one worker of a feed; returns the exit code."""
    feed = load(path)
    if feed.log_url is None:
        raise CommandError(f"{path}: `log` is embedded: that is `tidelock run`; a worker needs log: kafka://host:9092")
    import uvloop

    from tidelock.adapters.compiled import forms as compiled_forms
    from tidelock.adapters.process.service_manager import ServiceManager
    from tidelock.adapters.runtime.progress import progress_on
    from tidelock.adapters.workers.worker_main import work

    manager = ServiceManager()
    progress = progress_on(sys.stdout, feed.name, json)
    progress.message(compiled_forms.one_line(feed.source_url.dialect))
    try:
        return uvloop.run(work(feed, name, until_caught_up, progress, socket, manager))
    finally:
        progress.close()


def replay(path: str, json: bool) -> int:
    """Prints a recorded run step by step; returns the exit code."""
    try:
        open(path, "rb").close()
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or 'cannot be read'}") from None
    from tidelock.adapters.runtime.journal import JournalError
    from tidelock.adapters.runtime.journal import replay as replay_journal

    try:
        for line in replay_journal(path):
            print(dumps(line, ensure_ascii=False) if json else line)
    except JournalError as error:
        raise CommandError(str(error), error.hint) from None
    return OK
