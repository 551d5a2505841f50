"""`tidelock run` and `tidelock replay`."""

from __future__ import annotations

import sys
from json import dumps

from adapters.cli.failure import OK, CommandError
from adapters.config import load


def run(path: str, until_caught_up: bool, json: bool) -> int:
    feed = load(path)
    import uvloop

    from adapters.progress import progress_on
    from adapters.run import run as run_feed

    progress = progress_on(sys.stdout, feed.name, json)
    try:
        return uvloop.run(run_feed(feed, until_caught_up, progress))
    finally:
        progress.close()


def replay(path: str, json: bool) -> int:
    try:
        open(path, "rb").close()
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or 'cannot be read'}") from None
    from adapters.journal import JournalError
    from adapters.journal import replay as replay_journal

    try:
        for line in replay_journal(path):
            print(dumps(line, ensure_ascii=False) if json else line)
    except JournalError as error:
        raise CommandError(str(error)) from None
    return OK
